#include "kernels/lora/dora.h"

#include <algorithm>

#include "tests/kernels/testing.h"
#include "tests/reference/dora.h"

namespace coxswain::kernels {
namespace dora_test {
namespace {

// Two members of one packed row, columns of neither before, between and behind them.
struct Problem {
  static constexpr int64_t kIn = 23, kRank = 5, kWide = 17;
  std::vector<LoraMember> members = {{.out_features = 9, .column_offset = 1},
                                     {.out_features = 4, .column_offset = 11}};
  LoraLinearSpec spec{
      .in_features = kIn, .rank = kRank, .members = members, .ldy = kWide, .scale = 1.5f};
  int64_t rows;
  Floats w = Normal(kWide * kIn, 1), a = Normal(2 * kRank * kIn, 2);
  Floats b[2] = {Normal(9 * kRank, 3), Normal(4 * kRank, 4)};
  Floats magnitude[2] = {Normal(9, 5), Normal(4, 6)};
  Floats u, dy, bias = Normal(kWide, 9);

  explicit Problem(int64_t row_count)
      : rows(row_count), u(Normal(row_count * kWide, 7)), dy(Normal(row_count * kWide, 8)) {}
  Problem(const Problem&) = delete;
};

struct Result {
  Floats norm, factor, y, du, dmagnitude[2];
};

Result Compute(const Problem& p) {
  const size_t wide = Size(Problem::kWide);
  const float nan = std::nanf("");
  Result r{Floats(wide, nan), Floats(wide, nan), Floats(p.u.size(), nan), p.dy, {}};
  std::vector<LoraMember> members = p.members;
  for (size_t j = 0; j < 2; ++j) {
    r.dmagnitude[j] = Floats(p.magnitude[j].size(), 0.25f);
    members[j].b = p.b[j].data();
    members[j].magnitude = p.magnitude[j].data();
    members[j].dmagnitude = r.dmagnitude[j].data();
  }
  LoraLinearSpec spec = p.spec;
  spec.members = members;
  Floats squares(wide);
  Scratch factors(DoraFactorsWorkspaceBytes(p.spec));
  Scratch backward(DoraBackwardWorkspaceBytes(p.spec, p.rows));
  const ExpectNoAllocation launches;
  DoraRowSquares(
      {.rows = Problem::kWide, .columns = Problem::kIn, .w = p.w.data(), .squares = squares.data()},
      nullptr);
  DoraFactors({.spec = spec,
               .w = p.w.data(),
               .squares = squares.data(),
               .a = p.a.data(),
               .norm = r.norm.data(),
               .factor = r.factor.data(),
               .workspace = factors.view()},
              nullptr);
  DoraForward({.spec = spec,
               .rows = p.rows,
               .u = p.u.data(),
               .factor = r.factor.data(),
               .bias = p.bias.data(),
               .y = r.y.data()},
              nullptr);
  DoraBackward({.spec = spec,
                .rows = p.rows,
                .u = p.u.data(),
                .norm = r.norm.data(),
                .factor = r.factor.data(),
                .dy = r.du.data(),
                .workspace = backward.view()},
               nullptr);
  return r;
}

// Columns [offset, offset + count) of packed rows.
Doubles Columns(const Floats& packed, int64_t rows, int64_t offset, int64_t count) {
  Doubles columns;
  for (int64_t t = 0; t < rows; ++t) {
    const auto row = packed.begin() + t * Problem::kWide + offset;
    columns.insert(columns.end(), row, row + count);
  }
  return columns;
}

void ExpectNear(const Doubles& got, const Doubles& want, double bound, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << what << i;
}

// n^2 has sums of 23 products and, of those, of 5 and 5 more: off by at most 60 u of the sizes it
// adds, which are below 40 n^2 for these inputs; so n is off by 1,200 u n, f likewise.
TEST(DoraTest, MatchesReferenceInEveryMember) {
  for (const int64_t rows : {1, 2, 7, 130}) {
    const Problem p(rows);
    const Result r = Compute(p);
    for (int j = 0; j < 2; ++j) {
      const LoraMember& member = p.members[Size(j)];
      const int64_t offset = member.column_offset, out = member.out_features;
      const Doubles x(Size(rows * Problem::kIn));
      const Doubles w(p.w.begin() + offset * Problem::kIn,
                      p.w.begin() + (offset + out) * Problem::kIn);
      const Doubles a(p.a.begin() + j * Problem::kRank * Problem::kIn,
                      p.a.begin() + (j + 1) * Problem::kRank * Problem::kIn);
      const Doubles b = Double(p.b[j]), m = Double(p.magnitude[j]);
      const reference::DoraProblem<double> problem{rows,     Problem::kIn, Problem::kRank, out,
                                                   1.5,      x.data(),     w.data(),       a.data(),
                                                   b.data(), m.data()};
      const Doubles norms = reference::DoraNorms(problem);
      const Doubles u = Columns(p.u, rows, offset, out), dy = Columns(p.dy, rows, offset, out);
      const Doubles bias = Columns(p.bias, 1, offset, out);
      Doubles y(u.size()), du(u.size()), dm(Size(out), 0.25);
      reference::DoraForward(problem, u.data(), norms.data(), bias.data(), y.data());
      reference::DoraBackward(problem, u.data(), norms.data(), dy.data(), du.data(), dm.data());
      const double relative = 1200 * kUnit;
      ExpectNear(Columns(r.norm, 1, offset, out), norms, relative * MaxAbs(norms), "norm");
      ExpectNear(Columns(r.y, rows, offset, out), y, relative * MaxAbs(y), "y");
      ExpectNear(Columns(r.du, rows, offset, out), du, relative * MaxAbs(du), "du");
      ExpectNear(Double(r.dmagnitude[j]), dm, relative * static_cast<double>(rows) * MaxAbs(dm),
                 "dm");
    }
  }
}

TEST(DoraTest, ColumnsOfNoMemberPassWithTheirBias) {
  const Problem p(3);
  const Result r = Compute(p);
  for (const int64_t column : {0, 10, 15, 16}) {
    EXPECT_EQ(r.factor[Size(column)], 1.0f);
    EXPECT_EQ(r.norm[Size(column)], 1.0f);
    for (int64_t t = 0; t < 3; ++t) {
      const size_t i = Size(t * Problem::kWide + column);
      EXPECT_EQ(r.y[i], p.u[i] + p.bias[Size(column)]);
      EXPECT_EQ(r.du[i], p.dy[i]);
    }
  }
}

// A fresh adapter has B = 0 and m = ||W||: the layer is the base model's.
TEST(DoraTest, FreshAdapterHasFactorOne) {
  Problem p(1);
  for (int j = 0; j < 2; ++j) {
    std::fill(p.b[j].begin(), p.b[j].end(), 0.0f);
    for (size_t i = 0; i < p.magnitude[j].size(); ++i) {
      double squares = 0;
      for (int64_t k = 0; k < Problem::kIn; ++k) {
        const double w =
            p.w[(Size(p.members[Size(j)].column_offset) + i) * Size(Problem::kIn) + Size(k)];
        squares += w * w;
      }
      p.magnitude[j][i] = static_cast<float>(std::sqrt(squares));
    }
  }
  for (float factor : Compute(p).factor) EXPECT_NEAR(factor, 1.0f, 30 * kUnit);
}

TEST(DoraTest, RefusesDropout) {
  Problem p(1);
  EXPECT_TRUE(DoraSupports(p.spec));
  p.spec.dropout_rate = 0.1f;
  EXPECT_FALSE(DoraSupports(p.spec));
}

TEST(DoraTest, NoRowsLeaveTheGradients) {
  EXPECT_EQ(Compute(Problem(0)).dmagnitude[0], Floats(9, 0.25f));
}

}  // namespace
}  // namespace dora_test
}  // namespace coxswain::kernels
