// The linears of a mixture's experts against the loop over tokens in double (tests/reference). In
// bfloat16 extents that are multiples of 8 take the tensor cores of compute capability 9.0, others
// and float32 the plain kernels.
#include "kernels/experts/grouped_linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/experts.h"

namespace coxswain::kernels {
namespace gpu_grouped_linear_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Counts = std::vector<int64_t>;

struct Case {
  Counts counts;  // rows of each expert
  int64_t behind, in, out;
  DType dtype = DType::kBFloat16, grad = DType::kFloat32;
  bool bias = true;
};

std::string Describe(const Case& c) {
  return std::string(Name(c.dtype)) + " gradients " + Name(c.grad) + " in " + std::to_string(c.in) +
         " out " + std::to_string(c.out) + " experts " + std::to_string(c.counts.size());
}

std::vector<int32_t> Offsets(const Counts& counts) {
  std::vector<int32_t> offsets = {0};
  for (const int64_t count : counts) {
    offsets.push_back(offsets.back() + static_cast<int32_t>(count));
  }
  return offsets;
}

Doubles Sizes(const Floats& values) {
  Doubles sizes;
  for (const float value : values) sizes.push_back(std::abs(value));
  return sizes;
}

struct Results {
  Floats y, dx, dw, dbias;
};

// Rows that belong to no expert are NaN, and so is every result before the launch.
class Problem {
 public:
  explicit Problem(const Case& in)
      : c(in),
        offsets(Offsets(c.counts)),
        rows(offsets.back() + c.behind),
        x(Normal(rows * c.in, 1, c.dtype)),
        dy(Normal(rows * c.out, 2, c.dtype)),
        w(Normal(experts() * c.out * c.in, 3, c.dtype)),
        bias(Normal(experts() * c.out, 4, c.dtype)),
        old_dw(Normal(experts() * c.out * c.in, 5, c.grad)),
        old_dbias(Normal(experts() * c.out, 6, c.grad)) {
    std::fill(x.begin() + offsets.back() * c.in, x.end(), kNan);
    std::fill(dy.begin() + offsets.back() * c.out, dy.end(), kNan);
  }
  int64_t experts() const { return static_cast<int64_t>(c.counts.size()); }
  GroupedLinearSpec spec() const {
    return {.dtype = c.dtype,
            .grad_dtype = c.grad,
            .experts = experts(),
            .in_features = c.in,
            .out_features = c.out};
  }
  Results Run(bool accumulate) const;

  Case c;
  std::vector<int32_t> offsets;
  int64_t rows;
  Floats x, dy, w, bias, old_dw, old_dbias;
};

// The operands and results of a problem on the device.
class OnDevice {
 public:
  explicit OnDevice(const Problem& p)
      : p_(p),
        offsets(p.offsets),
        x(p.c.dtype, p.x),
        dy(p.c.dtype, p.dy),
        w(p.c.dtype, p.w),
        bias(p.c.dtype, p.bias),
        y(p.c.dtype, p.rows * p.c.out),
        dx(p.c.dtype, p.rows * p.c.in),
        dw(p.c.grad, static_cast<int64_t>(p.w.size())),
        dbias(p.c.grad, static_cast<int64_t>(p.bias.size())) {}
  void Launch(bool accumulate) const {
    GroupedLinearForward({.spec = p_.spec(),
                          .rows = p_.rows,
                          .offsets = offsets.data(),
                          .x = x.data(),
                          .weight = w.data(),
                          .bias = p_.c.bias ? bias.data() : nullptr,
                          .y = y.data()},
                         TestStream());
    GroupedLinearInputGradient({.spec = p_.spec(),
                                .rows = p_.rows,
                                .offsets = offsets.data(),
                                .dy = dy.data(),
                                .weight = w.data(),
                                .dx = dx.data()},
                               TestStream());
    GroupedLinearWeightGradient({.spec = p_.spec(),
                                 .rows = p_.rows,
                                 .offsets = offsets.data(),
                                 .dy = dy.data(),
                                 .x = x.data(),
                                 .accumulate = accumulate,
                                 .dweight = dw.data(),
                                 .dbias = dbias.data()},
                                TestStream());
  }
  Results Read() const { return {y.Read(), dx.Read(), dw.Read(), dbias.Read()}; }

 private:
  const Problem& p_;

 public:
  DeviceValues<int32_t> offsets;
  DeviceTensor x, dy, w, bias, y, dx, dw, dbias;
};

Results Problem::Run(bool accumulate) const {
  OnDevice device(*this);
  if (accumulate) {
    device.dw.Write(old_dw);
    device.dbias.Write(old_dbias);
  }
  device.Launch(accumulate);
  return device.Read();
}

// The op in double: a token for each row, sent to its expert with weight 1.
struct Reference {
  Doubles y, dx, dw, dbias;

  Reference(const Problem& p, const Doubles& x, const Doubles& dy, const Doubles& w,
            const Doubles& bias) {
    std::vector<int64_t> ids(Size(p.rows), -1);
    for (size_t e = 0; e < p.c.counts.size(); ++e) {
      std::fill(ids.begin() + p.offsets[e], ids.begin() + p.offsets[e + 1],
                static_cast<int64_t>(e));
    }
    const Doubles ones(Size(p.rows), 1.0);
    const Doubles none(bias.size(), 0.0);
    const reference::ExpertsProblem<double> problem{
        p.rows,     1,           p.experts(), p.c.in,   p.c.out,
        ids.data(), ones.data(), x.data(),    w.data(), p.c.bias ? bias.data() : none.data()};
    y = reference::Experts(problem);
    auto d = reference::ExpertsBackward(problem, dy.data());
    dx = std::move(d.x);
    dw = std::move(d.w);
    dbias = std::move(d.bias);
  }
};

// The reference and the sums of the sizes of what it adds.
struct Expected {
  Reference values, sizes;

  explicit Expected(const Problem& p)
      : values(p, Wide(p.x), Wide(p.dy), Wide(p.w), Wide(p.bias)),
        sizes(p, Sizes(p.x), Sizes(p.dy), Sizes(p.w), Sizes(p.bias)) {}
  static Doubles Wide(const Floats& values) { return {values.begin(), values.end()}; }
};

// A sum of `terms` products, exact in float32 where their factors are bfloat16, is in any order
// within terms u of the sum of their sizes, 2 u where tensor cores cut; of float32 factors each
// product is rounded as well, u more. Then a rounding to the result's type; where a bfloat16 sum is
// added to a result, one of the sum and one of the result.
struct Bound {
  double terms;
  DType dtype;
  const Floats* old = nullptr;  // what a result is added to
};

void ExpectSumsOf(const Floats& actual, const Doubles& sums, const Doubles& sizes, const Bound& b,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), sums.size()) << what;
  const double unit = kUnit(DType::kFloat32);
  for (size_t i = 0; i < actual.size(); ++i) {
    const double old = b.old == nullptr ? 0 : (*b.old)[i];
    double bound = 2 * (b.terms + 1) * unit * sizes[i] +
                   kUnit(b.dtype) * (std::abs(sums[i] + old) + 2 * unit * sizes[i]);
    if (b.old != nullptr) bound += kUnit(b.dtype) * std::abs(sums[i]);
    const double error = std::abs(actual[i] - (sums[i] + old));
    ASSERT_LE(error, bound) << what << " element " << i << " of " << sums.size() << ": "
                            << actual[i] << ", expected " << sums[i] + old;
  }
}

void Check(const Case& c) {
  const Problem p(c);
  const Expected expected(p);
  const auto most = static_cast<double>(*std::max_element(c.counts.begin(), c.counts.end()));
  const auto in = static_cast<double>(c.in), out = static_cast<double>(c.out);
  for (const bool accumulate : {false, true}) {
    const Results r = p.Run(accumulate);
    const auto what = [&](const char* name) {
      return Describe(c) + (accumulate ? " added " : " ") + name;
    };
    ExpectSumsOf(r.y, expected.values.y, expected.sizes.y, {in + 1, c.dtype}, what("y"));
    ExpectSumsOf(r.dx, expected.values.dx, expected.sizes.dx, {out, c.dtype}, what("dx"));
    ExpectSumsOf(r.dw, expected.values.dw, expected.sizes.dw,
                 {most, c.grad, accumulate ? &p.old_dw : nullptr}, what("dw"));
    ExpectSumsOf(r.dbias, expected.values.dbias, expected.sizes.dbias,
                 {most, c.grad, accumulate ? &p.old_dbias : nullptr}, what("dbias"));
    const Results again = p.Run(accumulate);
    EXPECT_TRUE(SameBits(again.y, r.y) && SameBits(again.dx, r.dx) && SameBits(again.dw, r.dw) &&
                SameBits(again.dbias, r.dbias))
        << Describe(c) << ": the same bits twice";
  }
}

const Counts& Tails() {
  static const Counts counts = {1, 63, 64, 0, 65, 127, 128, 129, 191, 0, 0, 200, 255, 256, 257, 3};
  return counts;
}

TEST(GroupedLinearGpuTest, MatchesReferenceForEveryTail) {
  for (const DType grad : {DType::kFloat32, DType::kBFloat16}) {
    Check({Tails(), 5, 72, 264, DType::kBFloat16, grad});
    Check({Tails(), 0, 136, 40, DType::kBFloat16, grad, false});
  }
  Check({Tails(), 130, 8, 8});
  Check({Tails(), 1, 392, 24});
  Check({Tails(), 0, 24, 648});
}

TEST(GroupedLinearGpuTest, MatchesReferenceForEveryRowOfSixteen) {
  Counts counts(80);
  std::iota(counts.begin(), counts.end(), 0);
  Check({counts, 0, 40, 16});
}

TEST(GroupedLinearGpuTest, TakesThePlainWayOtherwise) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const DType grad : {DType::kFloat32, DType::kBFloat16}) {
      Check({{3, 0, 65, 64, 1, 130}, 7, 17, 70, dtype, grad});
    }
  }
  Check({{3, 0, 65, 64, 1, 130}, 7, 64, 24, DType::kFloat32});
  Check({{1}, 0, 1, 1, DType::kFloat32, DType::kFloat32, false});
  Check({{0, 0, 9}, 2, 68, 4});
}

TEST(GroupedLinearGpuTest, OneExpertMayHaveAllRowsOrNone) {
  Counts counts(128, 0);
  for (const size_t expert : {size_t{0}, size_t{70}, size_t{127}}) {
    counts.assign(128, 0);
    counts[expert] = 700;
    Check({counts, 0, 40, 24});
  }
  counts.assign(128, 0);
  Check({counts, 300, 40, 24});
}

// Every block walks several tiles, and the columns of several are swept for a group of row tiles.
TEST(GroupedLinearGpuTest, MatchesReferenceForModels) {
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{2048, 1536}, {768, 2048}}) {
    const Problem p({{512, 700, 0, 301, 2048, 5000, 1, 640}, 77, in, out});
    const Results r = p.Run(false);
    const auto expert_of = [&](int64_t row) {
      return std::upper_bound(p.offsets.begin(), p.offsets.end(), static_cast<int32_t>(row)) -
             p.offsets.begin() - 1;
    };
    const int64_t rows = p.offsets.back();
    ExpectSums(
        r.y, {rows, out, out, 199},
        [&](int64_t t, int64_t j, const auto& add) {
          const int64_t e = expert_of(t);
          for (int64_t l = 0; l < in; ++l) {
            add(p.x[Size(t * in + l)], p.w[Size((e * out + j) * in + l)]);
          }
          add(1.0f, p.bias[Size(e * out + j)]);
        },
        "y");
    ExpectSums(
        r.dx, {rows, in, in, 211},
        [&](int64_t t, int64_t j, const auto& add) {
          const int64_t e = expert_of(t);
          for (int64_t l = 0; l < out; ++l) {
            add(p.dy[Size(t * out + l)], p.w[Size((e * out + l) * in + j)]);
          }
        },
        "dx");
    ExpectSums(
        r.dw, {p.experts() * out, in, in, 499},
        [&](int64_t row, int64_t j, const auto& add) {
          const int64_t e = row / out, n = row % out;
          for (int64_t t = p.offsets[Size(e)]; t < p.offsets[Size(e + 1)]; ++t) {
            add(p.dy[Size(t * out + n)], p.x[Size(t * in + j)]);
          }
        },
        "dw");
    for (int64_t i = rows * out; i < p.rows * out; ++i) ASSERT_EQ(r.y[Size(i)], 0.0f);
    for (int64_t i = rows * in; i < p.rows * in; ++i) ASSERT_EQ(r.dx[Size(i)], 0.0f);
  }
}

// Part of the rows or of the matrices.
Floats Slice(const Floats& of, int64_t begin, int64_t end, int64_t columns) {
  return {of.begin() + begin * columns, of.begin() + end * columns};
}

// kernels-5 and kernels-6 of segments.
TEST(GroupedLinearGpuTest, ExpertsDoNotSeeEachOther) {
  const Problem p({{70, 200, 3, 129}, 9, 136, 72});
  const Results all = p.Run(false);
  for (size_t e = 0; e < p.c.counts.size(); ++e) {
    const int64_t begin = p.offsets[e], end = p.offsets[e + 1];
    const auto expert = static_cast<int64_t>(e);
    Problem alone({{p.c.counts[e]}, 0, p.c.in, p.c.out});
    alone.x = Slice(p.x, begin, end, p.c.in);
    alone.dy = Slice(p.dy, begin, end, p.c.out);
    alone.w = Slice(p.w, expert, expert + 1, p.c.in * p.c.out);
    alone.bias = Slice(p.bias, expert, expert + 1, p.c.out);
    const Results r = alone.Run(false);
    EXPECT_TRUE(SameBits(r.y, Slice(all.y, begin, end, p.c.out))) << e;
    EXPECT_TRUE(SameBits(r.dx, Slice(all.dx, begin, end, p.c.in))) << e;
    EXPECT_TRUE(SameBits(r.dw, Slice(all.dw, expert, expert + 1, p.c.in * p.c.out))) << e;
    EXPECT_TRUE(SameBits(r.dbias, Slice(all.dbias, expert, expert + 1, p.c.out))) << e;
  }
}

// Launches of a few experts each, the rows of others as they are.
TEST(GroupedLinearGpuTest, AFewExpertsAtATimeGiveTheSameBits) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    const Problem p({Tails(), 77, 136, 72, dtype});
    const Results all = p.Run(false);
    for (const int64_t at_once : {1, 3, 8}) {
      const OnDevice device(p);
      const int64_t bytes = DTypeBytes(dtype), matrix = p.c.in * p.c.out * bytes;
      for (int64_t e = 0; e < p.experts(); e += at_once) {
        GroupedLinearSpec spec = p.spec();
        spec.experts = std::min(at_once, p.experts() - e);
        const bool last = e + spec.experts == p.experts();
        const char* const weight = static_cast<const char*>(device.w.data()) + e * matrix;
        GroupedLinearForward(
            {.spec = spec,
             .rows = p.rows,
             .offsets = device.offsets.data() + e,
             .x = device.x.data(),
             .weight = weight,
             .bias = static_cast<const char*>(device.bias.data()) + e * p.c.out * bytes,
             .y = device.y.data(),
             .zeros_behind = last},
            TestStream());
        GroupedLinearInputGradient({.spec = spec,
                                    .rows = p.rows,
                                    .offsets = device.offsets.data() + e,
                                    .dy = device.dy.data(),
                                    .weight = weight,
                                    .dx = device.dx.data(),
                                    .zeros_behind = last},
                                   TestStream());
        if (last) continue;
        EXPECT_TRUE(std::isnan(device.y.Read().back())) << e << ": written behind";
        EXPECT_TRUE(std::isnan(device.dx.Read().back())) << e << ": written behind";
      }
      EXPECT_TRUE(SameBits(device.y.Read(), all.y)) << Name(dtype) << " " << at_once;
      EXPECT_TRUE(SameBits(device.dx.Read(), all.dx)) << Name(dtype) << " " << at_once;
    }
  }
}

TEST(GroupedLinearGpuTest, NanReachesItsRowAndItsExpertAlone) {
  Problem p({{70, 200, 3, 129}, 9, 136, 72});
  const Results clean = p.Run(false);
  const int64_t row = 70 + 199;  // the last of expert 1
  std::fill_n(p.x.begin() + row * p.c.in, p.c.in, kNan);
  std::fill_n(p.dy.begin() + row * p.c.out, p.c.out, kNan);
  const Results r = p.Run(false);
  const auto check = [](const Floats& now, const Floats& before, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < static_cast<int64_t>(now.size()); ++i) {
      if (i >= begin && i < end) {
        ASSERT_TRUE(std::isnan(now[Size(i)])) << i;
      } else {
        ASSERT_EQ(now[Size(i)], before[Size(i)]) << i;
      }
    }
  };
  const int64_t matrix = p.c.in * p.c.out;
  check(r.y, clean.y, row * p.c.out, (row + 1) * p.c.out);
  check(r.dx, clean.dx, row * p.c.in, (row + 1) * p.c.in);
  check(r.dw, clean.dw, matrix, 2 * matrix);
  check(r.dbias, clean.dbias, p.c.out, 2 * p.c.out);
}

TEST(GroupedLinearGpuTest, OneGraphServesEveryDistribution) {
  const Problem p({{200, 100, 0, 99}, 1, 136, 264});
  OnDevice device(p);
  Graph* graph = CaptureGraph([&] { device.Launch(false); }, TestStream());
  for (const Counts& counts :
       {p.c.counts, Counts{0, 0, 399, 0}, Counts{0, 0, 0, 0}, Counts{1, 128, 256, 15}}) {
    Problem other(p);
    other.c.counts = counts;
    other.offsets = Offsets(counts);
    const Results want = other.Run(false);
    CopyMemory(device.offsets.data(), other.offsets.data(),
               static_cast<int64_t>(other.offsets.size() * sizeof(int32_t)), nullptr);
    for (const DeviceTensor* result : {&device.y, &device.dx, &device.dw, &device.dbias}) {
      SetMemory(result->data(), 0xff, result->count() * DTypeBytes(result->dtype()), TestStream());
    }
    LaunchGraph(graph, TestStream());
    const Results r = device.Read();
    EXPECT_TRUE(SameBits(r.y, want.y) && SameBits(r.dx, want.dx));
    EXPECT_TRUE(SameBits(r.dw, want.dw) && SameBits(r.dbias, want.dbias));
  }
  DestroyGraph(graph);
}

TEST(GroupedLinearGpuTest, EachGradientAloneAndWithoutRows) {
  const Problem p({{33, 0, 70}, 0, 40, 24});
  const Results want = p.Run(false);
  OnDevice device(p);
  GroupedLinearWeightGradientArgs args{.spec = p.spec(),
                                       .rows = p.rows,
                                       .offsets = device.offsets.data(),
                                       .dy = device.dy.data(),
                                       .x = device.x.data(),
                                       .dweight = device.dw.data()};
  GroupedLinearWeightGradient(args, TestStream());
  EXPECT_TRUE(SameBits(device.dw.Read(), want.dw));
  EXPECT_TRUE(std::isnan(device.dbias.Read()[0]));
  args.dweight = nullptr;
  args.dbias = device.dbias.data();
  GroupedLinearWeightGradient(args, TestStream());
  EXPECT_TRUE(SameBits(device.dbias.Read(), want.dbias));

  const DeviceValues<int32_t> none(std::vector<int32_t>(4, 0));
  args.offsets = none.data();
  args.rows = 0;
  args.dweight = device.dw.data();
  GroupedLinearWeightGradient(args, TestStream());
  EXPECT_EQ(device.dw.Read(), Floats(want.dw.size(), 0.0f));
  EXPECT_EQ(device.dbias.Read(), Floats(want.dbias.size(), 0.0f));
  GroupedLinearForward({.spec = p.spec()}, TestStream());
  GroupedLinearInputGradient({.spec = p.spec()}, TestStream());
}

TEST(GroupedLinearGpuTest, RefusesWhatIsNone) {
  const GroupedLinearSpec spec{.experts = 2, .in_features = 8, .out_features = 8};
  EXPECT_THROW(GroupedLinearForward({.spec = spec, .rows = -1}, TestStream()),
               std::invalid_argument);
  EXPECT_FALSE(GroupedLinearSupports({.experts = 0, .in_features = 8, .out_features = 8}));
}

}  // namespace
}  // namespace gpu_grouped_linear_test
}  // namespace coxswain::kernels
