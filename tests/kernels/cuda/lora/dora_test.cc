#include "kernels/lora/dora.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/dora.h"

namespace coxswain::kernels {
namespace gpu_dora_test {
namespace {

constexpr double kFloatUnit = 0x1p-24;

// Members of one packed row; what they are not covers the rest of its columns.
struct Problem {
  LoraLinearSpec spec;
  int64_t rows;
  Floats w, a, u, dy, bias;
  std::vector<Floats> b, magnitude;

  // The members that `s` views outlive this.
  Problem(const LoraLinearSpec& s, int64_t row_count) : spec(s), rows(row_count) {
    const DType t = spec.dtype;
    const float size = 1.0f / std::sqrt(static_cast<float>(spec.in_features));
    w = Normal(spec.ldy * spec.in_features, 1, t, size);
    a = Normal(spec.stacked_rank() * spec.in_features, 2, t, size);
    for (const LoraMember& member : spec.members) {
      const auto seed = static_cast<unsigned>(b.size());
      b.push_back(Normal(member.out_features * spec.rank, 3 + seed, t, 0.3f));
      magnitude.push_back(Normal(member.out_features, 6 + seed, t));
    }
    u = Normal(rows * spec.ldy, 9, t);
    dy = Normal(rows * spec.ldy, 10, t);
    bias = Normal(spec.ldy, 11, t);
  }
};

struct Result {
  Floats norm, factor, y, du;
  std::vector<Floats> dmagnitude;
};

Result Compute(const Problem& p) {
  LoraLinearSpec spec = p.spec;
  std::vector<LoraMember> members(spec.members.begin(), spec.members.end());
  std::vector<std::unique_ptr<DeviceTensor>> b, magnitude, dmagnitude;
  for (size_t j = 0; j < members.size(); ++j) {
    b.push_back(std::make_unique<DeviceTensor>(spec.dtype, p.b[j]));
    magnitude.push_back(std::make_unique<DeviceTensor>(spec.dtype, p.magnitude[j]));
    dmagnitude.push_back(
        std::make_unique<DeviceTensor>(spec.grad_dtype, Floats(p.magnitude[j].size(), 0.25f)));
    members[j].b = b.back()->data();
    members[j].magnitude = magnitude.back()->data();
    members[j].dmagnitude = dmagnitude.back()->data();
  }
  spec.members = members;
  const DeviceTensor w(spec.dtype, p.w), a(spec.dtype, p.a), u(spec.dtype, p.u);
  const DeviceTensor dy(spec.dtype, p.dy), bias(spec.dtype, p.bias);
  const DeviceTensor y(spec.dtype, p.rows * spec.ldy), squares(DType::kFloat32, spec.ldy);
  const DeviceTensor norm(DType::kFloat32, spec.ldy), factor(DType::kFloat32, spec.ldy);
  DoraFactorsArgs factors{.spec = spec, .w = w.data(), .squares = squares.floats(), .a = a.data()};
  DoraBackwardArgs backward{.spec = spec,
                            .rows = p.rows,
                            .u = u.data(),
                            .norm = norm.floats(),
                            .factor = factor.floats(),
                            .dy = dy.data()};
  const Scratch factors_scratch(DoraFactorsWorkspaceBytes(spec));
  const Scratch backward_scratch(DoraBackwardWorkspaceBytes(spec, p.rows));
  factors.norm = norm.floats();
  factors.factor = factor.floats();
  factors.workspace = factors_scratch.workspace();
  backward.workspace = backward_scratch.workspace();
  DoraRowSquares({.dtype = spec.dtype,
                  .rows = spec.ldy,
                  .columns = spec.in_features,
                  .w = w.data(),
                  .squares = squares.floats()},
                 TestStream());
  DoraFactors(factors, TestStream());
  DoraForward({.spec = spec,
               .rows = p.rows,
               .u = u.data(),
               .factor = factor.floats(),
               .bias = bias.data(),
               .y = y.data()},
              TestStream());
  DoraBackward(backward, TestStream());
  Result r{norm.Read(), factor.Read(), y.Read(), dy.Read(), {}};
  for (const auto& tensor : dmagnitude) r.dmagnitude.push_back(tensor->Read());
  return r;
}

// Columns [offset, offset + count) of packed rows.
Doubles Columns(const Floats& packed, int64_t rows, int64_t ld, int64_t offset, int64_t count) {
  Doubles columns;
  for (int64_t t = 0; t < rows; ++t) {
    const auto row = packed.begin() + t * ld + offset;
    columns.insert(columns.end(), row, row + count);
  }
  return columns;
}

Floats Float(const Doubles& values) { return {values.begin(), values.end()}; }

double MaxAbs(const Doubles& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// The norm's sums have K and r terms in float32, in a tree of unknown shape inside the library: off
// by below sqrt(K) + r roundings in practice, and 64 u covers it and what follows. Outputs round
// once to the type; dm adds `rows` products in chunks of 256 rows over 8 warps: 32 + 8 + rows / 256
// terms in a row.
void Check(const Problem& p) {
  const Result r = Compute(p), again = Compute(p);
  EXPECT_TRUE(SameBits(r.norm, again.norm) && SameBits(r.y, again.y) && SameBits(r.du, again.du));
  const LoraLinearSpec& spec = p.spec;
  const double unit = kUnit(spec.dtype);
  for (size_t j = 0; j < spec.members.size(); ++j) {
    EXPECT_TRUE(SameBits(r.dmagnitude[j], again.dmagnitude[j]));
    const int64_t offset = spec.members[j].column_offset, out = spec.members[j].out_features;
    const int64_t in = spec.in_features, first = static_cast<int64_t>(j) * spec.rank;
    const Doubles w(p.w.begin() + offset * in, p.w.begin() + (offset + out) * in);
    const Doubles a(p.a.begin() + first * in, p.a.begin() + (first + spec.rank) * in);
    const Doubles b = Double(p.b[j]), m = Double(p.magnitude[j]);
    const reference::DoraProblem<double> problem{p.rows,  in,       spec.rank, out,      spec.scale,
                                                 nullptr, w.data(), a.data(),  b.data(), m.data()};
    const Doubles norms = reference::DoraNorms(problem);
    const Doubles u = Columns(p.u, p.rows, spec.ldy, offset, out);
    const Doubles dy = Columns(p.dy, p.rows, spec.ldy, offset, out);
    const Doubles bias = Columns(p.bias, 1, spec.ldy, offset, out);
    Doubles y(u.size()), du(u.size()), dm(Size(out), 0.25);
    reference::DoraForward(problem, u.data(), norms.data(), bias.data(), y.data());
    reference::DoraBackward(problem, u.data(), norms.data(), dy.data(), du.data(), dm.data());
    const double relative = 64 * kFloatUnit;
    ExpectWithin(Float(Columns(r.norm, 1, spec.ldy, offset, out)), norms, relative * MaxAbs(norms),
                 "norm");
    ExpectWithin(Float(Columns(r.y, p.rows, spec.ldy, offset, out)), y,
                 (unit + relative) * MaxAbs(y), "y");
    ExpectWithin(Float(Columns(r.du, p.rows, spec.ldy, offset, out)), du,
                 (unit + relative) * MaxAbs(du), "du");
    // The sizes that a sum adds: at most rows |dy u| / n.
    const double sizes = static_cast<double>(p.rows) * MaxAbs(dy) * MaxAbs(u) /
                         *std::min_element(norms.begin(), norms.end());
    const double terms = 40 + 64 + static_cast<double>(p.rows) / 256;
    ExpectWithin(r.dmagnitude[j], dm,
                 terms * kFloatUnit * sizes + kUnit(spec.grad_dtype) * MaxAbs(dm), "dm");
  }
}

class DoraGpuTest : public testing::TestWithParam<DType> {};

// q, k, v of one row; gate and up; a lone linear; each aligned and not.
TEST_P(DoraGpuTest, MatchesReferenceInEveryMember) {
  for (const DType grad_dtype : {DType::kFloat32, DType::kBFloat16}) {
    // The adapters' own gradients would be float32 products rounded to bfloat16: no such product.
    if (GetParam() == DType::kFloat32 && grad_dtype != DType::kFloat32) continue;
    for (const int64_t rows : {1, 7, 257, 1030}) {
      LoraLinearSpec spec{.dtype = GetParam(), .grad_dtype = grad_dtype, .scale = 1.5f};
      spec.in_features = 64;
      spec.rank = 8;
      std::vector<LoraMember> members = {{.out_features = 48, .column_offset = 0},
                                         {.out_features = 16, .column_offset = 48},
                                         {.out_features = 16, .column_offset = 72}};
      spec.members = members;
      spec.ldy = 96;
      Check(Problem(spec, rows));
      members[1].column_offset = 49;
      members[2].out_features = 5;
      spec.ldy = 97;
      Check(Problem(spec, rows));
    }
  }
}

TEST_P(DoraGpuTest, MatchesReferenceForARealLinear) {
  LoraLinearSpec spec{.dtype = GetParam(), .in_features = 896, .rank = 16, .scale = 2.0f};
  const std::vector<LoraMember> members = {{.out_features = 896}};
  spec.members = members;
  spec.ldy = 896;
  Check(Problem(spec, 300));
}

TEST_P(DoraGpuTest, ColumnsOfNoMemberPassWithTheirBias) {
  LoraLinearSpec spec{.dtype = GetParam(), .in_features = 32, .rank = 4, .scale = 1.0f};
  const std::vector<LoraMember> members = {{.out_features = 8, .column_offset = 8}};
  spec.members = members;
  spec.ldy = 24;
  const Problem p(spec, 5);
  const Result r = Compute(p);
  for (size_t i = 0; i < r.y.size(); ++i) {
    const size_t column = i % 24;
    if (column >= 8 && column < 16) continue;
    EXPECT_EQ(r.factor[column], 1.0f);
    EXPECT_EQ(r.y[i], Round(p.u[i] + p.bias[column], GetParam()));
    EXPECT_EQ(r.du[i], p.dy[i]);
  }
}

TEST_P(DoraGpuTest, NoRowsLeaveTheGradients) {
  LoraLinearSpec spec{.dtype = GetParam(), .in_features = 32, .rank = 4, .scale = 1.0f};
  const std::vector<LoraMember> members = {{.out_features = 24}};
  spec.members = members;
  spec.ldy = 24;
  EXPECT_EQ(Compute(Problem(spec, 0)).dmagnitude[0], Floats(24, 0.25f));
}

INSTANTIATE_TEST_SUITE_P(DTypes, DoraGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_dora_test
}  // namespace coxswain::kernels
