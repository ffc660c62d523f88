#include "kernels/lora/lora_linear.h"

#include <limits>

#include "common/philox.h"
#include "tests/kernels/testing.h"
#include "tests/reference/linear.h"

namespace coxswain::kernels {
namespace lora_linear_test {
namespace {

// Three members with gaps between and behind their columns, as q, k, v of one packed row.
struct Problem {
  int64_t rows;
  std::vector<LoraMember> members = {{.out_features = 11, .column_offset = 2},
                                     {.out_features = 4, .column_offset = 13},
                                     {.out_features = 7, .column_offset = 20}};
  LoraLinearSpec spec{.in_features = 23, .rank = 5, .members = members, .ldy = 29, .scale = 1.5f};
  uint32_t step = 4;
  std::vector<uint32_t> bins, positions;
  Floats x, w, bias, a, b[3], dy;

  explicit Problem(int64_t row_count, float rate = 0.0f) : rows(row_count) {
    spec.dropout_rate = rate;
    x = Normal(rows * 23, 1);
    w = Normal(29 * 23, 8);
    bias = Normal(29, 9);
    a = Normal(15 * 23, 2);
    for (size_t j = 0; j < 3; ++j) {
      b[j] = Normal(members[j].out_features * 5, 3 + static_cast<unsigned>(j));
    }
    dy = Normal(rows * 29, 7);
    for (int64_t t = 0; t < rows; ++t) {
      bins.push_back(static_cast<uint32_t>(t / 50));
      positions.push_back(static_cast<uint32_t>(t % 50));
    }
  }
  Problem(const Problem&) = delete;

  DropoutMask mask() const {
    return {.key = {1, 2},
            .site = 3,
            .step = &step,
            .bins = bins.data(),
            .positions = positions.data()};
  }
  Doubles Multipliers() const {
    Doubles m(x.size(), 1.0);
    if (spec.dropout_rate == 0.0f) return m;
    for (size_t i = 0; i < m.size(); ++i) {
      const uint32_t c = static_cast<uint32_t>(i % 23);
      const size_t t = i / 23;
      const auto words = Philox4x32({step, (3u << 16) | (c / 4), bins[t], positions[t]}, {1, 2});
      m[i] =
          PhiloxUniform(words[c % 4]) >= spec.dropout_rate ? 1.0 / (1.0 - spec.dropout_rate) : 0.0;
    }
    return m;
  }
};

struct Result {
  Floats h, y, da, db[3], dx;
};

struct Wanted {
  bool dx = true, accumulate = true;
  bool base = true;  // the product with W
};

Result Compute(const Problem& p, Wanted wanted = {}) {
  Result r;
  r.h.assign(Size(p.rows * 15), std::numeric_limits<float>::quiet_NaN());
  r.y = Normal(p.rows * 29, 20);
  r.da = Normal(15 * 23, 21);
  r.dx = Normal(p.rows * 23, 22);
  std::vector<LoraMember> members = p.members;
  for (size_t j = 0; j < 3; ++j) {
    r.db[j] = Normal(members[j].out_features * 5, 30 + static_cast<unsigned>(j));
    members[j].b = p.b[j].data();
    members[j].db = r.db[j].data();
  }
  LoraLinearSpec spec = p.spec;
  spec.members = members;
  LoraLinearForwardArgs forward{.spec = spec,
                                .mask = p.mask(),
                                .rows = p.rows,
                                .x = p.x.data(),
                                .weight = wanted.base ? p.w.data() : nullptr,
                                .bias = wanted.base ? p.bias.data() : nullptr,
                                .a = p.a.data(),
                                .h = r.h.data(),
                                .y = r.y.data(),
                                .accumulate_y = wanted.accumulate,
                                .workspace = {}};
  LoraLinearBackwardArgs backward{.spec = spec,
                                  .mask = p.mask(),
                                  .rows = p.rows,
                                  .x = p.x.data(),
                                  .weight = wanted.base ? p.w.data() : nullptr,
                                  .a = p.a.data(),
                                  .h = r.h.data(),
                                  .dy = p.dy.data(),
                                  .da = r.da.data(),
                                  .dx = wanted.dx ? r.dx.data() : nullptr,
                                  .accumulate_dx = wanted.accumulate,
                                  .workspace = {}};
  Scratch forward_scratch(LoraLinearForwardWorkspaceBytes(p.spec, p.rows));
  Scratch backward_scratch(LoraLinearBackwardWorkspaceBytes(p.spec, p.rows));
  forward.workspace = forward_scratch.view();
  backward.workspace = backward_scratch.view();
  const ExpectNoAllocation launches;
  LoraLinearForward(forward, nullptr);
  LoraLinearBackward(backward, nullptr);
  return r;
}

// What is there before, and the product with W.
void AddBase(const Problem& p, bool accumulate, Doubles* y, Doubles* dx) {
  if (!accumulate) {
    y->assign(y->size(), 0.0);
    dx->assign(dx->size(), 0.0);
  }
  const Doubles x = Double(p.x), w = Double(p.w), dy = Double(p.dy);
  const double scale = static_cast<double>(p.spec.weight_scale);
  reference::AddProduct<double>({p.rows, 29, 23}, scale, {x.data(), 23}, {w.data(), 23, true},
                                y->data(), 29);
  reference::AddProduct<double>({p.rows, 23, 29}, scale, {dy.data(), 29}, {w.data(), 23},
                                dx->data(), 23);
  for (size_t i = 0; i < y->size(); ++i) (*y)[i] += static_cast<double>(p.bias[i % 29]);
}

void CheckAgainstReference(const Problem& p, bool accumulate = true, bool base = true) {
  const Result got = Compute(p, {.accumulate = accumulate, .base = base});
  const Doubles x = Double(p.x), mask = p.Multipliers();
  Doubles y = Double(Normal(p.rows * 29, 20)), da = Double(Normal(15 * 23, 21));
  Doubles dx = Double(Normal(p.rows * 23, 22));
  if (base) AddBase(p, accumulate, &y, &dx);
  for (int64_t j = 0; j < 3; ++j) {
    const LoraMember& member = p.members[Size(j)];
    const int64_t out = member.out_features, offset = member.column_offset;
    const Doubles a(p.a.begin() + j * 5 * 23, p.a.begin() + (j + 1) * 5 * 23), b = Double(p.b[j]);
    const reference::LoraProblem<double> one{p.rows,   23,          5,        out,     p.spec.scale,
                                             x.data(), mask.data(), a.data(), b.data()};
    Doubles slice(Size(p.rows * out), 0.0), dy(slice),
        db = Double(Normal(out * 5, 30 + static_cast<unsigned>(j)));
    reference::LoraForward(one, slice.data());
    for (int64_t t = 0; t < p.rows; ++t) {
      for (int64_t c = 0; c < out; ++c) {
        y[Size(t * 29 + offset + c)] += slice[Size(t * out + c)];
        dy[Size(t * out + c)] = p.dy[Size(t * 29 + offset + c)];
      }
    }
    reference::LoraBackward(one, dy.data(), &da[Size(j * 5 * 23)], db.data(), dx.data());
    // Chains of products over 23, 5, 11 and `rows` terms of normal values (below 5, a third of it
    // typical, dropout scales by 2 at most): (terms + 4) u of the sum's magnitude bound. W adds
    // chains of 23 and 29 terms.
    const double n = static_cast<double>(p.rows);
    ExpectWithin(got.db[j], db, (n + 23 + 4) * kUnit * (n * 30 + 30), "db");
  }
  const double n = static_cast<double>(p.rows);
  ExpectWithin(got.y, y, (23 + 5 + 4) * kUnit * 23 * (5 + 1) * 10, "y");
  ExpectWithin(got.da, da, (n + 11 + 4) * kUnit * (n * 60 + 60), "da");
  ExpectWithin(got.dx, dx, (29 + 15 + 4) * kUnit * (15 * 11 + 29) * 10, "dx");
}

TEST(LoraLinearTest, MatchesReference) {
  for (const int64_t rows : {0, 1, 2, 127, 128, 129, 300}) CheckAgainstReference(Problem(rows));
}

TEST(LoraLinearTest, MatchesReferenceWithDropout) {
  for (const int64_t rows : {0, 1, 127, 128, 129, 300}) CheckAgainstReference(Problem(rows, 0.4f));
}

TEST(LoraLinearTest, OverwritesWhenTold) {
  CheckAgainstReference(Problem(131), /*accumulate=*/false);
  CheckAgainstReference(Problem(131, 0.4f), /*accumulate=*/false);
}

// The product with W is somebody else's: it is in y and dx before.
TEST(LoraLinearTest, AddsTheAdaptersAloneWithoutAWeight) {
  CheckAgainstReference(Problem(131), /*accumulate=*/true, /*base=*/false);
  CheckAgainstReference(Problem(131, 0.4f), /*accumulate=*/true, /*base=*/false);
  EXPECT_THROW(Compute(Problem(3), {.accumulate = false, .base = false}), std::invalid_argument);
}

TEST(LoraLinearTest, ScalesTheProductWithTheWeight) {
  Problem p(9);
  p.spec.weight_scale = 0.25f;
  CheckAgainstReference(p);
}

// 27 columns of W: the last of a row, and what lies between rows, are not its.
TEST(LoraLinearTest, ColumnsBehindTheWeightStay) {
  Problem p(9);
  p.spec.out_features = 27;
  const Result r = Compute(p, {.dx = false});
  const Floats before = Normal(9 * 29, 20);
  for (size_t t = 0; t < 9; ++t) {
    for (const size_t c : {27, 28}) EXPECT_EQ(r.y[t * 29 + c], before[t * 29 + c]);
    EXPECT_NE(r.y[t * 29], before[t * 29]);
  }
}

TEST(LoraLinearTest, ZeroBIsTheLinearAlone) {
  Problem p(31, 0.1f), frozen(31);
  for (Floats& b : p.b) std::fill(b.begin(), b.end(), 0.0f);
  for (Floats& b : frozen.b) std::fill(b.begin(), b.end(), 0.0f);
  std::fill(frozen.a.begin(), frozen.a.end(), 0.0f);
  const Result r = Compute(p), alone = Compute(frozen);
  EXPECT_EQ(r.y, alone.y);
  EXPECT_EQ(r.da, Normal(15 * 23, 21));
  EXPECT_EQ(r.dx, alone.dx);
  EXPECT_NE(r.db[0], Normal(55, 30));
}

TEST(LoraLinearTest, WithoutDxTheOtherGradientsAreBitEqual) {
  const Problem p(150, 0.2f);
  const Result with = Compute(p), without = Compute(p, {.dx = false});
  EXPECT_TRUE(SameBits(with.da, without.da));
  EXPECT_TRUE(SameBits(with.db[2], without.db[2]));
  EXPECT_EQ(without.dx, Normal(150 * 23, 22));
  EXPECT_TRUE(SameBits(with.dx, Compute(p).dx)) << "same bits twice";
}

TEST(LoraLinearTest, RefusesMembersOutsideTheRow) {
  const Problem p(1);
  LoraLinearSpec spec = p.spec;
  EXPECT_TRUE(LoraLinearSupports(spec));
  spec.ldy = 26;
  EXPECT_FALSE(LoraLinearSupports(spec));
  spec = p.spec;
  spec.members = {};
  EXPECT_FALSE(LoraLinearSupports(spec));
}

// A pack of any number of members: each as if it were alone.
TEST(LoraLinearTest, FiveMembersAreFiveAdapters) {
  const int64_t rows = 9, in = 23, rank = 2, out = 3;
  const Floats x = Normal(rows * in, 1), a = Normal(5 * rank * in, 2),
               b = Normal(5 * out * rank, 3), w(Size(5 * out * in), 0.0f);
  std::vector<LoraMember> members;
  for (int64_t j = 0; j < 5; ++j) {
    members.push_back(
        {.out_features = out, .column_offset = j * out, .b = b.data() + j * out * rank});
  }
  const auto run = [&](std::span<const LoraMember> some, const float* first_a) {
    const LoraLinearSpec spec{
        .in_features = in, .rank = rank, .members = some, .ldy = 5 * out, .scale = 1.5f};
    EXPECT_TRUE(LoraLinearSupports(spec));
    Floats h(Size(rows * spec.stacked_rank())), y(Size(rows * 5 * out));
    Scratch scratch(LoraLinearForwardWorkspaceBytes(spec, rows));
    LoraLinearForward({.spec = spec,
                       .rows = rows,
                       .x = x.data(),
                       .weight = w.data(),
                       .a = first_a,
                       .h = h.data(),
                       .y = y.data(),
                       .workspace = scratch.view()},
                      nullptr);
    return y;
  };
  const Floats all = run(members, a.data());
  Doubles sum(all.size(), 0.0);
  for (int64_t j = 0; j < 5; ++j) {
    const Floats one = run(std::span(members).subspan(Size(j), 1), a.data() + j * rank * in);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(one[i]);
  }
  ExpectWithin(all, sum, (23 + 2 + 4) * kUnit * 23 * 2 * 10, "y");
}

}  // namespace
}  // namespace lora_linear_test
}  // namespace coxswain::kernels
