// The adapters of a mixture's experts against the loops over rows in double (tests/reference). In
// bfloat16 ranks and extents that are multiples of 8 take the tensor cores, others and float32 the
// plain kernels; ranks 8 and 16 take dh and dB in one pass up to 2,048 outputs.
#include "kernels/experts/grouped_lora.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/grouped_lora.h"

namespace coxswain::kernels {
namespace gpu_grouped_lora_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kScale = 0.75f;
using Counts = std::vector<int64_t>;

struct Case {
  Counts counts;  // rows of each expert
  int64_t behind, in, out, rank;
  DType dtype = DType::kBFloat16, grad = DType::kFloat32;
};

std::string Describe(const Case& c) {
  return std::string(Name(c.dtype)) + " gradients " + Name(c.grad) + " in " + std::to_string(c.in) +
         " out " + std::to_string(c.out) + " rank " + std::to_string(c.rank) + " experts " +
         std::to_string(c.counts.size());
}

std::vector<int32_t> Offsets(const Counts& counts) {
  std::vector<int32_t> offsets = {0};
  for (const int64_t count : counts) {
    offsets.push_back(offsets.back() + static_cast<int32_t>(count));
  }
  return offsets;
}

Doubles Wide(const Floats& values) { return {values.begin(), values.end()}; }
Doubles Sizes(const Floats& values) {
  Doubles sizes;
  for (const float value : values) sizes.push_back(std::abs(value));
  return sizes;
}

struct Results {
  Floats h, y, dx, da, db;

  bool Same(const Results& o) const {
    return SameBits(h, o.h) && SameBits(y, o.y) && SameBits(dx, o.dx) && SameBits(da, o.da) &&
           SameBits(db, o.db);
  }
};

// Rows that belong to no expert are NaN, and so is h before the launch.
class Problem {
 public:
  explicit Problem(const Case& in)
      : c(in),
        offsets(Offsets(c.counts)),
        rows(offsets.back() + c.behind),
        x(Normal(rows * c.in, 1, c.dtype)),
        dy(Normal(rows * c.out, 2, c.dtype)),
        a(Normal(experts() * c.rank * c.in, 3, c.dtype)),
        b(Normal(experts() * c.out * c.rank, 4, c.dtype)),
        y(Normal(rows * c.out, 5, c.dtype)),
        dx(Normal(rows * c.in, 6, c.dtype)),
        da(Normal(experts() * c.rank * c.in, 7, c.grad)),
        db(Normal(experts() * c.out * c.rank, 8, c.grad)) {
    std::fill(x.begin() + offsets.back() * c.in, x.end(), kNan);
    std::fill(dy.begin() + offsets.back() * c.out, dy.end(), kNan);
  }
  int64_t experts() const { return static_cast<int64_t>(c.counts.size()); }
  GroupedLoraSpec spec() const {
    return {.dtype = c.dtype,
            .grad_dtype = c.grad,
            .experts = experts(),
            .in_features = c.in,
            .out_features = c.out,
            .rank = c.rank,
            .scale = kScale};
  }
  Results Run() const;

  Case c;
  std::vector<int32_t> offsets;
  int64_t rows;
  Floats x, dy, a, b, y, dx, da, db;
};

// The operands and results of a problem on the device.
class OnDevice {
 public:
  explicit OnDevice(const Problem& p)
      : p_(p),
        offsets(p.offsets),
        x(p.c.dtype, p.x),
        dy(p.c.dtype, p.dy),
        a(p.c.dtype, p.a),
        b(p.c.dtype, p.b),
        h(p.c.dtype, p.rows * p.c.rank),
        y(p.c.dtype, p.y),
        dx(p.c.dtype, p.dx),
        da(p.c.grad, p.da),
        db(p.c.grad, p.db),
        scratch_(GroupedLoraBackwardWorkspaceBytes(p.spec(), p.rows)) {}
  void Launch(bool with_dx = true) const {
    GroupedLoraForward({.spec = p_.spec(),
                        .rows = p_.rows,
                        .offsets = offsets.data(),
                        .x = x.data(),
                        .a = a.data(),
                        .b = b.data(),
                        .h = h.data(),
                        .y = y.data()},
                       TestStream());
    GroupedLoraBackward({.spec = p_.spec(),
                         .rows = p_.rows,
                         .offsets = offsets.data(),
                         .x = x.data(),
                         .a = a.data(),
                         .b = b.data(),
                         .h = h.data(),
                         .dy = dy.data(),
                         .da = da.data(),
                         .db = db.data(),
                         .dx = with_dx ? dx.data() : nullptr,
                         .workspace = scratch_.workspace()},
                        TestStream());
  }
  Results Read() const { return {h.Read(), y.Read(), dx.Read(), da.Read(), db.Read()}; }
  // What is added to, as it was.
  void Restore() {
    y.Write(p_.y);
    dx.Write(p_.dx);
    da.Write(p_.da);
    db.Write(p_.db);
  }

 private:
  const Problem& p_;

 public:
  DeviceValues<int32_t> offsets;
  DeviceTensor x, dy, a, b, h, y, dx, da, db;

 private:
  Scratch scratch_;
};

Results Problem::Run() const {
  OnDevice device(*this);
  device.Launch();
  return device.Read();
}

// The op in double for an h that is given, or the sums of the sizes of what it adds.
struct Reference {
  Doubles h, y, dx, da, db;

  Reference(const Problem& p, const Doubles& x, const Doubles& a, const Doubles& b,
            const Doubles& dy, const Doubles& rounded_h) {
    const reference::GroupedLoraProblem<double> problem{
        p.rows, p.experts(),      p.c.in,   p.c.out,  p.c.rank,
        kScale, p.offsets.data(), x.data(), a.data(), b.data()};
    h = reference::GroupedLoraHidden(problem);
    y = reference::GroupedLoraOutput(problem, rounded_h.data());
    auto d = reference::GroupedLoraBackward(problem, rounded_h.data(), dy.data());
    dx = std::move(d.x);
    da = std::move(d.a);
    db = std::move(d.b);
  }
};

// `terms` products and sums follow each other, each off by u of the sum of the sizes, 2 u where
// tensor cores cut; `rounded`: one factor was rounded to the op's type as well. Then the result is
// rounded to its own type.
struct Bound {
  double terms;
  DType dtype;
  double rounded = 0;
  const Floats* old = nullptr;  // what is added to
};

void ExpectSumsOf(const Floats& actual, const Doubles& sums, const Doubles& sizes, const Bound& b,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), sums.size()) << what;
  const double unit = kUnit(DType::kFloat32);
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double old = b.old == nullptr ? 0 : (*b.old)[i];
    const double expected = sums[i] + old;
    const double inner =
        (2 * (b.terms + 3) * unit + b.rounded) * (1 + b.rounded) * sizes[i] + unit * std::abs(old);
    const double bound = inner + kUnit(b.dtype) * (std::abs(expected) + inner);
    const double error = std::abs(actual[i] - expected);
    ASSERT_LE(error, bound) << what << " element " << i << " of " << sums.size() << ": "
                            << actual[i] << ", expected " << expected;
    if (bound > 0) worst = std::max(worst, error / bound);
  }
  std::printf("%s: %.3f of the bound\n", what.c_str(), worst);
}

// y and dB have the h that was stored, which is judged by itself. dx and dA have dh, a sum of N
// products that is rounded to the op's type, and add rank and rows to it.
void Check(const Case& c) {
  const Problem p(c);
  const Results r = p.Run();
  const Reference values(p, Wide(p.x), Wide(p.a), Wide(p.b), Wide(p.dy), Wide(r.h));
  const Reference sizes(p, Sizes(p.x), Sizes(p.a), Sizes(p.b), Sizes(p.dy), Sizes(r.h));
  const auto most = static_cast<double>(*std::max_element(c.counts.begin(), c.counts.end()));
  const auto in = static_cast<double>(c.in), out = static_cast<double>(c.out);
  const auto rank = static_cast<double>(c.rank);
  const double unit = kUnit(c.dtype);
  const std::string what = Describe(c) + " ";
  ExpectSumsOf(r.h, values.h, sizes.h, {in, c.dtype}, what + "h");
  ExpectSumsOf(r.y, values.y, sizes.y, {rank, c.dtype, 0, &p.y}, what + "y");
  ExpectSumsOf(r.dx, values.dx, sizes.dx, {out + rank, c.dtype, unit, &p.dx}, what + "dx");
  ExpectSumsOf(r.da, values.da, sizes.da, {out + most, c.grad, unit, &p.da}, what + "dA");
  ExpectSumsOf(r.db, values.db, sizes.db, {most, c.grad, 0, &p.db}, what + "dB");
  EXPECT_TRUE(p.Run().Same(r)) << Describe(c) << ": the same bits twice";
}

const Counts& Tails() {
  static const Counts counts = {1, 15, 16, 0, 17, 63, 64, 65, 127, 128, 0, 0, 129, 200, 31, 3};
  return counts;
}

TEST(GroupedLoraGpuTest, MatchesReferenceForEveryTail) {
  for (const DType grad : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rank : {8, 16, 32}) {
      Check({Tails(), 5, 72, 264, rank, DType::kBFloat16, grad});
      Check({Tails(), 0, 136, 40, rank, DType::kBFloat16, grad});
    }
  }
  Check({Tails(), 130, 8, 8, 16});
  Counts counts(80);
  std::iota(counts.begin(), counts.end(), 0);
  Check({counts, 0, 40, 24, 16});
}

TEST(GroupedLoraGpuTest, MatchesReferenceForEveryRank) {
  for (const int64_t rank :
       {1, 2, 3, 7, 8, 12, 15, 16, 17, 24, 32, 40, 48, 64, 72, 96, 120, 128, 136}) {
    Check({{33, 0, 150, 64, 1}, 3, 72, 136, rank});
  }
  for (const int64_t rank : {1, 5, 16, 128}) {
    for (const DType grad : {DType::kFloat32, DType::kBFloat16}) {
      Check({{33, 0, 150, 64, 1}, 3, 72, 136, rank, DType::kFloat32, grad});
    }
  }
}

TEST(GroupedLoraGpuTest, TakesThePlainWayOtherwise) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Check({{3, 0, 65, 64, 1, 130}, 7, 17, 70, 16, dtype});
    Check({{3, 0, 65, 64, 1, 130}, 7, 72, 71, 16, dtype, DType::kBFloat16});
  }
}

// Around the widths of slices and of the pass that has both dh and dB.
TEST(GroupedLoraGpuTest, MatchesReferenceForEveryWidth) {
  for (const int64_t width : {504, 520, 1032, 1536, 1992, 2048, 2056}) {
    for (const int64_t rank : {8, 16}) Check({{20, 70, 0, 33}, 2, 24, width, rank});
  }
  for (const int64_t width : {248, 264, 504, 520, 1096}) {
    for (const int64_t rank : {16, 64, 128}) Check({{20, 70, 0, 33}, 2, width, 24, rank});
  }
}

TEST(GroupedLoraGpuTest, MatchesReferenceForManyExperts) {
  Counts counts(128, 1);
  Check({counts, 0, 40, 24, 16});
  for (size_t expert : {0, 77, 127}) {
    counts.assign(128, 0);
    counts[expert] = 700;
    Check({counts, 0, 40, 24, 16});
  }
  counts.assign(128, 0);
  Check({counts, 300, 40, 24, 16});
}

// Every multiprocessor has rows: segments lie in many ranges, and ranges have many segments.
TEST(GroupedLoraGpuTest, MatchesReferenceForLongSegments) {
  Check({{0, 20000, 0}, 0, 40, 24, 16});
  Check({{9000, 1, 0, 3, 7000, 4000}, 100, 40, 24, 8});
  Check({Counts(300, 50), 0, 24, 40, 16});
  Check({{9000, 1, 0, 3, 7000}, 0, 40, 24, 64});
}

TEST(GroupedLoraGpuTest, MatchesReferenceForModels) {
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{2048, 1536}, {768, 2048}}) {
    for (const int64_t rank : {16, 64}) {
      Check({{512, 230, 0, 101, 640, 1, 40}, 77, in, out, rank});
    }
  }
}

Floats Slice(const Floats& of, int64_t begin, int64_t end, int64_t columns) {
  return {of.begin() + begin * columns, of.begin() + end * columns};
}

// kernels-5 and kernels-6 of rows.
TEST(GroupedLoraGpuTest, RowsDoNotSeeEachOther) {
  const Problem p({{70, 200, 3, 129}, 9, 136, 72, 16});
  const Results all = p.Run();
  for (size_t e = 0; e < p.c.counts.size(); ++e) {
    const int64_t begin = p.offsets[e], end = p.offsets[e + 1];
    const auto expert = static_cast<int64_t>(e);
    Problem alone({{p.c.counts[e]}, 0, p.c.in, p.c.out, p.c.rank});
    alone.x = Slice(p.x, begin, end, p.c.in);
    alone.dy = Slice(p.dy, begin, end, p.c.out);
    alone.a = Slice(p.a, expert, expert + 1, p.c.in * p.c.rank);
    alone.b = Slice(p.b, expert, expert + 1, p.c.rank * p.c.out);
    alone.y = Slice(p.y, begin, end, p.c.out);
    alone.dx = Slice(p.dx, begin, end, p.c.in);
    const Results r = alone.Run();
    EXPECT_TRUE(SameBits(r.h, Slice(all.h, begin, end, p.c.rank))) << e;
    EXPECT_TRUE(SameBits(r.y, Slice(all.y, begin, end, p.c.out))) << e;
    EXPECT_TRUE(SameBits(r.dx, Slice(all.dx, begin, end, p.c.in))) << e;
  }
}

TEST(GroupedLoraGpuTest, NanReachesItsRowAndItsExpertAlone) {
  for (const int64_t rank : {16, 64}) {
    Problem p({{70, 200, 3, 129}, 9, 136, 72, rank});
    const Results clean = p.Run();
    const int64_t row = 70 + 199;  // the last of expert 1
    std::fill_n(p.x.begin() + row * p.c.in, p.c.in, kNan);
    std::fill_n(p.dy.begin() + row * p.c.out, p.c.out, kNan);
    const Results r = p.Run();
    const auto check = [](const Floats& now, const Floats& before, int64_t begin, int64_t end) {
      for (int64_t i = 0; i < static_cast<int64_t>(now.size()); ++i) {
        if (i >= begin && i < end) {
          ASSERT_TRUE(std::isnan(now[Size(i)])) << i;
        } else {
          ASSERT_EQ(now[Size(i)], before[Size(i)]) << i;
        }
      }
    };
    check(r.h, clean.h, row * rank, (row + 1) * rank);
    check(r.y, clean.y, row * p.c.out, (row + 1) * p.c.out);
    check(r.dx, clean.dx, row * p.c.in, (row + 1) * p.c.in);
    check(r.da, clean.da, p.c.in * rank, 2 * p.c.in * rank);
    check(r.db, clean.db, p.c.out * rank, 2 * p.c.out * rank);
  }
}

TEST(GroupedLoraGpuTest, RowsBehindTheLastStayAndHaveNoH) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Problem p({{70, 0, 33}, 300, 40, 24, 16, dtype});
    const Results r = p.Run();
    const int64_t behind = p.offsets.back();
    EXPECT_EQ(Slice(r.h, behind, p.rows, 16), Floats(300 * 16, 0.0f));
    EXPECT_TRUE(SameBits(Slice(r.y, behind, p.rows, 24), Slice(p.y, behind, p.rows, 24)));
    EXPECT_TRUE(SameBits(Slice(r.dx, behind, p.rows, 40), Slice(p.dx, behind, p.rows, 40)));
  }
}

TEST(GroupedLoraGpuTest, OneGraphServesEveryDistribution) {
  for (const int64_t rank : {16, 64}) {
    const Problem p({{200, 100, 0, 99}, 1, 136, 264, rank});
    OnDevice device(p);
    Graph* graph = CaptureGraph([&] { device.Launch(); }, TestStream());
    for (const Counts& counts :
         {p.c.counts, Counts{0, 0, 399, 0}, Counts{0, 0, 0, 0}, Counts{1, 128, 256, 15}}) {
      Problem other(p);
      other.c.counts = counts;
      other.offsets = Offsets(counts);
      const Results want = other.Run();
      CopyMemory(device.offsets.data(), other.offsets.data(),
                 static_cast<int64_t>(other.offsets.size() * sizeof(int32_t)), nullptr);
      device.Restore();
      LaunchGraph(graph, TestStream());
      EXPECT_TRUE(device.Read().Same(want)) << rank;
    }
    DestroyGraph(graph);
  }
}

TEST(GroupedLoraGpuTest, GradientsWithoutDxAndWithoutRows) {
  const Problem p({{33, 0, 70}, 0, 40, 24, 16});
  const Results want = p.Run();
  OnDevice device(p);
  device.Launch(false);
  const Results r = device.Read();
  EXPECT_TRUE(SameBits(r.da, want.da) && SameBits(r.db, want.db));
  EXPECT_TRUE(SameBits(r.dx, p.dx));
  GroupedLoraForward({.spec = p.spec()}, TestStream());
  const Scratch scratch(GroupedLoraBackwardWorkspaceBytes(p.spec(), 0));
  GroupedLoraBackward({.spec = p.spec(), .workspace = scratch.workspace()}, TestStream());
}

// Matrices that start between the multiples of 16 bytes.
TEST(GroupedLoraGpuTest, TakesMatricesOfAnyAlignment) {
  const Problem p({{33, 0, 70}, 0, 40, 24, 16});
  const Results want = p.Run();
  OnDevice device(p);
  Floats moved = {0.0f};
  moved.insert(moved.end(), p.x.begin(), p.x.end());
  const DeviceTensor x(p.c.dtype, moved);
  GroupedLoraForward({.spec = p.spec(),
                      .rows = p.rows,
                      .offsets = device.offsets.data(),
                      .x = static_cast<const char*>(x.data()) + DTypeBytes(p.c.dtype),
                      .a = device.a.data(),
                      .b = device.b.data(),
                      .h = device.h.data(),
                      .y = device.y.data()},
                     TestStream());
  const Doubles h = Wide(want.h);
  ExpectRelativeError(device.h.Read(), h, 2 * kUnit(p.c.dtype), "h");
}

TEST(GroupedLoraGpuTest, RefusesWhatIsNone) {
  const GroupedLoraSpec spec{.experts = 2, .in_features = 8, .out_features = 8, .rank = 8};
  EXPECT_THROW(GroupedLoraForward({.spec = spec, .rows = -1}, TestStream()), std::invalid_argument);
  EXPECT_THROW(GroupedLoraBackward({.spec = spec, .rows = 5}, TestStream()), std::invalid_argument);
  EXPECT_FALSE(GroupedLoraSupports({.experts = 2, .in_features = 8, .out_features = 8}));
  EXPECT_FALSE(GroupedLoraSupports({.experts = 0, .in_features = 8, .out_features = 8, .rank = 8}));
}

}  // namespace
}  // namespace gpu_grouped_lora_test
}  // namespace coxswain::kernels
