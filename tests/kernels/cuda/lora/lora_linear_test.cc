#include "kernels/lora/lora_linear.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "common/philox.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/linear.h"

namespace coxswain::kernels {
namespace gpu_lora_linear_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kStep = 4;

struct Case {
  DType dtype, grad_dtype;
  int64_t rows, in, rank;
  std::vector<int64_t> out;
  int64_t gap = 0;  // columns of y before, between and behind the members
  float rate = 0.0f;
  bool accumulate = true;  // y and dx
  bool want_dx = true;
  bool bias = false;
  bool base = true;  // the product with W
};

std::vector<LoraMember> MembersOf(const Case& c) {
  std::vector<LoraMember> members;
  int64_t column = c.gap;
  for (const int64_t out : c.out) {
    members.push_back({.out_features = out, .column_offset = column});
    column += out + c.gap;
  }
  return members;
}

// Views `members`.
LoraLinearSpec SpecOf(const Case& c, const std::vector<LoraMember>& members) {
  return {.dtype = c.dtype,
          .grad_dtype = c.grad_dtype,
          .in_features = c.in,
          .rank = c.rank,
          .members = members,
          .ldy = members.back().column_offset + members.back().out_features + c.gap,
          .scale = 1.5f,
          .dropout_rate = c.rate};
}

std::string Describe(const Case& c) {
  return std::string(Name(c.dtype)) + " gradients " + Name(c.grad_dtype) + " rows " +
         std::to_string(c.rows) + " in " + std::to_string(c.in) + " rank " +
         std::to_string(c.rank) + " members " + std::to_string(c.out.size()) + " gap " +
         std::to_string(c.gap) + " rate " + std::to_string(c.rate) +
         (c.accumulate ? "" : " overwritten") + (c.want_dx ? "" : " no dx") +
         (c.bias ? " bias" : "") + (c.base ? "" : " no weight");
}

struct Result {
  Floats h, y, da, dx;
  std::vector<Floats> db;
};

struct Problem {
  Case c;
  std::vector<LoraMember> members;
  LoraLinearSpec spec;
  int64_t stacked;
  std::vector<uint32_t> bins, positions;
  Floats x, w, bias, a, dy, y, da, dx;
  std::vector<Floats> b, db;

  explicit Problem(const Case& in)
      : c(in), members(MembersOf(in)), spec(SpecOf(in, members)), stacked(spec.stacked_rank()) {
    x = Normal(c.rows * c.in, 1, c.dtype);
    w = Normal(spec.ldy * c.in, 7, c.dtype, 1.0f / std::sqrt(static_cast<float>(c.in)));
    bias = c.bias ? Normal(spec.ldy, 8, c.dtype) : Floats(Size(spec.ldy));
    a = Normal(stacked * c.in, 2, c.dtype, 1.0f / std::sqrt(static_cast<float>(c.in)));
    dy = Normal(c.rows * spec.ldy, 3, c.dtype);
    y = c.accumulate ? Normal(c.rows * spec.ldy, 4, c.dtype) : Floats(dy.size(), kNaN);
    da = Normal(stacked * c.in, 5, c.grad_dtype);
    dx = c.accumulate ? Normal(c.rows * c.in, 6, c.dtype) : Floats(x.size(), kNaN);
    for (size_t j = 0; j < c.out.size(); ++j) {
      const unsigned seed = 10 + static_cast<unsigned>(j);
      b.push_back(Normal(c.out[j] * c.rank, seed, c.dtype));
      db.push_back(Normal(c.out[j] * c.rank, seed + 10, c.grad_dtype));
    }
    for (int64_t t = 0; t < c.rows; ++t) {
      bins.push_back(static_cast<uint32_t>(t / 50));
      positions.push_back(static_cast<uint32_t>(t % 50));
    }
  }

  Problem(const Problem&) = delete;

  Doubles Multipliers() const {
    Doubles m(x.size(), 1.0);
    if (c.rate == 0.0f) return m;
    for (size_t i = 0; i < m.size(); ++i) {
      const size_t t = i / Size(c.in);
      const uint32_t column = static_cast<uint32_t>(i % Size(c.in));
      const auto words =
          Philox4x32({kStep, (3u << 16) | (column / 4), bins[t], positions[t]}, {1, 2});
      m[i] = PhiloxUniform(words[column % 4]) >= c.rate ? 1.0 / (1.0 - c.rate) : 0.0;
    }
    return m;
  }

  Result Compute() const {
    const DeviceValues<uint32_t> device_step({kStep}), device_bins(bins),
        device_positions(positions);
    const DropoutMask mask{.key = {1, 2},
                           .site = 3,
                           .step = device_step.data(),
                           .bins = device_bins.data(),
                           .positions = device_positions.data()};
    const DeviceTensor device_x(c.dtype, x), device_a(c.dtype, a), device_dy(c.dtype, dy);
    const DeviceTensor device_w(c.dtype, w), device_bias(c.dtype, bias);
    const DeviceTensor device_h(c.dtype, c.rows * stacked), device_y(c.dtype, y);
    const DeviceTensor device_da(c.grad_dtype, da), device_dx(c.dtype, dx);
    std::vector<std::unique_ptr<DeviceTensor>> device_b, device_db;
    std::vector<LoraMember> operands = members;
    for (size_t j = 0; j < b.size(); ++j) {
      device_b.push_back(std::make_unique<DeviceTensor>(c.dtype, b[j]));
      device_db.push_back(std::make_unique<DeviceTensor>(c.grad_dtype, db[j]));
      operands[j].b = device_b[j]->data();
      operands[j].db = device_db[j]->data();
    }
    LoraLinearSpec launched = spec;
    launched.members = operands;
    LoraLinearForwardArgs forward{.spec = launched,
                                  .mask = mask,
                                  .rows = c.rows,
                                  .x = device_x.data(),
                                  .weight = c.base ? device_w.data() : nullptr,
                                  .bias = c.bias ? device_bias.data() : nullptr,
                                  .a = device_a.data(),
                                  .h = device_h.data(),
                                  .y = device_y.data(),
                                  .accumulate_y = c.accumulate,
                                  .workspace = {}};
    LoraLinearBackwardArgs backward{.spec = launched,
                                    .mask = mask,
                                    .rows = c.rows,
                                    .x = device_x.data(),
                                    .weight = c.base ? device_w.data() : nullptr,
                                    .a = device_a.data(),
                                    .h = device_h.data(),
                                    .dy = device_dy.data(),
                                    .da = device_da.data(),
                                    .dx = c.want_dx ? device_dx.data() : nullptr,
                                    .accumulate_dx = c.accumulate,
                                    .workspace = {}};
    const Scratch forward_scratch(LoraLinearForwardWorkspaceBytes(spec, c.rows));
    const Scratch backward_scratch(LoraLinearBackwardWorkspaceBytes(spec, c.rows));
    forward.workspace = forward_scratch.workspace();
    backward.workspace = backward_scratch.workspace();
    LoraLinearForward(forward, TestStream());
    LoraLinearBackward(backward, TestStream());
    Result result{device_h.Read(), device_y.Read(), device_da.Read(), device_dx.Read(), {}};
    for (const auto& tensor : device_db) result.db.push_back(tensor->Read());
    return result;
  }
};

// The exact results, in double.
struct Expected {
  Doubles h, y, da, dx;
  std::vector<Doubles> db;
};

// The product with W and the bias.
void AddBase(const Problem& p, Expected* e) {
  const Doubles x = Double(p.x), w = Double(p.w), dy = Double(p.dy);
  const int64_t out = p.spec.columns(), ldy = p.spec.ldy, in = p.c.in;
  reference::AddProduct<double>({p.c.rows, out, in}, 1, {x.data(), in}, {w.data(), in, true},
                                e->y.data(), ldy);
  reference::AddProduct<double>({p.c.rows, in, out}, 1, {dy.data(), ldy}, {w.data(), in},
                                e->dx.data(), in);
  for (int64_t t = 0; t < p.c.rows; ++t) {
    for (int64_t n = 0; n < out; ++n) e->y[Size(t * ldy + n)] += p.bias[Size(n)];
  }
}

Expected Reference(const Problem& p) {
  const Case& c = p.c;
  const Doubles x = Double(p.x), mask = p.Multipliers();
  Doubles dropped = x;
  for (size_t i = 0; i < x.size(); ++i) dropped[i] *= mask[i];
  const Doubles all_a = Double(p.a);
  Expected e{Doubles(Size(c.rows * p.stacked), 0.0), Double(p.y), Double(p.da), Double(p.dx), {}};
  if (!c.accumulate) {
    e.y.assign(e.y.size(), 0.0);
    e.dx.assign(e.dx.size(), 0.0);
  }
  const double scale = static_cast<double>(p.spec.scale);
  reference::AddProduct<double>({c.rows, p.stacked, c.in}, scale, {dropped.data(), c.in},
                                {all_a.data(), c.in, true}, e.h.data(), p.stacked);
  if (c.base) AddBase(p, &e);
  for (size_t j = 0; j < c.out.size(); ++j) {
    const int64_t out = c.out[j], offset = p.members[j].column_offset;
    const int64_t block = static_cast<int64_t>(j) * c.rank * c.in;
    const Doubles a(all_a.begin() + block, all_a.begin() + block + c.rank * c.in);
    const Doubles b = Double(p.b[j]);
    const reference::LoraProblem<double> one{c.rows,   c.in,        c.rank,   out,     p.spec.scale,
                                             x.data(), mask.data(), a.data(), b.data()};
    Doubles slice(Size(c.rows * out), 0.0), dy(slice);
    e.db.push_back(Double(p.db[j]));
    reference::LoraForward(one, slice.data());
    for (int64_t t = 0; t < c.rows; ++t) {
      for (int64_t n = 0; n < out; ++n) {
        e.y[Size(t * p.spec.ldy + offset + n)] += slice[Size(t * out + n)];
        dy[Size(t * out + n)] = p.dy[Size(t * p.spec.ldy + offset + n)];
      }
    }
    reference::LoraBackward(one, dy.data(), &e.da[Size(block)], e.db[j].data(), e.dx.data());
  }
  return e;
}

// Roundings to the type: dropped x, h or g, one of the two products where they are not one (the
// undropped g A is one more, where there is no third), and the result. Each adds one unit to the
// relative norm of the error, for its error does not depend on the other factor. A sum of k normal
// products in float32 is within k u of the sum of their sizes, which is sqrt(k) times the norm of
// the sum; twice that where tensor cores cut instead of rounding.
double Bound(const Case& c, DType out, int64_t terms) {
  const double k = static_cast<double>(terms + c.rank);
  return 3 * kUnit(c.dtype) + kUnit(out) + 2 * k * std::sqrt(k) * kUnit(DType::kFloat32);
}

int64_t Widest(const Case& c) { return *std::max_element(c.out.begin(), c.out.end()); }

void CheckAgainstReference(const Case& c) {
  const Problem p(c);
  const Result got = p.Compute(), again = p.Compute();
  const Expected want = Reference(p);
  const std::string name = Describe(c);
  ExpectRelativeError(got.h, want.h, Bound(c, c.dtype, c.in), name + " h");
  ExpectRelativeError(got.y, want.y, Bound(c, c.dtype, c.in), name + " y");
  ExpectRelativeError(got.da, want.da, Bound(c, c.grad_dtype, c.rows + Widest(c)), name + " da");
  for (size_t j = 0; j < want.db.size(); ++j) {
    ExpectRelativeError(got.db[j], want.db[j], Bound(c, c.grad_dtype, c.rows + c.in), name + " db");
    EXPECT_TRUE(SameBits(got.db[j], again.db[j])) << name << ": db, same bits twice";
  }
  if (c.want_dx) {
    ExpectRelativeError(got.dx, want.dx, Bound(c, c.dtype, p.spec.ldy), name + " dx");
  } else {
    EXPECT_TRUE(SameBits(got.dx, p.dx)) << name << ": dx is not touched";
  }
  EXPECT_TRUE(SameBits(got.h, again.h) && SameBits(got.y, again.y) && SameBits(got.da, again.da) &&
              SameBits(got.dx, again.dx))
      << name << ": same bits twice";
}

struct Types {
  DType dtype, grad_dtype;
};

class LoraLinearGpuTest : public testing::TestWithParam<Types> {
 protected:
  Case Make(int64_t rows, int64_t in, int64_t rank, std::vector<int64_t> out) const {
    return {GetParam().dtype, GetParam().grad_dtype, rows, in, rank, std::move(out)};
  }
};

TEST_P(LoraLinearGpuTest, MatchesReferenceForOddSizes) {
  for (const int64_t rows : {1, 2, 127, 129, 300}) {
    for (const float rate : {0.0f, 0.4f}) {
      for (const std::vector<int64_t>& out :
           {std::vector<int64_t>{11}, {11, 4}, std::vector<int64_t>{11, 4, 7}}) {
        Case c = Make(rows, 23, 5, out);
        c.gap = 2;
        c.rate = rate;
        CheckAgainstReference(c);
      }
    }
  }
}

TEST_P(LoraLinearGpuTest, MatchesReferenceForEveryRank) {
  for (const int64_t rank : {1, 8, 16, 24, 32, 64, 72}) {
    for (const int64_t rows : {1, 63, 301}) {
      CheckAgainstReference(Make(rows, 192, rank, {136, 64, 72}));
      CheckAgainstReference(Make(rows, 136, rank, {200}));
    }
  }
}

TEST_P(LoraLinearGpuTest, AlignedMembersWithGapsAndDropout) {
  for (const int64_t rank : {8, 16, 64}) {
    for (const int64_t gap : {8, 1}) {
      Case c = Make(77, 200, rank, {64, 72, 80});
      c.gap = gap;
      c.rate = 0.1f;
      CheckAgainstReference(c);
      c.want_dx = false;
      CheckAgainstReference(c);
    }
  }
}

// More than one pass takes: by products.
TEST_P(LoraLinearGpuTest, MatchesReferenceForFourMembers) {
  CheckAgainstReference(Make(77, 64, 8, {16, 24, 32, 40}));
}

TEST_P(LoraLinearGpuTest, OverwritesWhenTold) {
  for (const float rate : {0.0f, 0.2f}) {
    Case c = Make(65, 64, 16, {32, 48});
    c.rate = rate;
    c.accumulate = false;
    CheckAgainstReference(c);
  }
}

TEST_P(LoraLinearGpuTest, MatchesReferenceAtModelShapes) {
  CheckAgainstReference(Make(131, 896, 16, {896, 128, 128}));
  CheckAgainstReference(Make(33, 896, 8, {4864, 4864}));
  CheckAgainstReference(Make(65, 4864, 16, {896}));
  CheckAgainstReference(Make(2111, 128, 16, {264}));
}

TEST_P(LoraLinearGpuTest, AddsTheBias) {
  Case c = Make(65, 64, 16, {32, 48});
  c.bias = true;
  CheckAgainstReference(c);
  c.accumulate = false;
  CheckAgainstReference(c);
}

// The product with W is somebody else's: it is in y and dx before.
TEST_P(LoraLinearGpuTest, AddsTheAdaptersAloneWithoutAWeight) {
  for (const float rate : {0.0f, 0.2f}) {
    for (const int64_t gap : {0, 8}) {
      Case c = Make(65, 64, 16, {32, 48});
      c.rate = rate;
      c.gap = gap;
      c.base = false;
      CheckAgainstReference(c);
    }
  }
  Case overwritten = Make(9, 64, 16, {32, 48});
  overwritten.base = overwritten.accumulate = false;
  EXPECT_THROW(Problem(overwritten).Compute(), std::invalid_argument);
}

// Rows of y may lie apart.
TEST_P(LoraLinearGpuTest, ColumnsBehindTheWeightStay) {
  Case c = Make(33, 64, 8, {16, 24});
  c.gap = 8;
  Problem p(c);
  p.spec.out_features = 56;
  const Result got = p.Compute();
  const Expected want = Reference(p);
  for (int64_t t = 0; t < c.rows; ++t) {
    for (int64_t n = 56; n < p.spec.ldy; ++n) {
      const size_t at = Size(t * p.spec.ldy + n);
      ASSERT_EQ(got.y[at], p.y[at]) << "row " << t << " column " << n;
    }
  }
  ExpectRelativeError(got.y, want.y, Bound(c, c.dtype, c.in), "y");
}

TEST_P(LoraLinearGpuTest, ZeroBIsTheLinearAlone) {
  for (const bool accumulate : {false, true}) {
    Case c = Make(150, 64, 16, {48, 32});
    c.accumulate = accumulate;
    Problem p(c), alone(c);
    for (Floats& b : p.b) std::fill(b.begin(), b.end(), 0.0f);
    alone.b = p.b;
    std::fill(alone.a.begin(), alone.a.end(), 0.0f);
    const Result got = p.Compute(), want = alone.Compute();
    EXPECT_EQ(got.y, want.y);
    EXPECT_EQ(got.da, p.da);
    EXPECT_EQ(got.dx, want.dx);
    EXPECT_NE(got.db[0], p.db[0]);
  }
}

// Invariant kernels-2.
TEST_P(LoraLinearGpuTest, NoRowsChangeNothing) {
  const Problem p(Make(0, 64, 16, {48, 32}));
  const Result got = p.Compute();
  EXPECT_EQ(got.da, p.da);
  EXPECT_EQ(got.db[1], p.db[1]);
}

INSTANTIATE_TEST_SUITE_P(DTypes, LoraLinearGpuTest,
                         testing::Values(Types{DType::kFloat32, DType::kFloat32},
                                         Types{DType::kBFloat16, DType::kFloat32},
                                         Types{DType::kBFloat16, DType::kBFloat16}),
                         [](const auto& info) {
                           return std::string(Name(info.param.dtype)) + "_gradients_" +
                                  Name(info.param.grad_dtype);
                         });

// Invariant kernels-1.
TEST(LoraLinearContractGpuTest, RefusesWhatItCannotDo) {
  const Case c{DType::kBFloat16, DType::kFloat32, 8, 16, 8, {16, 16}, 0, 0.1f};
  const std::vector<LoraMember> members = MembersOf(c);
  const LoraLinearSpec spec = SpecOf(c, members);
  EXPECT_TRUE(LoraLinearSupports(spec));
  LoraLinearSpec wrong = spec;
  wrong.ldy = 31;
  EXPECT_FALSE(LoraLinearSupports(wrong));
  wrong = spec;
  wrong.dtype = DType::kFloat32;
  wrong.grad_dtype = DType::kBFloat16;
  EXPECT_FALSE(LoraLinearSupports(wrong));
  EXPECT_GE(LoraLinearForwardWorkspaceBytes(spec, 8), GemmWorkspaceBytes() + 8 * 16 * 2);
  EXPECT_THROW(LoraLinearForward({.spec = spec, .rows = 8, .workspace = {}}, TestStream()),
               std::invalid_argument);
}

}  // namespace
}  // namespace gpu_lora_linear_test
}  // namespace coxswain::kernels
