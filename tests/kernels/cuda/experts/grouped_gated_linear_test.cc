// Gate and up of a mixture's experts with the gate behind them, against the two ops, by bits. In
// bfloat16 extents that are multiples of 8 take one launch on compute capability 9.0.
#include "kernels/experts/grouped_gated_linear.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/cuda/experts/grouped_gated_product.h"
#include "kernels/experts/plain_grouped_gated_linear.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_grouped_gated_linear_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Counts = std::vector<int64_t>;

struct Case {
  Counts counts;  // rows of each expert
  int64_t behind, in, inner;
  bool clamped = false, bias = false;
  DType dtype = DType::kBFloat16;
};

std::string Describe(const Case& c) {
  return std::string(Name(c.dtype)) + " in " + std::to_string(c.in) + " inner " +
         std::to_string(c.inner) + " experts " + std::to_string(c.counts.size()) +
         (c.clamped ? " clamped" : "") + (c.bias ? " with bias" : "");
}

std::vector<int32_t> Offsets(const Counts& counts) {
  std::vector<int32_t> offsets = {0};
  for (const int64_t count : counts) {
    offsets.push_back(offsets.back() + static_cast<int32_t>(count));
  }
  return offsets;
}

// Rows that belong to no expert are NaN. Gates and ups reach beyond the limit: a sum of K products
// is about sqrt(K) in size, and weights bring it to 4.
struct Problem {
  explicit Problem(const Case& in)
      : c(in),
        offsets(Offsets(c.counts)),
        rows(offsets.back() + c.behind),
        x(Normal(rows * c.in, 1, c.dtype)),
        w(Normal(experts() * 2 * c.inner * c.in, 2, c.dtype,
                 4.0f / std::sqrt(static_cast<float>(c.in)))),
        bias(Normal(experts() * 2 * c.inner, 3, c.dtype)) {
    std::fill(x.begin() + offsets.back() * c.in, x.end(), kNan);
  }
  int64_t experts() const { return static_cast<int64_t>(c.counts.size()); }
  GroupedGatedLinearSpec spec() const {
    return {.dtype = c.dtype,
            .experts = experts(),
            .in_features = c.in,
            .intermediate = c.inner,
            .alpha = c.clamped ? 1.702f : 0.0f,
            .limit = c.clamped ? 7.0f : 0.0f};
  }

  Case c;
  std::vector<int32_t> offsets;
  int64_t rows;
  Floats x, w, bias;
};

// The operands of a problem on the device.
struct Operands {
  explicit Operands(const Problem& p)
      : problem(p),
        offsets(p.offsets),
        x(p.c.dtype, p.x),
        w(p.c.dtype, p.w),
        bias(p.c.dtype, p.bias) {}
  GroupedGatedLinearForwardArgs Args(const DeviceTensor& gate_up, const DeviceTensor& y) const {
    return {.spec = problem.spec(),
            .rows = problem.rows,
            .offsets = offsets.data(),
            .x = x.data(),
            .weight = w.data(),
            .bias = problem.c.bias ? bias.data() : nullptr,
            .gate_up = gate_up.data(),
            .y = y.data()};
  }

  const Problem& problem;
  DeviceValues<int32_t> offsets;
  DeviceTensor x, w, bias;
};

// Results, NaN before a launch.
struct Results {
  explicit Results(const Problem& p)
      : gate_up(p.c.dtype, p.rows * 2 * p.c.inner), y(p.c.dtype, p.rows * p.c.inner) {}
  void Forget() const {
    for (const DeviceTensor* tensor : {&gate_up, &y}) {
      SetMemory(tensor->data(), 0xff, tensor->count() * DTypeBytes(tensor->dtype()), TestStream());
    }
  }
  DeviceTensor gate_up, y;
};

// The first element that differs, for a message; -1: none.
int64_t FirstDifference(const Floats& a, const Floats& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SameBits({a[i]}, {b[i]})) return static_cast<int64_t>(i);
  }
  return -1;
}

void ExpectBits(const DeviceTensor& actual, const DeviceTensor& wanted, int64_t columns,
                const std::string& what) {
  const Floats a = actual.Read(), b = wanted.Read();
  const int64_t at = FirstDifference(a, b);
  ASSERT_EQ(at, -1) << what << " row " << at / columns << " column " << at % columns << ": "
                    << a[Size(at)] << ", the two ops give " << b[Size(at)];
}

void Check(const Case& c) {
  const Problem p(c);
  const Operands operands(p);
  const Results both(p), one(p), again(p);
  PlainGroupedGatedLinearForward(operands.Args(both.gate_up, both.y), TestStream());
  GroupedGatedLinearForward(operands.Args(one.gate_up, one.y), TestStream());
  ExpectBits(one.gate_up, both.gate_up, 2 * c.inner, Describe(c) + " gate_up");
  ExpectBits(one.y, both.y, c.inner, Describe(c) + " y");
  const Floats y = one.y.Read();
  for (int64_t i = p.offsets.back() * c.inner; i < p.rows * c.inner; ++i) {
    ASSERT_EQ(y[Size(i)], 0.0f) << Describe(c) << " behind";
  }
  GroupedGatedLinearForwardArgs alone = operands.Args(again.gate_up, again.y);
  alone.wants_gate_up = false;
  GroupedGatedLinearForward(alone, TestStream());
  ExpectBits(again.y, both.y, c.inner, Describe(c) + " y without gate_up");
}

// Both gates, each with and without a bias.
void CheckGates(Case c) {
  for (const bool clamped : {false, true}) {
    for (const bool bias : {false, true}) {
      c.clamped = clamped;
      c.bias = bias;
      Check(c);
    }
  }
}

const Counts& Tails() {
  static const Counts counts = {1, 63, 64, 0, 65, 127, 128, 129, 191, 0, 0, 200, 255, 256, 257, 3};
  return counts;
}

// Columns of gate: below, at and behind the 32 of a box, the 64 of half a tile and its 128.
TEST(GroupedGatedLinearGpuTest, HasTheBitsOfTheTwoOpsForEveryTail) {
  for (const int64_t inner : {8, 24, 32, 40, 64, 72, 96, 120, 128, 136, 200, 264, 392}) {
    CheckGates({Tails(), 5, 72, inner});
  }
  for (const int64_t in : {8, 64, 136, 520}) CheckGates({Tails(), 0, in, 168});
  Check({Tails(), 130, 64, 48});
}

TEST(GroupedGatedLinearGpuTest, HasThemForEveryNumberOfRows) {
  Counts counts(140);
  std::iota(counts.begin(), counts.end(), 0);
  Check({counts, 0, 40, 104});
  Check({counts, 1, 40, 24, true, true});
}

TEST(GroupedGatedLinearGpuTest, OneExpertMayHaveAllRowsOrNone) {
  for (const size_t expert : {size_t{0}, size_t{70}, size_t{127}}) {
    Counts counts(128, 0);
    counts[expert] = 700;
    CheckGates({counts, 0, 40, 136});
  }
  CheckGates({Counts(128, 0), 300, 40, 24});
  Check({{1}, 0, 8, 8});
}

// Every block walks several tiles. Qwen3-30B-A3B, Mixtral's width cut, gpt-oss.
TEST(GroupedGatedLinearGpuTest, HasThemForModels) {
  Check({{512, 700, 0, 301, 2048, 5000, 1, 640}, 77, 2048, 768});
  Check({{512, 700, 0, 301, 2048, 5000, 1, 640}, 0, 1024, 3584});
  Check({{512, 700, 0, 301, 1024, 1}, 3, 2880, 2880, true, true});
}

TEST(GroupedGatedLinearGpuTest, TakesTheTwoOpsOtherwise) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    CheckGates(
        {.counts = {3, 0, 65, 64, 1, 130}, .behind = 7, .in = 17, .inner = 35, .dtype = dtype});
    CheckGates(
        {.counts = {3, 0, 65, 64, 1, 130}, .behind = 7, .in = 64, .inner = 36, .dtype = dtype});
  }
}

// Launches of a few experts each, the rows of others as they are. One launch writes all of its y;
// the two ops do behind the last experts.
TEST(GroupedGatedLinearGpuTest, AFewExpertsAtATimeGiveTheSameBits) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    const Problem p({Tails(), 77, 136, 72, true, true, dtype});
    const Operands operands(p);
    const Results all(p), few(p);
    GroupedGatedLinearForward(operands.Args(all.gate_up, all.y), TestStream());
    const int64_t bytes = DTypeBytes(dtype), columns = 2 * p.c.inner;
    for (const int64_t at_once : {1, 3, 8}) {
      few.Forget();
      for (int64_t e = 0; e < p.experts(); e += at_once) {
        GroupedGatedLinearForwardArgs args = operands.Args(few.gate_up, few.y);
        args.spec.experts = std::min(at_once, p.experts() - e);
        args.offsets += e;
        args.weight = static_cast<const char*>(args.weight) + e * columns * p.c.in * bytes;
        args.bias = static_cast<const char*>(args.bias) + e * columns * bytes;
        args.zeros_behind = e + args.spec.experts == p.experts();
        GroupedGatedLinearForward(args, TestStream());
        if (args.zeros_behind) continue;
        const Floats y = few.y.Read();
        EXPECT_EQ(std::isnan(y.front()), !cuda::GroupedGatedProductRuns(args)) << e;
        EXPECT_TRUE(std::isnan(y.back())) << e << ": written behind";
        EXPECT_TRUE(std::isnan(few.gate_up.Read().back())) << e << ": written behind";
      }
      ExpectBits(few.gate_up, all.gate_up, columns, std::to_string(at_once) + " gate_up");
      ExpectBits(few.y, all.y, p.c.inner, std::to_string(at_once) + " y");
    }
  }
}

// kernels-6.
TEST(GroupedGatedLinearGpuTest, NanReachesItsRowAlone) {
  Problem p({{70, 200, 3, 129}, 9, 136, 72});
  const Operands clean(p);
  const Results before(p), after(p);
  GroupedGatedLinearForward(clean.Args(before.gate_up, before.y), TestStream());
  const int64_t row = 70 + 199;  // the last of expert 1
  std::fill_n(p.x.begin() + row * p.c.in, p.c.in, kNan);
  const Operands operands(p);
  GroupedGatedLinearForward(operands.Args(after.gate_up, after.y), TestStream());
  const auto check = [row](const Floats& now, const Floats& then, int64_t columns) {
    for (int64_t i = 0; i < static_cast<int64_t>(now.size()); ++i) {
      if (i / columns == row) {
        ASSERT_TRUE(std::isnan(now[Size(i)])) << i;
      } else {
        ASSERT_EQ(now[Size(i)], then[Size(i)]) << i;
      }
    }
  };
  check(after.gate_up.Read(), before.gate_up.Read(), 2 * p.c.inner);
  check(after.y.Read(), before.y.Read(), p.c.inner);
}

TEST(GroupedGatedLinearGpuTest, OneGraphServesEveryDistribution) {
  const Problem p({{200, 100, 0, 99}, 1, 136, 264});
  const Operands operands(p);
  const Results results(p), wanted(p);
  Graph* graph = CaptureGraph(
      [&] { GroupedGatedLinearForward(operands.Args(results.gate_up, results.y), TestStream()); },
      TestStream());
  for (const Counts& counts :
       {p.c.counts, Counts{0, 0, 399, 0}, Counts{0, 0, 0, 0}, Counts{1, 128, 256, 15}}) {
    const std::vector<int32_t> offsets = Offsets(counts);
    CopyMemory(operands.offsets.data(), offsets.data(),
               static_cast<int64_t>(offsets.size() * sizeof(int32_t)), nullptr);
    PlainGroupedGatedLinearForward(operands.Args(wanted.gate_up, wanted.y), TestStream());
    results.Forget();
    LaunchGraph(graph, TestStream());
    ExpectBits(results.gate_up, wanted.gate_up, 2 * p.c.inner, "gate_up");
    ExpectBits(results.y, wanted.y, p.c.inner, "y");
  }
  DestroyGraph(graph);
}

TEST(GroupedGatedLinearGpuTest, RefusesWhatIsNoneAndDoesNothingWithoutRows) {
  const GroupedGatedLinearSpec spec{.experts = 2, .in_features = 8, .intermediate = 8};
  GroupedGatedLinearForward({.spec = spec}, TestStream());
  EXPECT_THROW(GroupedGatedLinearForward({.spec = spec, .rows = -1}, TestStream()),
               std::invalid_argument);
  GroupedGatedLinearSpec other = spec;
  other.limit = 7.0f;
  EXPECT_FALSE(GroupedGatedLinearSupports(other)) << "alpha 0";
  other.alpha = 1.702f;
  EXPECT_TRUE(GroupedGatedLinearSupports(other));
  other.intermediate = 0;
  EXPECT_FALSE(GroupedGatedLinearSupports(other));
}

}  // namespace
}  // namespace gpu_grouped_gated_linear_test
}  // namespace coxswain::kernels
