// The vectorised exponential, and results that do not depend on the number of threads.
#include "kernels/cpu/vectorize.h"

#include <time.h>

#include <limits>

#include "kernels/device.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/norms/norms.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE void ExpAll(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = cpu::Exp(x[i]);
}

float ExpOf(float x) {
  Floats in(33, x), out(33);
  ExpAll(in.data(), out.data(), 33);
  EXPECT_TRUE(SameBits(Floats(33, out[0]), out)) << "vector body and tail differ at " << x;
  return out[0];
}

TEST(ExpTest, RelativeErrorIsBelowFourUnits) {
  Floats x, y;
  for (float value = -87.3f; value < 88.7f; value += 0.00137f) x.push_back(value);
  y.resize(x.size());
  ExpAll(x.data(), y.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, std::abs(y[i] / std::exp(static_cast<double>(x[i])) - 1.0));
  }
  EXPECT_LT(worst, 4 * kUnit);
}

TEST(ExpTest, EndsOfTheRange) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ExpOf(0.0f), 1.0f);
  EXPECT_EQ(ExpOf(-inf), 0.0f);
  EXPECT_EQ(ExpOf(-1e30f), 0.0f);
  EXPECT_EQ(ExpOf(inf), inf);
  EXPECT_EQ(ExpOf(1e30f), inf);
  EXPECT_EQ(ExpOf(89.0f), inf);
  EXPECT_TRUE(std::isnan(ExpOf(std::nanf(""))));
  EXPECT_NEAR(ExpOf(-100.0f), std::exp(-100.0), 2e-45);  // subnormal: within one of its steps
}

struct Outputs {
  Floats y, dx, dweight, dz;
  bool operator==(const Outputs& other) const {
    return SameBits(y, other.y) && SameBits(dx, other.dx) && SameBits(dweight, other.dweight) &&
           SameBits(dz, other.dz);
  }
};

Outputs ComputeWithThreads(int threads) {
  SetNumThreads(threads);
  const int64_t rows = 700, hidden = 300;
  const RmsNormSpec spec{.hidden = hidden};
  const Floats x = Normal(rows * hidden, 1), dy = Normal(rows * hidden, 2), w = Normal(hidden, 3);
  Outputs out{Floats(x.size()), x, w, x};
  Floats rstd(Size(rows)), loss(Size(rows));
  RmsNormForward({.spec = spec,
                  .rows = rows,
                  .x = x.data(),
                  .weight = w.data(),
                  .y = out.y.data(),
                  .rstd = rstd.data()},
                 nullptr);
  Scratch scratch(RmsNormBackwardWorkspaceBytes(spec, rows));
  RmsNormBackward({.spec = spec,
                   .rows = rows,
                   .dy = dy.data(),
                   .x = x.data(),
                   .weight = w.data(),
                   .rstd = rstd.data(),
                   .dx = out.dx.data(),
                   .dweight = out.dweight.data(),
                   .workspace = scratch.view()},
                  nullptr);
  const std::vector<int32_t> targets(Size(rows), 5);
  const float scale = 0.5f;
  CrossEntropy({.spec = {.vocab = hidden},
                .rows = rows,
                .logits = out.dz.data(),
                .targets = targets.data(),
                .gradient_scale = &scale,
                .loss = loss.data()},
               nullptr);
  SetNumThreads(1);
  return out;
}

// Invariant kernels-3.
TEST(ThreadsTest, RowOpsAreBitEqualForEveryThreadCount) {
  const Outputs one = ComputeWithThreads(1);
  EXPECT_TRUE(ComputeWithThreads(2) == one);
  EXPECT_TRUE(ComputeWithThreads(5) == one);
}

double CpuSeconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Invariant kernels-3.
TEST(ThreadsTest, OneThreadIsOne) {
  SetNumThreads(1);
  const int64_t n = 700;
  const Floats a = Normal(n * n, 1), b = Normal(n * n, 2);
  Floats c(a.size());
  const double process = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  const double thread = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < 10; ++i) {
    Gemm({.spec = {},
          .m = n,
          .n = n,
          .k = n,
          .a = a.data(),
          .lda = n,
          .b = b.data(),
          .ldb = n,
          .c = c.data(),
          .ldc = n},
         nullptr);
  }
  const double own = CpuSeconds(CLOCK_THREAD_CPUTIME_ID) - thread;
  const double all = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - process;
  // A second computing thread would make it 2; idle BLAS threads may spin for some milliseconds.
  EXPECT_LT(all, 1.4 * own + 0.05);
}

}  // namespace
}  // namespace coxswain::kernels
