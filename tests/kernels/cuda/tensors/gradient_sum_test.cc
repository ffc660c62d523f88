#include "kernels/tensors/gradient_sum.h"

#include <utility>

#include "kernels/tensors/gradient_sum_element.h"
#include "kernels/tensors/rows.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_gradient_sum_test {
namespace {

constexpr uint32_t kStep = 5, kBin = 11;

GradientDraws Draws(const GradientSum& sum) {
  return {.bin = kBin, .step = kStep, .part = sum.part};
}

// What the CPU computes: the same functions of an element.
void AddOnHost(const GradientSum& sum, bool accumulate, const Floats& term, Floats* gradient,
               Floats* companion) {
  for (size_t i = 0; i < term.size(); ++i) {
    float g = accumulate ? (*gradient)[i] : 0.0f, c = accumulate ? (*companion)[i] : 0.0f;
    const int64_t element = sum.number + static_cast<int64_t>(i);
    if (sum.mode == GradientSumMode::kCompensated) {
      AddCompensated(term[i], &g, &c);
    } else if (sum.mode == GradientSumMode::kStochastic) {
      const PhiloxWords words =
          Philox(GradientDrawsCounter(Draws(sum), element / 8), sum.key[0], sum.key[1]);
      g = CutToBfloat16(g + term[i], DrawOfElement(words, static_cast<int>(element % 8)));
    } else {
      g = RoundToBfloat16(g + term[i]);
    }
    (*gradient)[i] = g;
    (*companion)[i] = c;
  }
}

// The words that a launch reads.
class Words {
 public:
  void SetIn(GradientSum* sum) const {
    sum->step = words_.data();
    sum->bin = words_.data() + 1;
  }

 private:
  const DeviceValues<uint32_t> words_{{kStep, kBin}};
};

class GradientSumGpuTest : public testing::TestWithParam<GradientSumMode> {};

TEST_P(GradientSumGpuTest, HasTheBitsOfTheCpu) {
  const Words words;
  for (const int64_t n : {1, 7, 8, 9, 255, 100003}) {
    for (const bool accumulate : {false, true}) {
      Floats gradient = Normal(n, 1, DType::kBFloat16), companion(gradient.size());
      for (size_t i = 0; i < gradient.size(); ++i) {
        companion[i] = RoundToBfloat16(gradient[i] * 0x1p-10f);
      }
      const Floats term = Normal(n, 2, DType::kFloat32);
      const DeviceTensor g(DType::kBFloat16, gradient), c(DType::kBFloat16, companion);
      const DeviceTensor x(DType::kFloat32, term);
      GradientSum sum{.mode = GetParam(),
                      .companion = c.data(),
                      .key = {3, 4},
                      .part = 2,
                      .number = int64_t{8} << 33};
      words.SetIn(&sum);
      AddToGradient({.count = n,
                     .term = x.floats(),
                     .accumulate = accumulate,
                     .gradient = g.data(),
                     .sum = sum},
                    TestStream());
      AddOnHost(sum, accumulate, term, &gradient, &companion);
      ASSERT_EQ(g.Read(), gradient) << n;
      if (GetParam() == GradientSumMode::kCompensated) {
        ASSERT_EQ(c.Read(), companion) << n;
      }
    }
  }
}

// Ranges that begin anywhere, as those of a product do.
TEST_P(GradientSumGpuTest, RangesHaveTheBitsOfTheWhole) {
  const Words words;
  constexpr int64_t kCount = 4099;
  const Floats gradient = Normal(kCount, 1, DType::kBFloat16), zeros(Size(kCount));
  const Floats term = Normal(kCount, 2, DType::kFloat32);
  const DeviceTensor x(DType::kFloat32, term);
  Floats whole;
  for (const int64_t cut : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{1001}}) {
    const DeviceTensor g(DType::kBFloat16, gradient), c(DType::kBFloat16, zeros);
    GradientSum sum{.mode = GetParam(), .companion = c.data(), .key = {3, 4}};
    words.SetIn(&sum);
    for (const auto& [begin, end] : {std::pair{int64_t{0}, cut}, std::pair{cut, kCount}}) {
      AddToGradient({.count = end - begin,
                     .term = x.floats() + begin,
                     .gradient = static_cast<char*>(g.data()) + 2 * begin,
                     .sum = sum.From(begin)},
                    TestStream());
    }
    if (cut == 0) whole = g.Read();
    EXPECT_EQ(g.Read(), whole) << cut;
  }
}

// Rows of few and of many tokens: those inside a chunk of the kernel, and those over several.
TEST_P(GradientSumGpuTest, RowsOfTheEmbeddingTakeTheirSumAsATerm) {
  const Words words;
  constexpr int64_t kVocab = 37, kTokens = 700;
  for (const int64_t hidden : {64, 7}) {
    std::vector<int32_t> ids(Size(kTokens));
    for (size_t t = 0; t < ids.size(); ++t) ids[t] = t % 3 == 0 ? 5 : static_cast<int32_t>(t % 31);
    const EmbeddingSpec spec{.dtype = DType::kBFloat16,
                             .grad_dtype = DType::kFloat32,
                             .vocab = kVocab,
                             .hidden = hidden};
    const DeviceTensor dout(DType::kBFloat16, Normal(kTokens * hidden, 1, DType::kBFloat16));
    const DeviceTensor sums(DType::kFloat32, Floats(Size(kVocab * hidden)));
    Floats gradient = Normal(kVocab * hidden, 2, DType::kBFloat16), companion(gradient.size());
    const DeviceTensor g(DType::kBFloat16, gradient), c(DType::kBFloat16, companion);
    const DeviceValues<int32_t> device_ids(ids);
    const Scratch scratch(EmbeddingBackwardWorkspaceBytes(spec, kTokens));
    EmbeddingBackwardArgs args{.spec = spec,
                               .tokens = kTokens,
                               .ids = device_ids.data(),
                               .dout = dout.data(),
                               .dweight = sums.data(),
                               .workspace = scratch.workspace()};
    EmbeddingBackward(args, TestStream());  // the terms
    args.spec.grad_dtype = DType::kBFloat16;
    args.dweight = g.data();
    args.sum = {.mode = GetParam(), .companion = c.data(), .key = {3, 4}, .number = 16};
    words.SetIn(&args.sum);
    EmbeddingBackward(args, TestStream());
    AddOnHost(args.sum, true, sums.Read(), &gradient, &companion);
    EXPECT_EQ(g.Read(), gradient) << hidden;
    if (GetParam() == GradientSumMode::kCompensated) {
      EXPECT_EQ(c.Read(), companion) << hidden;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, GradientSumGpuTest,
                         testing::Values(GradientSumMode::kNearest, GradientSumMode::kStochastic,
                                         GradientSumMode::kCompensated));

}  // namespace
}  // namespace gpu_gradient_sum_test
}  // namespace coxswain::kernels
