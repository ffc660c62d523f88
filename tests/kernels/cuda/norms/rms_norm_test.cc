#include "kernels/norms/norms.h"

#include <algorithm>
#include <limits>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/norms.h"

namespace coxswain::kernels {
namespace gpu_rms_norm_test {
namespace {

constexpr float kEps = 1e-6f;
constexpr double kUnit32 = 0x1p-24;

double Largest(const Doubles& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

Floats Rows(const Floats& all, int64_t first, int64_t count, int64_t hidden) {
  return {all.begin() + first * hidden, all.begin() + (first + count) * hidden};
}

// Normal numbers, repeated from the prime 100,003rd on: drawing 10^8 of them would take most of the
// time of these tests.
Floats Repeated(int64_t n, unsigned seed, DType dtype) {
  constexpr int64_t kPeriod = 100003;
  Floats values = Normal(std::min(n, kPeriod), seed, dtype);
  values.resize(Size(n));
  for (size_t i = kPeriod; i < values.size(); ++i) values[i] = values[i - kPeriod];
  return values;
}

// Inputs of every op on the host, rounded to the type, and on the device.
struct Problem {
  Problem(DType dtype, DType grad_dtype, int64_t rows, int64_t hidden)
      : spec{.dtype = dtype, .grad_dtype = grad_dtype, .hidden = hidden, .eps = kEps},
        rows(rows),
        x(Repeated(rows * hidden, 1, dtype)),
        weight(Normal(hidden, 2, dtype)),
        dy(Repeated(rows * hidden, 3, dtype)),
        stream(Repeated(rows * hidden, 4, dtype)),
        device_x(dtype, Bounded(&x, dtype)),
        device_weight(dtype, weight),
        device_dy(dtype, dy) {}
  // Away from 0, which keeps r bounded at hidden = 1.
  static const Floats& Bounded(Floats* x, DType dtype) {
    for (float& value : *x) value = Round(value + (value > 0 ? 0.5f : -0.5f), dtype);
    return *x;
  }
  reference::RmsNormShape<double> shape() const { return {rows, spec.hidden, kEps}; }
  int64_t count() const { return rows * spec.hidden; }

  RmsNormSpec spec;
  int64_t rows;
  Floats x, weight, dy, stream;
  DeviceTensor device_x, device_weight, device_dy;
};

struct Forward {
  Floats y, rstd;
};

Forward RunForward(const Problem& p) {
  const DeviceTensor y(p.spec.dtype, p.count()), rstd(DType::kFloat32, p.rows);
  RmsNormForward({.spec = p.spec,
                  .rows = p.rows,
                  .x = p.device_x.data(),
                  .weight = p.device_weight.data(),
                  .y = y.data(),
                  .rstd = rstd.floats()},
                 TestStream());
  return {y.Read(), rstd.Read()};
}

struct Backward {
  Floats dx, dweight;
};

// dweight starts at 0.25; frozen leaves it out.
Backward RunBackward(const Problem& p, const Floats& rstd, const Floats& dx, bool accumulate,
                     bool frozen = false) {
  const DeviceTensor device_rstd(DType::kFloat32, rstd), device_dx(p.spec.dtype, dx);
  const DeviceTensor dweight(p.spec.grad_dtype, Floats(Size(p.spec.hidden), 0.25f));
  const Scratch scratch(frozen ? 0 : RmsNormBackwardWorkspaceBytes(p.spec, p.rows));
  RmsNormBackward({.spec = p.spec,
                   .rows = p.rows,
                   .dy = p.device_dy.data(),
                   .x = p.device_x.data(),
                   .weight = p.device_weight.data(),
                   .rstd = device_rstd.floats(),
                   .accumulate_dx = accumulate,
                   .dx = device_dx.data(),
                   .dweight = frozen ? nullptr : dweight.data(),
                   .workspace = scratch.workspace()},
                  TestStream());
  return {device_dx.Read(), dweight.Read()};
}

// r is off by (H/32 + 8) u of float32 (a sum of H/32 terms in turn, 10 in a tree, halved by the
// root); then two products; y is rounded once to its type.
double ForwardBound(const Problem& p, const Doubles& want) {
  const double h = static_cast<double>(p.spec.hidden);
  return ((h / 32 + 10) * kUnit32 + kUnit(p.spec.dtype)) * Largest(want);
}

// The float32 part: with r < 2 and |m| < 25, |r m| < 50 and |x r^3 sum(m x)/H| <= r sqrt(H) rms(m),
// below 150 for short rows and 10 for long ones; the sum is off by (H/32 + 10) u. The gradient and
// the stream that it is added to are rounded once.
double BackwardBound(const Problem& p, const Doubles& want) {
  const double h = static_cast<double>(p.spec.hidden);
  return (h / 32 + 16) * kUnit32 * 200 + kUnit(p.spec.dtype) * Largest(want);
}

// The terms dy x r of n rows have magnitudes that sum to less than n + 25. A thread adds n/64 of
// them at most, the tree and the partial sums 60 more.
double WeightBound(const Problem& p, const Doubles& want) {
  const double n = static_cast<double>(p.rows);
  return (n / 64 + 70) * kUnit32 * (n + 25) + kUnit(p.spec.grad_dtype) * Largest(want);
}

void CheckProblem(const Problem& p) {
  const std::string what = std::string(Name(p.spec.dtype)) + " " + std::to_string(p.rows) + "x" +
                           std::to_string(p.spec.hidden);
  const Forward forward = RunForward(p);
  const Doubles x = Double(p.x), w = Double(p.weight), dy = Double(p.dy);
  Doubles want_y(x.size()), want_rstd(Size(p.rows));
  reference::RmsNorm(p.shape(), x.data(), w.data(), want_y.data(), want_rstd.data());
  ExpectWithin(forward.y, want_y, ForwardBound(p, want_y), what + " y");
  ExpectRelativeError(forward.rstd, want_rstd,
                      (static_cast<double>(p.spec.hidden) / 32 + 8) * kUnit32, what + " rstd");

  Doubles want_dx = Double(p.stream), want_dw(Size(p.spec.hidden), 0.25);
  reference::RmsNormBackward(p.shape(), dy.data(), x.data(), w.data(), want_dx.data(),
                             want_dw.data());
  const Backward got = RunBackward(p, forward.rstd, p.stream, true);
  ExpectWithin(got.dx, want_dx, BackwardBound(p, want_dx), what + " dx");
  ExpectWithin(got.dweight, want_dw, WeightBound(p, want_dw), what + " dweight");
  const Backward again = RunBackward(p, forward.rstd, p.stream, true);
  EXPECT_TRUE(SameBits(got.dx, again.dx)) << what;
  EXPECT_TRUE(SameBits(got.dweight, again.dweight)) << what;
}

class RmsNormGpuTest : public testing::TestWithParam<DType> {};

// Every owner of a row (1, 2, 4 vectors of a warp; 2, 4 of a block; walked), and odd tails.
TEST_P(RmsNormGpuTest, MatchesReferenceForEverySize) {
  const DType other = GetParam() == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
  for (const int64_t hidden : {1, 7, 8, 64, 67, 248, 256, 264, 512, 520, 896, 1024, 1032, 2048}) {
    for (const int64_t rows : {0, 1, 5, 37}) {
      CheckProblem(Problem(GetParam(), DType::kFloat32, rows, hidden));
    }
    CheckProblem(Problem(GetParam(), other, 3, hidden));
  }
}

TEST_P(RmsNormGpuTest, MatchesReferenceForLongRows) {
  for (const int64_t hidden : {3584, 4096, 6152, 8192, 16383, 16384, 40000}) {
    CheckProblem(Problem(GetParam(), DType::kFloat32, 3, hidden));
  }
}

// More rows than the grid of the backward holds at once.
TEST_P(RmsNormGpuTest, MatchesReferenceForManyRows) {
  CheckProblem(Problem(GetParam(), DType::kFloat32, 6007, 128));
  CheckProblem(Problem(GetParam(), DType::kFloat32, 3001, 896));
  CheckProblem(Problem(GetParam(), DType::kFloat32, 1009, 1536));
  CheckProblem(Problem(GetParam(), DType::kFloat32, 1301, 131));
}

// Invariant kernels-4.
// Weights w - 1 counted from one are weights w, to the bit where w - 1 is exact in either type.
TEST_P(RmsNormGpuTest, WeightsMayCountFromOne) {
  for (const int64_t hidden : {51, 896, 9000}) {
    Problem plain(GetParam(), DType::kFloat32, 37, hidden);
    Problem offset(GetParam(), DType::kFloat32, 37, hidden);
    offset.spec.weight_offset = 1.0f;
    for (size_t i = 0; i < plain.weight.size(); ++i) {
      plain.weight[i] = 0.5f + static_cast<float>(i % 64) / 64.0f;
      offset.weight[i] = plain.weight[i] - 1.0f;
    }
    plain.device_weight.Write(plain.weight);
    offset.device_weight.Write(offset.weight);
    const Forward want = RunForward(plain), got = RunForward(offset);
    EXPECT_TRUE(SameBits(got.y, want.y)) << hidden;
    const Backward want_back = RunBackward(plain, want.rstd, plain.stream, true);
    const Backward got_back = RunBackward(offset, got.rstd, plain.stream, true);
    EXPECT_TRUE(SameBits(got_back.dx, want_back.dx)) << hidden;
    EXPECT_TRUE(SameBits(got_back.dweight, want_back.dweight)) << hidden;
  }
}

TEST_P(RmsNormGpuTest, OverwritingEqualsAccumulatingOntoZeroAndMayAliasDy) {
  for (const int64_t hidden : {51, 896, 3584}) {
    const Problem p(GetParam(), DType::kFloat32, 37, hidden);
    const Floats rstd = RunForward(p).rstd;
    const Floats zero(p.x.size(), 0.0f), nan(p.x.size(), std::nanf(""));
    const Backward added = RunBackward(p, rstd, zero, true);
    const Backward written = RunBackward(p, rstd, nan, false);
    ExpectWithin(written.dx, Double(added.dx), 0.0, "dx");
    EXPECT_TRUE(SameBits(added.dweight, written.dweight));
    EXPECT_TRUE(SameBits(written.dx, RunBackward(p, rstd, nan, false, true).dx)) << "frozen";
    const DeviceTensor device_rstd(DType::kFloat32, rstd);
    RmsNormBackward({.spec = p.spec,
                     .rows = p.rows,
                     .dy = p.device_dy.data(),
                     .x = p.device_x.data(),
                     .weight = p.device_weight.data(),
                     .rstd = device_rstd.floats(),
                     .accumulate_dx = false,
                     .dx = p.device_dy.data(),
                     .dweight = nullptr,
                     .workspace = {}},
                    TestStream());
    EXPECT_TRUE(SameBits(p.device_dy.Read(), written.dx));
  }
}

TEST_P(RmsNormGpuTest, AddRmsNormEqualsAddThenNormBitwiseAlsoInPlace) {
  for (const int64_t hidden : {77, 256, 896, 3584, 9000}) {
    Problem p(GetParam(), DType::kFloat32, 19, hidden);
    const Floats first = p.x, residual = Normal(p.count(), 8, GetParam());
    for (size_t i = 0; i < p.x.size(); ++i) p.x[i] = Round(first[i] + residual[i], GetParam());
    p.device_x.Write(p.x);
    const Forward want = RunForward(p);
    const auto check = [&](bool onto_x, bool onto_residual) {
      const DeviceTensor x(GetParam(), first), other(GetParam(), residual);
      const DeviceTensor own(GetParam(), p.count()), y(GetParam(), p.count());
      const DeviceTensor rstd(DType::kFloat32, p.rows);
      const DeviceTensor& sum = onto_x ? x : onto_residual ? other : own;
      AddRmsNormForward({.spec = p.spec,
                         .rows = p.rows,
                         .x = x.data(),
                         .residual = other.data(),
                         .weight = p.device_weight.data(),
                         .sum = sum.data(),
                         .y = y.data(),
                         .rstd = rstd.floats()},
                        TestStream());
      EXPECT_TRUE(SameBits(sum.Read(), p.x)) << hidden;
      EXPECT_TRUE(SameBits(y.Read(), want.y)) << hidden;
      EXPECT_TRUE(SameBits(rstd.Read(), want.rstd)) << hidden;
    };
    check(false, false);
    check(true, false);
    check(false, true);
    const DeviceTensor rstd(DType::kFloat32, p.rows);
    RmsNormForward({.spec = p.spec,
                    .rows = p.rows,
                    .x = p.device_x.data(),
                    .weight = p.device_weight.data(),
                    .y = p.device_x.data(),
                    .rstd = rstd.floats()},
                   TestStream());
    EXPECT_TRUE(SameBits(p.device_x.Read(), want.y)) << "y is x";
  }
}

// One element past an allocation's start, which no vector can be loaded from.
TEST_P(RmsNormGpuTest, TakesUnalignedRows) {
  const int64_t rows = 5, hidden = 64, size = DTypeBytes(GetParam());
  const Problem p(GetParam(), DType::kFloat32, rows, hidden);
  Floats shifted(1, 0.0f);
  shifted.insert(shifted.end(), p.x.begin(), p.x.end());
  const DeviceTensor x(GetParam(), shifted), y(GetParam(), p.count());
  const DeviceTensor rstd(DType::kFloat32, rows), dx(GetParam(), p.stream);
  const DeviceTensor dweight(DType::kFloat32, Floats(Size(hidden), 0.25f));
  const void* unaligned = static_cast<const char*>(x.data()) + size;
  RmsNormForward({.spec = p.spec,
                  .rows = rows,
                  .x = unaligned,
                  .weight = p.device_weight.data(),
                  .y = y.data(),
                  .rstd = rstd.floats()},
                 TestStream());
  const Forward aligned = RunForward(p);
  Doubles want = Double(aligned.y);
  ExpectWithin(y.Read(), want, 2 * ForwardBound(p, want), "y");
  const Scratch scratch(RmsNormBackwardWorkspaceBytes(p.spec, rows));
  RmsNormBackward({.spec = p.spec,
                   .rows = rows,
                   .dy = p.device_dy.data(),
                   .x = unaligned,
                   .weight = p.device_weight.data(),
                   .rstd = rstd.floats(),
                   .dx = dx.data(),
                   .dweight = dweight.data(),
                   .workspace = scratch.workspace()},
                  TestStream());
  const Backward backward = RunBackward(p, aligned.rstd, p.stream, true);
  want = Double(backward.dx);
  ExpectWithin(dx.Read(), want, 2 * BackwardBound(p, want), "dx");
  want = Double(backward.dweight);
  ExpectWithin(dweight.Read(), want, 2 * WeightBound(p, want), "dweight");
}

TEST_P(RmsNormGpuTest, ZeroRowIsFiniteAndNanStaysInItsRow) {
  Problem p(GetParam(), DType::kFloat32, 3, 24);
  std::fill(p.x.begin(), p.x.begin() + 24, 0.0f);
  p.x[29] = std::numeric_limits<float>::quiet_NaN();
  p.device_x.Write(p.x);
  const Floats y = RunForward(p).y;
  for (size_t j = 0; j < 24; ++j) {
    EXPECT_EQ(y[j], 0.0f);
    EXPECT_TRUE(std::isnan(y[24 + j]));
    EXPECT_TRUE(std::isfinite(y[48 + j]));
  }
}

TEST_P(RmsNormGpuTest, RefusesAShortWorkspace) {
  const Problem p(GetParam(), DType::kFloat32, 4, 64);
  const DeviceTensor rstd(DType::kFloat32, 4), dweight(DType::kFloat32, 64);
  EXPECT_THROW(RmsNormBackward({.spec = p.spec,
                                .rows = 4,
                                .dy = p.device_dy.data(),
                                .x = p.device_x.data(),
                                .weight = p.device_weight.data(),
                                .rstd = rstd.floats(),
                                .dx = p.device_dy.data(),
                                .dweight = dweight.data()},
                               TestStream()),
               std::invalid_argument);
}

// The first, middle and last rows of two real models; dweight repeats bit for bit.
TEST(RmsNormModelGpuTest, MatchesReferenceInBFloat16) {
  const struct { int64_t rows, hidden; } shapes[] = {{32768, 896}, {8192, 3584}};
  for (const auto& s : shapes) {
    const Problem p(DType::kBFloat16, DType::kFloat32, s.rows, s.hidden);
    const Forward forward = RunForward(p);
    const Backward got = RunBackward(p, forward.rstd, p.stream, true);
    const Backward again = RunBackward(p, forward.rstd, p.stream, true);
    EXPECT_TRUE(SameBits(got.dx, again.dx));
    EXPECT_TRUE(SameBits(got.dweight, again.dweight));
    const Doubles w = Double(p.weight);
    for (const int64_t first : {int64_t{0}, s.rows / 2, s.rows - 3}) {
      const Doubles x = Double(Rows(p.x, first, 3, s.hidden));
      const Doubles dy = Double(Rows(p.dy, first, 3, s.hidden));
      const reference::RmsNormShape<double> shape{3, s.hidden, kEps};
      Doubles want_y(x.size()), rstd(3), want_dx = Double(Rows(p.stream, first, 3, s.hidden));
      Doubles dw(Size(s.hidden));
      reference::RmsNorm(shape, x.data(), w.data(), want_y.data(), rstd.data());
      reference::RmsNormBackward(shape, dy.data(), x.data(), w.data(), want_dx.data(), dw.data());
      ExpectWithin(Rows(forward.y, first, 3, s.hidden), want_y, ForwardBound(p, want_y), "y");
      ExpectWithin(Rows(got.dx, first, 3, s.hidden), want_dx, BackwardBound(p, want_dx), "dx");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, RmsNormGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_rms_norm_test
}  // namespace coxswain::kernels
