// The adapters of a mixture's experts against the loops in double.
#include "kernels/experts/grouped_lora.h"

#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/kernels/testing.h"
#include "tests/reference/grouped_lora.h"

namespace coxswain::kernels {
namespace grouped_lora_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kScale = 0.75f;

struct Shape {
  std::vector<int32_t> offsets;
  int64_t behind, in, out, rank;

  int64_t experts() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t rows() const { return offsets.back() + behind; }
};

// Rows of no expert are NaN, and so is h before.
class AdaptersPass {
 public:
  explicit AdaptersPass(const Shape& shape)
      : s(shape),
        spec{.experts = s.experts(),
             .in_features = s.in,
             .out_features = s.out,
             .rank = s.rank,
             .scale = kScale} {
    std::fill(x.begin() + s.offsets.back() * s.in, x.end(), kNan);
    std::fill(dy.begin() + s.offsets.back() * s.out, dy.end(), kNan);
  }
  void Run() {
    GroupedLoraForward({.spec = spec,
                        .rows = s.rows(),
                        .offsets = s.offsets.data(),
                        .x = x.data(),
                        .a = a.data(),
                        .b = b.data(),
                        .h = h.data(),
                        .y = y.data()},
                       nullptr);
    GroupedLoraBackward({.spec = spec,
                         .rows = s.rows(),
                         .offsets = s.offsets.data(),
                         .x = x.data(),
                         .a = a.data(),
                         .b = b.data(),
                         .h = h.data(),
                         .dy = dy.data(),
                         .da = da.data(),
                         .db = db.data(),
                         .dx = wants_dx ? dx.data() : nullptr,
                         .workspace = scratch_.view()},
                        nullptr);
  }

  Shape s;
  GroupedLoraSpec spec;
  bool wants_dx = true;
  Floats x = Normal(s.rows() * s.in, 1), a = Normal(s.experts() * s.rank * s.in, 2);
  Floats b = Normal(s.experts() * s.out * s.rank, 3), dy = Normal(s.rows() * s.out, 4);
  Floats y = Normal(s.rows() * s.out, 5), dx = Normal(s.rows() * s.in, 6);
  Floats da = Normal(s.experts() * s.rank * s.in, 7), db = Normal(s.experts() * s.out * s.rank, 8);
  Floats h = Floats(Size(s.rows() * s.rank), kNan);

 private:
  Scratch scratch_{GroupedLoraBackwardWorkspaceBytes(spec, s.rows())};
};

Doubles Sum(const Floats& old, const Doubles& added) {
  Doubles sum = Double(old);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
  return sum;
}

// Values are below 5. h sums K products, at most m = 25 K; what is added to y sums r of them with
// B, dh N products, dx r of those with A, dA and dB the rows' products.
void CheckAdapters(const Shape& s) {
  AdaptersPass pass(s);
  const Floats y = pass.y, dx = pass.dx, da = pass.da, db = pass.db;
  {
    ExpectNoAllocation none;
    pass.Run();
  }
  const Doubles x = Double(pass.x), a = Double(pass.a), b = Double(pass.b), dy = Double(pass.dy);
  const reference::GroupedLoraProblem<double> p{
      s.rows(), s.experts(),      s.in,     s.out,    s.rank,
      kScale,   s.offsets.data(), x.data(), a.data(), b.data()};
  const Doubles h = reference::GroupedLoraHidden(p);
  const auto d = reference::GroupedLoraBackward(p, h.data(), dy.data());
  const auto t = static_cast<double>(s.rows()), r = static_cast<double>(s.rank);
  const auto in = static_cast<double>(s.in), out = static_cast<double>(s.out);
  ExpectWithin(pass.h, h, (in + 1) * kUnit * 25 * in, "h");
  ExpectWithin(pass.y, Sum(y, reference::GroupedLoraOutput(p, h.data())),
               (in + r + 4) * kUnit * (r * 125 * in + 5), "y");
  ExpectWithin(pass.dx, Sum(dx, d.x), (out + r + 4) * kUnit * (r * 125 * out + 5), "dx");
  ExpectWithin(pass.da, Sum(da, d.a), (out + t + 4) * kUnit * (t * 125 * out + 5), "da");
  ExpectWithin(pass.db, Sum(db, d.b), (in + t + 4) * kUnit * (t * 125 * in + 5), "db");
}

TEST(GroupedLoraTest, MatchesTheLoopsOverRows) {
  CheckAdapters({{0, 1}, 0, 1, 1, 1});
  CheckAdapters({{0, 3, 3, 10}, 0, 5, 7, 2});
  CheckAdapters({{0, 0, 1, 18, 18}, 3, 17, 9, 4});
  CheckAdapters({{0, 0, 31, 31}, 0, 8, 16, 8});  // all rows to one expert
  CheckAdapters({{0, 0, 0}, 4, 3, 3, 2});
}

TEST(GroupedLoraTest, RowsBehindTheLastStayAndHaveNoH) {
  AdaptersPass pass({{0, 1, 2}, 2, 2, 3, 1});
  const Floats y = pass.y, dx = pass.dx;
  pass.Run();
  EXPECT_EQ(Floats(pass.h.end() - 2, pass.h.end()), Floats(2, 0.0f));
  EXPECT_EQ(Floats(pass.y.end() - 6, pass.y.end()), Floats(y.end() - 6, y.end()));
  EXPECT_EQ(Floats(pass.dx.end() - 4, pass.dx.end()), Floats(dx.end() - 4, dx.end()));
}

TEST(GroupedLoraTest, GradientsWithoutDx) {
  const Shape s{{0, 5, 9}, 1, 6, 4, 3};
  AdaptersPass all(s), some(s);
  some.wants_dx = false;
  const Floats dx = some.dx;
  all.Run();
  some.Run();
  EXPECT_TRUE(SameBits(some.da, all.da) && SameBits(some.db, all.db));
  EXPECT_TRUE(SameBits(some.dx, dx));
}

TEST(GroupedLoraTest, RefusesWhatIsNone) {
  for (const std::vector<int32_t>& offsets : {std::vector<int32_t>{1, 2, 3}, {0, 2, 1}}) {
    AdaptersPass pass({{0, 1, 3}, 0, 2, 2, 1});
    pass.s.offsets = offsets;
    EXPECT_THROW(pass.Run(), std::invalid_argument);
  }
  EXPECT_FALSE(GroupedLoraSupports({.experts = 1, .in_features = 1, .out_features = 1}));
  EXPECT_FALSE(GroupedLoraSupports(
      {.dtype = DType::kBFloat16, .experts = 1, .in_features = 1, .out_features = 1, .rank = 1}));
}

}  // namespace
}  // namespace grouped_lora_test
}  // namespace coxswain::kernels
