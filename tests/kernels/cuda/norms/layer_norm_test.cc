#include "kernels/norms/norms.h"

#include <algorithm>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/norms.h"

namespace coxswain::kernels {
namespace gpu_layer_norm_test {
namespace {

constexpr float kEps = 1e-5f;
constexpr double kUnit32 = 0x1p-24;

double Largest(const Doubles& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Inputs on the host, rounded to the type, and on the device. Values lie around 1.
struct Problem {
  Problem(DType dtype, DType grad_dtype, int64_t rows, int64_t hidden)
      : spec{.dtype = dtype, .grad_dtype = grad_dtype, .hidden = hidden, .eps = kEps},
        rows(rows),
        x(Inputs(dtype, rows, hidden)),
        weight(Normal(hidden, 2, dtype)),
        bias(Normal(hidden, 3, dtype)),
        dy(Normal(rows * hidden, 4, dtype)),
        stream(Normal(rows * hidden, 5, dtype)),
        device_x(dtype, x),
        device_weight(dtype, weight),
        device_bias(dtype, bias),
        device_dy(dtype, dy) {}
  // Two elements about one apart keep r below 2 sqrt(H).
  static Floats Inputs(DType dtype, int64_t rows, int64_t hidden) {
    Floats x = Normal(rows * hidden, 1, dtype);
    for (float& value : x) value = Round(value + 1.0f, dtype);
    for (int64_t t = 0; hidden > 1 && t < rows; ++t) {
      x[Size(t * hidden + 1)] = Round(x[Size(t * hidden)] + 1.0f, dtype);
    }
    return x;
  }
  reference::LayerNormShape<double> shape() const { return {rows, spec.hidden, kEps}; }
  int64_t count() const { return rows * spec.hidden; }

  LayerNormSpec spec;
  int64_t rows;
  Floats x, weight, bias, dy, stream;
  DeviceTensor device_x, device_weight, device_bias, device_dy;
};

struct Forward {
  Floats y, mean, rstd;
};

Forward RunForward(const Problem& p, bool biased = true) {
  const DeviceTensor y(p.spec.dtype, p.count());
  const DeviceTensor mean(DType::kFloat32, p.rows), rstd(DType::kFloat32, p.rows);
  LayerNormForward({.spec = p.spec,
                    .rows = p.rows,
                    .x = p.device_x.data(),
                    .weight = p.device_weight.data(),
                    .bias = biased ? p.device_bias.data() : nullptr,
                    .y = y.data(),
                    .mean = mean.floats(),
                    .rstd = rstd.floats()},
                   TestStream());
  return {y.Read(), mean.Read(), rstd.Read()};
}

struct Backward {
  Floats dx, dweight, dbias;
};

enum class Frozen { kNone, kWeight, kBias, kBoth };

// dweight starts at 0.25, dbias at -0.25.
Backward RunBackward(const Problem& p, const Forward& forward, const Floats& dx, bool accumulate,
                     Frozen frozen = Frozen::kNone) {
  const DeviceTensor mean(DType::kFloat32, forward.mean), rstd(DType::kFloat32, forward.rstd);
  const DeviceTensor device_dx(p.spec.dtype, dx);
  const DeviceTensor dweight(p.spec.grad_dtype, Floats(Size(p.spec.hidden), 0.25f));
  const DeviceTensor dbias(p.spec.grad_dtype, Floats(Size(p.spec.hidden), -0.25f));
  const bool no_weight = frozen == Frozen::kWeight || frozen == Frozen::kBoth;
  const bool no_bias = frozen == Frozen::kBias || frozen == Frozen::kBoth;
  const Scratch scratch(no_weight && no_bias ? 0 : LayerNormBackwardWorkspaceBytes(p.spec, p.rows));
  LayerNormBackward({.spec = p.spec,
                     .rows = p.rows,
                     .dy = p.device_dy.data(),
                     .x = p.device_x.data(),
                     .weight = p.device_weight.data(),
                     .mean = mean.floats(),
                     .rstd = rstd.floats(),
                     .accumulate_dx = accumulate,
                     .dx = device_dx.data(),
                     .dweight = no_weight ? nullptr : dweight.data(),
                     .dbias = no_bias ? nullptr : dbias.data(),
                     .workspace = scratch.workspace()},
                    TestStream());
  return {device_dx.Read(), dweight.Read(), dbias.Read()};
}

// A mean of values below 6 is off by e = (H/32 + 12) u 6: a sum of H/32 terms in turn and a tree.
// y = n w + b with |n| < 6, |w| < 5: n is off by r e and by the e/6 of r; then y is rounded.
// dx = r (m - mean(m) - n mean(m n)) with |m| < 25: each part is off by at most 4 x 25 e/6 r.
// dw: terms that sum to less than n + 25, each off by r e, n/64 per thread and 70 in the tree.
void CheckProblem(const Problem& p) {
  const std::string what = std::string(Name(p.spec.dtype)) + " " + std::to_string(p.rows) + "x" +
                           std::to_string(p.spec.hidden) + " ";
  const Doubles x = Double(p.x), w = Double(p.weight), b = Double(p.bias), dy = Double(p.dy);
  Doubles y(x.size()), mean(Size(p.rows)), rstd(Size(p.rows)), dx = Double(p.stream);
  Doubles dw(Size(p.spec.hidden), 0.25), db(Size(p.spec.hidden), -0.25);
  reference::LayerNorm(p.shape(), x.data(), w.data(), b.data(), y.data(), mean.data(), rstd.data());
  reference::LayerNormBackward(p.shape(), dy.data(), x.data(), w.data(), dx.data(), dw.data(),
                               db.data());
  const double e = (static_cast<double>(p.spec.hidden) / 32 + 12) * kUnit32 * 6;
  const double r = Largest(rstd), unit = kUnit(p.spec.dtype), grad = kUnit(p.spec.grad_dtype);
  const double n = static_cast<double>(p.rows);
  const Forward forward = RunForward(p);
  // One element is its own mean, exactly: r does not enlarge anything.
  const double r_of_differences = p.spec.hidden == 1 ? 0 : r;
  ExpectWithin(forward.y, y, 5 * (r_of_differences + 1) * e + unit * Largest(y), what + "y");
  ExpectWithin(forward.mean, mean, e, what + "mean");
  ExpectRelativeError(forward.rstd, rstd, e, what + "rstd");
  const Backward got = RunBackward(p, forward, p.stream, true);
  ExpectWithin(got.dx, dx, r * 100 * e / 6 * 4 + unit * Largest(dx), what + "dx");
  const double terms = ((n / 64 + 70) * kUnit32 + r_of_differences * e) * (n + 25);
  ExpectWithin(got.dweight, dw, terms + grad * Largest(dw), what + "dweight");
  ExpectWithin(got.dbias, db, terms + grad * Largest(db), what + "dbias");
  const Backward again = RunBackward(p, forward, p.stream, true);
  EXPECT_TRUE(SameBits(got.dx, again.dx)) << what;
  EXPECT_TRUE(SameBits(got.dweight, again.dweight)) << what;
  EXPECT_TRUE(SameBits(got.dbias, again.dbias)) << what;
}

class LayerNormGpuTest : public testing::TestWithParam<DType> {};

// Every owner of a row (1, 2, 4 vectors of a warp; 2, 4 of a block; walked), and odd tails.
TEST_P(LayerNormGpuTest, MatchesReferenceForEverySize) {
  const DType other = GetParam() == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
  for (const int64_t hidden : {1, 2, 7, 8, 67, 248, 256, 264, 512, 520, 768, 1024, 1032, 2048}) {
    for (const int64_t rows : {0, 1, 5, 37}) {
      CheckProblem(Problem(GetParam(), DType::kFloat32, rows, hidden));
    }
    CheckProblem(Problem(GetParam(), other, 3, hidden));
  }
  for (const int64_t hidden : {3584, 6144, 6152, 8192, 16384, 40000}) {
    CheckProblem(Problem(GetParam(), DType::kFloat32, 3, hidden));
  }
}

// More rows than the grid of the backward holds at once.
TEST_P(LayerNormGpuTest, MatchesReferenceForManyRows) {
  CheckProblem(Problem(GetParam(), DType::kFloat32, 6007, 128));
  CheckProblem(Problem(GetParam(), DType::kFloat32, 1301, 768));
  CheckProblem(Problem(GetParam(), DType::kFloat32, 1301, 131));
}

// Invariant kernels-4.
TEST_P(LayerNormGpuTest, OverwritesFreezesAndAliases) {
  for (const int64_t hidden : {51, 512, 896}) {
    const Problem p(GetParam(), DType::kFloat32, 37, hidden);
    const Forward forward = RunForward(p);
    const Floats zero(p.x.size(), 0.0f), nan(p.x.size(), std::nanf(""));
    const Floats weight_before(Size(hidden), 0.25f), bias_before(Size(hidden), -0.25f);
    const Backward added = RunBackward(p, forward, zero, true);
    const Backward written = RunBackward(p, forward, nan, false);
    ExpectWithin(written.dx, Double(added.dx), 0.0, "dx");
    EXPECT_TRUE(SameBits(added.dweight, written.dweight));
    EXPECT_TRUE(SameBits(added.dbias, written.dbias));
    const Backward no_weight = RunBackward(p, forward, nan, false, Frozen::kWeight);
    EXPECT_TRUE(SameBits(no_weight.dx, written.dx) && SameBits(no_weight.dbias, written.dbias));
    EXPECT_TRUE(SameBits(no_weight.dweight, weight_before));
    const Backward no_bias = RunBackward(p, forward, nan, false, Frozen::kBias);
    EXPECT_TRUE(SameBits(no_bias.dx, written.dx) && SameBits(no_bias.dweight, written.dweight));
    EXPECT_TRUE(SameBits(no_bias.dbias, bias_before));
    EXPECT_TRUE(SameBits(RunBackward(p, forward, nan, false, Frozen::kBoth).dx, written.dx));
    const DeviceTensor mean(DType::kFloat32, forward.mean), rstd(DType::kFloat32, forward.rstd);
    LayerNormBackward({.spec = p.spec,
                       .rows = p.rows,
                       .dy = p.device_dy.data(),
                       .x = p.device_x.data(),
                       .weight = p.device_weight.data(),
                       .mean = mean.floats(),
                       .rstd = rstd.floats(),
                       .accumulate_dx = false,
                       .dx = p.device_dy.data()},
                      TestStream());
    EXPECT_TRUE(SameBits(p.device_dy.Read(), written.dx)) << "dx is dy";
    LayerNormForward({.spec = p.spec,
                      .rows = p.rows,
                      .x = p.device_x.data(),
                      .weight = p.device_weight.data(),
                      .bias = p.device_bias.data(),
                      .y = p.device_x.data(),
                      .mean = mean.floats(),
                      .rstd = rstd.floats()},
                     TestStream());
    EXPECT_TRUE(SameBits(p.device_x.Read(), forward.y)) << "y is x";
  }
}

TEST_P(LayerNormGpuTest, BiasMayBeAbsent) {
  for (const int64_t hidden : {1, 7, 33, 256, 768, 6144, 40000}) {
    Problem p(GetParam(), DType::kFloat32, 7, hidden);
    const Forward without = RunForward(p, false);
    p.device_bias.Write(Floats(Size(hidden), 0.0f));
    ExpectWithin(without.y, Double(RunForward(p).y), 0.0, "y");
  }
}

// mean(x^2) - mean^2 would leave nothing of a variance of 1 beside 4,000^2.
TEST(LayerNormVarianceGpuTest, KeepsTheVarianceFarFromZero) {
  Problem p(DType::kFloat32, DType::kFloat32, 3, 896);
  for (float& value : p.x) value += 4000.0f;
  p.device_x.Write(p.x);
  const Doubles x = Double(p.x), w = Double(p.weight), b = Double(p.bias);
  Doubles y(x.size()), mean(3), rstd(3);
  reference::LayerNorm(p.shape(), x.data(), w.data(), b.data(), y.data(), mean.data(), rstd.data());
  // The mean is off by (896/32 + 12) u of 4,000; r is near 1, weights below 5.
  ExpectWithin(RunForward(p).y, y, 40 * kUnit32 * 4000 * 1.5 * 5, "y");
}

INSTANTIATE_TEST_SUITE_P(DTypes, LayerNormGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_layer_norm_test
}  // namespace coxswain::kernels
