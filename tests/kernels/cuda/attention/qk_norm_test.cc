#include "kernels/attention/heads.h"

#include <algorithm>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/norms.h"

namespace coxswain::kernels {
namespace gpu_qk_norm_test {
namespace {

constexpr float kEps = 1e-6f;
constexpr double kUnit32 = 0x1p-24;

double Largest(const Doubles& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

struct Problem {
  Problem(const QkNormSpec& spec, int64_t tokens)
      : spec(spec),
        tokens(tokens),
        qkv(Normal(tokens * row(), 1, spec.dtype)),
        dqkv(Normal(tokens * row(), 2, spec.dtype)),
        q_weight(Normal(width(0), 3, spec.dtype)),
        k_weight(Normal(width(1), 4, spec.dtype)),
        device_q_weight(spec.dtype, q_weight),
        device_k_weight(spec.dtype, k_weight) {
    for (float& value : qkv) value = Round(value + (value > 0 ? 0.5f : -0.5f), spec.dtype);
  }
  int64_t heads(int part) const { return part == 0 ? spec.num_heads : spec.num_kv_heads; }
  // Norms of a token over q (part 0) or k, and elements of one.
  int64_t norms(int part) const { return spec.whole ? 1 : heads(part); }
  int64_t width(int part) const { return (spec.whole ? heads(part) : 1) * spec.head_dim; }
  int64_t normed() const { return (heads(0) + heads(1)) * spec.head_dim; }
  int64_t row() const { return normed() + heads(1) * spec.head_dim; }

  QkNormSpec spec;
  int64_t tokens;
  Floats qkv, dqkv, q_weight, k_weight;
  DeviceTensor device_q_weight, device_k_weight;
};

struct Result {
  Floats qkv, saved, rstd, dqkv, dq_weight, dk_weight;
};

// The weight gradients start at 0.5 and -0.5. `shift` moves qkv off its alignment by one element.
Result RunBoth(const Problem& p, bool frozen = false, int64_t shift = 0) {
  const DType dtype = p.spec.dtype;
  Floats moved(Size(shift), 0.0f);
  moved.insert(moved.end(), p.qkv.begin(), p.qkv.end());
  const DeviceTensor qkv(dtype, moved), dqkv(dtype, p.dqkv);
  const DeviceTensor saved(dtype, p.tokens * p.normed());
  const DeviceTensor rstd(DType::kFloat32, p.tokens * (p.norms(0) + p.norms(1)));
  const DeviceTensor dq(p.spec.grad_dtype, Floats(Size(p.width(0)), 0.5f));
  const DeviceTensor dk(p.spec.grad_dtype, Floats(Size(p.width(1)), -0.5f));
  QkNormForward({.spec = p.spec,
                 .tokens = p.tokens,
                 .qkv = static_cast<char*>(qkv.data()) + shift * DTypeBytes(dtype),
                 .q_weight = p.device_q_weight.data(),
                 .k_weight = p.device_k_weight.data(),
                 .saved_qk = saved.data(),
                 .rstd = rstd.floats()},
                TestStream());
  const Scratch scratch(frozen ? 0 : QkNormBackwardWorkspaceBytes(p.spec, p.tokens));
  QkNormBackward({.spec = p.spec,
                  .tokens = p.tokens,
                  .dqkv = dqkv.data(),
                  .saved_qk = saved.data(),
                  .rstd = rstd.floats(),
                  .q_weight = p.device_q_weight.data(),
                  .k_weight = p.device_k_weight.data(),
                  .dq_weight = frozen ? nullptr : dq.data(),
                  .dk_weight = frozen ? nullptr : dk.data(),
                  .workspace = scratch.workspace()},
                 TestStream());
  const Floats out = qkv.Read();
  return {Floats(out.begin() + shift, out.end()),
          saved.Read(),
          rstd.Read(),
          dqkv.Read(),
          dq.Read(),
          dk.Read()};
}

struct Want {
  Doubles qkv, saved, rstd, dqkv, dq_weight, dk_weight;
};

// RmsNorm of every row with weights o + w; v is left as it is.
Want Reference(const Problem& p) {
  const Doubles x = Double(p.qkv), dy = Double(p.dqkv);
  Doubles weights[2] = {Double(p.q_weight), Double(p.k_weight)};
  Want want{x, {}, {}, dy, Doubles(Size(p.width(0)), 0.5), Doubles(Size(p.width(1)), -0.5)};
  for (Doubles& part : weights) {
    for (double& w : part) w += p.spec.weight_offset;
  }
  for (int64_t t = 0; t < p.tokens; ++t) {
    int64_t at = t * p.row();
    want.saved.insert(want.saved.end(), x.begin() + at, x.begin() + at + p.normed());
    for (const int part : {0, 1}) {
      const reference::RmsNormShape<double> shape{1, p.width(part), kEps};
      const double* w = weights[part].data();
      Doubles& dweight = part == 0 ? want.dq_weight : want.dk_weight;
      for (int64_t i = 0; i < p.norms(part); ++i, at += p.width(part)) {
        double r = 0;
        reference::RmsNorm(shape, &x[Size(at)], w, &want.qkv[Size(at)], &r);
        want.rstd.push_back(r);
        std::fill_n(want.dqkv.begin() + at, p.width(part), 0.0);
        reference::RmsNormBackward(shape, &dy[Size(at)], &x[Size(at)], w, &want.dqkv[Size(at)],
                                   dweight.data());
      }
    }
  }
  return want;
}

// The bounds of rms_norm_test.cc: sums over a head have at most 8 terms per lane and a tree of 5,
// those over all heads H/32 terms; a weight gradient's terms have magnitudes that sum to less than
// n + 25, added n/64 per lane and 70 more in the tree and the partial sums.
void Check(const Problem& p, const Result& got) {
  const std::string what =
      std::string(Name(p.spec.dtype)) + " head_dim " + std::to_string(p.spec.head_dim) + " heads " +
      std::to_string(p.spec.num_heads) + " tokens " + std::to_string(p.tokens) + " ";
  const Want want = Reference(p);
  const double unit = kUnit(p.spec.dtype);
  const double sum = p.spec.whole ? static_cast<double>(p.width(0)) / 32 : 8;
  ExpectWithin(got.saved, want.saved, 0.0, what + "saved");
  ExpectRelativeError(got.rstd, want.rstd, (sum + 8) * kUnit32, what + "rstd");
  ExpectWithin(got.qkv, want.qkv, ((sum + 12) * kUnit32 + unit) * Largest(want.qkv), what + "qkv");
  ExpectWithin(got.dqkv, want.dqkv, (sum + 16) * kUnit32 * 200 + unit * Largest(want.dqkv),
               what + "dqkv");
  const double n = static_cast<double>(p.tokens * p.norms(0));
  const double bound = (n / 64 + 70) * kUnit32 * (n + 25);
  const double grad_unit = kUnit(p.spec.grad_dtype);
  ExpectWithin(got.dq_weight, want.dq_weight, bound + grad_unit * Largest(want.dq_weight),
               what + "dq_weight");
  ExpectWithin(got.dk_weight, want.dk_weight, bound + grad_unit * Largest(want.dk_weight),
               what + "dk_weight");
}

class QkNormGpuTest : public testing::TestWithParam<DType> {
 protected:
  QkNormSpec Spec(int64_t heads, int64_t kv_heads, int64_t head_dim) const {
    return {.dtype = GetParam(),
            .grad_dtype = DType::kFloat32,
            .num_heads = heads,
            .num_kv_heads = kv_heads,
            .head_dim = head_dim,
            .eps = kEps};
  }
};

// Heads of 1 to 32 lanes, of single elements and of vectors, whole and not.
TEST_P(QkNormGpuTest, EqualsRmsNormOfEveryHeadAndLeavesV) {
  for (const int64_t head_dim : {1, 4, 8, 13, 16, 64, 80, 96, 128, 131, 255, 256}) {
    for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {6, 2}, {14, 2}, {28, 4}}) {
      for (const int64_t tokens : {0, 1, 19}) {
        const Problem p(Spec(heads, kv_heads, head_dim), tokens);
        Check(p, RunBoth(p));
        if (HasFailure()) return;
      }
    }
  }
}

// More tokens than the grid of the backward holds at once; the head counts of Qwen3-0.6B.
TEST_P(QkNormGpuTest, ManyTokensRepeatBitForBit) {
  const Problem p(Spec(16, 8, 128), 1009);
  const Result first = RunBoth(p), second = RunBoth(p), frozen = RunBoth(p, true);
  Check(p, first);
  EXPECT_TRUE(SameBits(first.qkv, second.qkv));
  EXPECT_TRUE(SameBits(first.dqkv, second.dqkv));
  EXPECT_TRUE(SameBits(first.dq_weight, second.dq_weight));
  EXPECT_TRUE(SameBits(first.dk_weight, second.dk_weight));
  EXPECT_TRUE(SameBits(first.dqkv, frozen.dqkv));
}

// Rows of every owner of norm_rows.cuh, walked rows, rows of whose q alone is made of vectors.
TEST_P(QkNormGpuTest, EqualsRmsNormOverAllHeads) {
  const struct {
    int64_t heads, kv_heads, head_dim;
  } shapes[] = {{1, 1, 1},   {6, 2, 13},   {8, 1, 13},   {4, 4, 64},    {16, 4, 64},
                {32, 8, 64}, {16, 16, 96}, {40, 8, 128}, {64, 64, 128}, {136, 8, 128}};
  for (const auto& s : shapes) {
    QkNormSpec spec = Spec(s.heads, s.kv_heads, s.head_dim);
    spec.whole = true;
    for (const int64_t tokens : {0, 1, 19}) {
      const Problem p(spec, tokens);
      Check(p, RunBoth(p));
      if (HasFailure()) return;
    }
  }
}

TEST_P(QkNormGpuTest, ManyWholeRowsRepeatBitForBit) {
  QkNormSpec spec = Spec(16, 4, 64);
  spec.whole = true;
  const Problem p(spec, 6007);
  const Result first = RunBoth(p), second = RunBoth(p), frozen = RunBoth(p, true);
  Check(p, first);
  EXPECT_TRUE(SameBits(first.qkv, second.qkv));
  EXPECT_TRUE(SameBits(first.dqkv, second.dqkv));
  EXPECT_TRUE(SameBits(first.dq_weight, second.dq_weight));
  EXPECT_TRUE(SameBits(first.dk_weight, second.dk_weight));
  EXPECT_TRUE(SameBits(first.dqkv, frozen.dqkv));
}

TEST_P(QkNormGpuTest, WeightsMayCountFromOne) {
  for (const bool whole : {false, true}) {
    QkNormSpec spec = Spec(4, 2, 64);
    spec.whole = whole;
    spec.weight_offset = 1.0f;
    const Problem p(spec, 37);
    Check(p, RunBoth(p));
  }
}

TEST_P(QkNormGpuTest, AccumulatesIntoTheOtherGradientType) {
  for (const bool whole : {false, true}) {
    QkNormSpec spec = Spec(4, 2, 64);
    spec.grad_dtype = GetParam() == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
    spec.whole = whole;
    const Problem p(spec, 37);
    Check(p, RunBoth(p));
  }
}

TEST_P(QkNormGpuTest, TakesUnalignedRows) {
  for (const bool whole : {false, true}) {
    QkNormSpec spec = Spec(3, 1, 64);
    spec.whole = whole;
    const Problem p(spec, 11);
    Check(p, RunBoth(p, false, 1));
  }
}

TEST_P(QkNormGpuTest, RefusesLongHeadsAndOneFrozenWeight) {
  EXPECT_FALSE(QkNormSupports(Spec(1, 1, 257)));
  EXPECT_FALSE(QkNormSupports(Spec(1, 1, 0)));
  QkNormSpec whole = Spec(1, 1, 257);
  whole.whole = true;
  EXPECT_TRUE(QkNormSupports(whole));
  const DeviceTensor dq(DType::kFloat32, 64);
  EXPECT_THROW(
      QkNormBackward({.spec = Spec(1, 1, 64), .tokens = 1, .dq_weight = dq.data()}, TestStream()),
      std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(DTypes, QkNormGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_qk_norm_test
}  // namespace coxswain::kernels
