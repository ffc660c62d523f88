#include "worker/engine/ops/gradient_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/philox.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/batches/batch.h"
#include "worker/engine/memory/arena.h"
#include "worker/engine/ops/dense.h"
#include "worker/engine/ops/experts.h"

namespace coxswain::engine {
namespace gradient_sum_test {
namespace {

constexpr int64_t kRows = 3, kIn = 24, kOut = 40;

std::vector<float> Draw(int64_t n, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(*random);
  return values;
}

std::vector<const Linear*> Linears(const Model& model) {
  std::vector<const Linear*> linears;
  for (const Block& block : model.blocks) {
    for (const auto& [id, linear] : block.linears) linears.push_back(&linear);
  }
  return linears;
}

// The gradient of a linear over many micro-steps on the CPU, whose products are float32.
class ManyMicroSteps {
 public:
  ManyMicroSteps(plan::GradientSum sum, kernels::DType gradient_dtype)
      : gradient_(kOut * kIn), companion_(kOut * kIn), exact_(kOut * kIn), term_(kIn * 7 + 1) {
    model_.gradient_sum = sum;
    model_.seed = 11;
    weight_.gradient = gradient_.data();
    weight_.companion = companion_.data();
    weight_.gradient_dtype = gradient_dtype;
    buffers_.scalars = &scalars_;
    buffers_.first_bin = &bin_;
    buffers_.gradient_term = {term_.data(), static_cast<int64_t>(4 * term_.size())};
  }

  void Run(int micro_steps) {
    std::mt19937 random(5);
    const std::vector<float> signal = Draw(kIn, &random);
    for (; bin_ < static_cast<uint32_t>(micro_steps); ++bin_) {
      const std::vector<float> dy = Draw(kRows * kOut, &random);
      std::vector<float> x = Draw(kRows * kIn, &random);
      for (size_t i = 0; i < x.size(); ++i) x[i] += signal[i % kIn] * dy[i / kIn * kOut];
      const Sweep sweep{model_, buffers_, ops_, {}, nullptr, bin_ == 0};
      DenseWeightGradient(sweep, {&weight_, kRows, kIn, kOut},
                          {dy.data(), x.data(), FindsGradient(sweep, weight_)});
      Follow(dy, x);
    }
  }

  double RelativeError() const {
    const std::vector<float> found =
        ReadFloats(gradient_.data(), weight_.gradient_dtype, kOut * kIn);
    double error = 0, norm = 0;
    for (size_t i = 0; i < exact_.size(); ++i) {
      error += (found[i] - exact_[i]) * (found[i] - exact_[i]);
      norm += exact_[i] * exact_[i];
    }
    return std::sqrt(error / norm);
  }
  // What the gradient in float32 says, rounded once.
  bool takes_terms() const {
    return TakesTerms({model_, buffers_, ops_, {}, nullptr, false}, weight_);
  }

 private:
  void Follow(const std::vector<float>& dy, const std::vector<float>& x) {
    for (size_t o = 0; o < kOut; ++o) {
      for (size_t i = 0; i < kIn; ++i) {
        for (size_t t = 0; t < kRows; ++t) {
          exact_[o * kIn + i] += static_cast<double>(dy[t * kOut + o]) * x[t * kIn + i];
        }
      }
    }
  }

  Model model_;
  Buffers buffers_;
  BoundModel ops_;
  Scalars scalars_;
  Tensor weight_;
  uint32_t bin_ = 0;
  std::vector<float> gradient_, companion_;
  std::vector<double> exact_;
  std::vector<float> term_;
};

constexpr double kRounding = 0x1p-8;

// The terms come in ranges of 7 rows. A compensated gradient is off by a rounding of itself (u at
// most) and by 1,024 of u^2, of either sign; the product in float32 adds nothing that shows.
TEST(GradientSumTest, ACompensatedGradientOfManyMicroStepsIsOffByOneRounding) {
  for (const int micro_steps : {1, 256, 1024}) {
    ManyMicroSteps sum(plan::GradientSum::kCompensated, kernels::DType::kBFloat16);
    EXPECT_TRUE(sum.takes_terms());
    sum.Run(micro_steps);
    EXPECT_GT(sum.RelativeError(), 0.1 * kRounding);
    EXPECT_LT(sum.RelativeError(), kRounding) << micro_steps;
  }
}

// Independent roundings of at most u of a partial sum, which is below the whole one on average.
TEST(GradientSumTest, AStochasticGradientErrsByTheRootOfItsTerms) {
  for (const int micro_steps : {1, 256, 1024}) {
    ManyMicroSteps sum(plan::GradientSum::kStochastic, kernels::DType::kBFloat16);
    sum.Run(micro_steps);
    EXPECT_LT(sum.RelativeError(), kRounding * std::sqrt(micro_steps)) << micro_steps;
  }
}

TEST(GradientSumTest, AFloat32GradientIsAddedByTheProduct) {
  ManyMicroSteps sum(plan::GradientSum::kNearest, kernels::DType::kFloat32);
  EXPECT_FALSE(sum.takes_terms());
  sum.Run(256);
  EXPECT_LT(sum.RelativeError(), 1e-5);
}

TEST(GradientSumTest, ASlotTakesItsOnlyTermAsItIs) {
  ManyMicroSteps sum(plan::GradientSum::kCompensated, kernels::DType::kFloat32);
  EXPECT_FALSE(sum.takes_terms());
  Model model;
  model.gradient_sum = plan::GradientSum::kCompensated;
  const Buffers buffers;
  const BoundModel ops;
  const Sweep sweep{model, buffers, ops, {}, nullptr, false};
  Tensor weight;
  weight.gradient_dtype = kernels::DType::kBFloat16;
  EXPECT_TRUE(TakesTerms(sweep, weight));
  weight.gradient_slotted = true;
  EXPECT_FALSE(TakesTerms(sweep, weight));
  EXPECT_EQ(SumOf(sweep, weight).mode, kernels::GradientSumMode::kNearest);
}

// Five experts, one of them without rows, of which the term holds two. Sums of small integers are
// exact in bfloat16.
TEST(GradientSumTest, ExpertsTakeTheirTermsAFewAtATime) {
  constexpr int64_t kExperts = 5, kTokens = 12, kWidth = 4, kOutputs = 3;
  const std::vector<int32_t> offsets = {0, 3, 4, 4, 9, 12};
  std::vector<float> x(kTokens * kWidth), dy(kTokens * kOutputs);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2;
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i % 3) - 1;
  const auto gradient = [&](plan::GradientSum sum, kernels::DType dtype) {
    constexpr int64_t kElements = kExperts * kOutputs * kWidth;
    std::vector<float> found(kElements, 77.0f), companion(kElements),
        term(2 * kOutputs * kWidth + 1);
    ExpertLinear linear;
    linear.weight.gradient = found.data();
    linear.weight.gradient_dtype = dtype;
    linear.weight.companion = companion.data();
    BoundGroupedLinear op;
    op.linear = &linear;
    op.spec = {.experts = kExperts, .in_features = kWidth, .out_features = kOutputs};
    op.rows.offsets = const_cast<int32_t*>(offsets.data());
    op.rows.chosen = 1;
    op.x = x.data();
    op.dy = dy.data();
    Model model;
    model.gradient_sum = sum;
    Buffers buffers;
    Scalars scalars;
    uint32_t bin = 0;
    buffers.scalars = &scalars;
    buffers.first_bin = &bin;
    buffers.gradient_term = {term.data(), static_cast<int64_t>(4 * term.size())};
    const BoundModel ops;
    MicroBatch batch;
    batch.tokens = kTokens;
    for (; bin < 3; ++bin) {
      ExpertsBackward({model, buffers, ops, batch, nullptr, bin == 0}, op);
    }
    return ReadFloats(found.data(), dtype, kElements);
  };
  const auto float32 = gradient(plan::GradientSum::kNearest, kernels::DType::kFloat32);
  EXPECT_GT(*std::max_element(float32.begin(), float32.end()), 0);
  for (const auto sum : {plan::GradientSum::kStochastic, plan::GradientSum::kCompensated}) {
    EXPECT_EQ(gradient(sum, kernels::DType::kBFloat16), float32);
  }
}

// Whichever rank stages it.
TEST(GradientSumTest, DrawsAreNamedByTheFirstBinOfAMicroStep) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.gradient_dtype = "bfloat16";
  options.gradient_sum = plan::GradientSum::kStochastic;
  const plan::Plan plan = MakePlan(SmallConfig(), options);
  const ParameterLayout layout(plan, 0);
  std::string doing;
  Arena arena = Arena::Allocate(plan.buffers, &doing);
  const Buffers buffers = BindBuffers(plan, layout, arena).value();
  const Model model = BuildModel(plan, layout, buffers.flats).value();
  const BoundModel ops;
  const Sweep sweep{model, buffers, ops, {}, nullptr, false};
  const Tensor& weight = Linears(model)[1]->weight;
  const kernels::GradientSum sum = SumOf(sweep, weight, 7);
  const std::array<uint32_t, 2> key = PhiloxKey(plan.seed, RandomPurpose::kGradientRounding);
  EXPECT_EQ(sum.mode, kernels::GradientSumMode::kStochastic);
  EXPECT_EQ((std::array<uint32_t, 2>{sum.key[0], sum.key[1]}), key);
  EXPECT_EQ(sum.step, &buffers.scalars->step);
  EXPECT_EQ(sum.part, 7u);
  EXPECT_EQ(sum.number, weight.number);
  BinBatch bins = RandomBins({{5}, {6}, {7}, {8}, {9}}, plan.model.vocab_size, 1);
  bins.bin_ids = {40, 3, 17, 5, 90};
  BatchStager stager(plan);
  BinCursor cursor;
  for (const uint32_t first : {40u, 17u, 90u}) {
    stager.StageNext(bins, buffers, nullptr, &cursor, 1);
    EXPECT_EQ(*sum.bin, first);
  }
}

// Where the elements of a tensor lie in memory differs from mesh to mesh; their draws do not.
TEST(GradientSumTest, NumbersOfElementsAreThoseOfOneRank) {
  PlanOptions options;
  options.init = "random";
  model::ModelConfig config = SmallConfig();
  config.tie_embeddings = false;
  const auto numbers = [&](int32_t shard, int32_t rank) {
    options.shard = shard;
    options.zero = shard > 1 ? 1 : 0;
    const plan::Plan plan = MakePlan(config, options);
    const ParameterLayout layout(plan, rank);
    // Any addresses: nothing is read.
    std::vector<FlatMemory> flats(layout.map.flats.size());
    for (size_t f = 0; f < flats.size(); ++f) {
      flats[f].values = flats[f].gradient = reinterpret_cast<void*>((f + 1) << 32);
    }
    const auto model = BuildModel(plan, layout, flats);
    EXPECT_TRUE(model.ok()) << model.status();
    std::vector<int64_t> found = {model->embedding.number, model->head.number};
    for (const Linear* linear : Linears(*model)) found.push_back(linear->weight.number);
    return found;
  };
  const std::vector<int64_t> one = numbers(1, 0);
  EXPECT_EQ(numbers(3, 0), one);
  EXPECT_EQ(numbers(3, 2), one);
  std::vector<int64_t> sorted = one;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
}

}  // namespace
}  // namespace gradient_sum_test
}  // namespace coxswain::engine
