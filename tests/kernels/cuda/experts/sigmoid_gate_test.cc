#include "kernels/experts/expert_rows.h"

#include <limits>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/experts.h"

namespace coxswain::kernels {
namespace gpu_sigmoid_gate_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct GateGradients {
  Floats dx, dlogits;
};

class SigmoidGateGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  Floats Forward(int64_t n, const Floats& logits, const Floats& x, const Floats& before) const {
    const DeviceTensor gate(dtype_, logits), rows(dtype_, x), y(dtype_, before);
    SigmoidGateForward({.spec = {.dtype = dtype_, .columns = n},
                        .rows = gate.count(),
                        .logits = gate.data(),
                        .x = rows.data(),
                        .y = y.data()},
                       TestStream());
    return y.Read();
  }
  GateGradients Backward(int64_t n, const Floats& logits, const Floats& x, const Floats& dy,
                         bool in_place, bool wants_rows = true, bool wants_logits = true) const {
    const DeviceTensor gate(dtype_, logits), rows(dtype_, x), gradient(dtype_, dy);
    const DeviceTensor beside(dtype_, rows.count()), dlogits(dtype_, gate.count());
    const DeviceTensor& dx = in_place ? rows : beside;
    const DeviceTensor& dgate = in_place ? gate : dlogits;
    SigmoidGateBackward({.spec = {.dtype = dtype_, .columns = n},
                         .rows = gate.count(),
                         .logits = gate.data(),
                         .x = rows.data(),
                         .dy = gradient.data(),
                         .dx = wants_rows ? dx.data() : nullptr,
                         .dlogits = wants_logits ? dgate.data() : nullptr},
                        TestStream());
    return {dx.Read(), dgate.Read()};
  }
  void ExpectReference(int64_t rows, int64_t n) const;
};

// The gate is off by at most 8 u (kernels/cuda/experts/sigmoid_gate.cu), then a product and a sum;
// the gradient of a logit sums products by H / 256 + 21 roundings, and 1 - s adds 8 u. Then one
// rounding to the type.
void SigmoidGateGpuTest::ExpectReference(int64_t rows, int64_t n) const {
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(n));
  Floats logits = Normal(rows, 1, dtype_, 3.0f);
  const Floats extremes = {90.0f, -90.0f, 0.0f};
  for (size_t t = 0; t < extremes.size() && t < Size(rows); ++t) logits[t] = extremes[t];
  const Floats x = Normal(rows * n, 2, dtype_), dy = Normal(rows * n, 3, dtype_);
  const Floats before = Normal(rows * n, 4, dtype_);
  const Floats y = Forward(n, logits, x, before);
  const GateGradients got = Backward(n, logits, x, dy, /*in_place=*/false);
  const GateGradients in_place = Backward(n, logits, x, dy, /*in_place=*/true);
  EXPECT_TRUE(SameBits(y, Forward(n, logits, x, before)));
  EXPECT_TRUE(SameBits(in_place.dx, got.dx) && SameBits(in_place.dlogits, got.dlogits));
  const double unit = kUnit(DType::kFloat32);
  const double rounding = dtype_ == DType::kFloat32 ? 0 : kUnit(dtype_);
  for (int64_t t = 0; t < rows; ++t) {
    const std::vector<double> row(x.begin() + t * n, x.begin() + (t + 1) * n);
    const std::vector<double> drow(dy.begin() + t * n, dy.begin() + (t + 1) * n);
    const double logit = logits[Size(t)];
    const auto gated = reference::SigmoidGate(logit, row);
    const auto want = reference::SigmoidGateBackward(logit, row, drow);
    double size = 0;
    for (int64_t j = 0; j < n; ++j) {
      const size_t at = Size(t * n + j), in_row = Size(j);
      const double sum = before[at] + gated[in_row];
      ASSERT_NEAR(
          y[at], sum,
          11 * unit * (std::abs(row[in_row]) + std::abs(before[at])) + rounding * std::abs(sum))
          << "row " << t << " column " << j;
      ASSERT_NEAR(got.dx[at], want.x[in_row], (10 * unit + rounding) * std::abs(drow[in_row]))
          << "row " << t << " column " << j;
      size += std::abs(drow[in_row] * row[in_row]);
    }
    ASSERT_NEAR(got.dlogits[Size(t)], want.logit,
                static_cast<double>(n / 256 + 40) * unit * size + rounding * std::abs(want.logit))
        << "row " << t;
  }
}

TEST_P(SigmoidGateGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t n : {1, 2, 3, 7, 8, 9, 24, 300, 1031}) ExpectReference(7, n);
}

TEST_P(SigmoidGateGpuTest, MatchesReferenceForModels) {
  ExpectReference(131, 2048);
  ExpectReference(33, 3584);
}

TEST_P(SigmoidGateGpuTest, WritesWhatIsWantedAlone) {
  const int64_t n = 72, rows = 11;
  const Floats logits = Normal(rows, 1, dtype_), x = Normal(rows * n, 2, dtype_);
  const Floats dy = Normal(rows * n, 3, dtype_);
  const GateGradients both = Backward(n, logits, x, dy, false);
  const GateGradients dx = Backward(n, logits, x, dy, false, true, false);
  const GateGradients dlogits = Backward(n, logits, x, dy, false, false, true);
  EXPECT_TRUE(SameBits(dx.dx, both.dx) && SameBits(dlogits.dlogits, both.dlogits));
  for (const float value : dx.dlogits) ASSERT_TRUE(std::isnan(value));
  for (const float value : dlogits.dx) ASSERT_TRUE(std::isnan(value));
}

// Invariant kernels-6.
TEST_P(SigmoidGateGpuTest, NanReachesItsRowAlone) {
  const Floats y = Forward(40, {kNan, 0.0f}, Floats(80, 1.0f), Floats(80, 0.0f));
  for (size_t j = 0; j < 80; ++j) EXPECT_EQ(std::isnan(y[j]), j < 40);
  EXPECT_EQ(y[79], 0.5f);
}

TEST_P(SigmoidGateGpuTest, NoRowsDoNothing) {
  SigmoidGateForward({.spec = {.dtype = dtype_, .columns = 8}}, TestStream());
  SigmoidGateBackward({.spec = {.dtype = dtype_, .columns = 8}}, TestStream());
  EXPECT_FALSE(SigmoidGateSupports({.dtype = dtype_, .columns = 0}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, SigmoidGateGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_sigmoid_gate_test
}  // namespace coxswain::kernels
