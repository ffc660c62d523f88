// Invariant kernels-2: routers of more than 2^31 logits. A row of zeros goes to the first experts,
// with equal weights. Where rows are added up, all but the last are padding.
#include "kernels/experts/expert_use.h"
#include "kernels/experts/route.h"
#include "kernels/experts/router_loss.h"
#include "tests/kernels/cuda/large_tensor.h"

namespace coxswain::kernels {
namespace gpu_large_sizes_test {
namespace {

constexpr int64_t kExperts[] = {128, 127};  // whole vectors, and an odd number
constexpr int64_t kChosen = 8;
constexpr DType kFloat = DType::kFloat32;

using Ints = std::vector<int32_t>;

Floats FloatRows(int64_t columns, unsigned seed) { return Normal(kLast * columns, seed, kFloat); }

// Ids of every row, of which the last can be read and written.
class ManyIds {
 public:
  // Padding.
  explicit ManyIds(int64_t rows) : memory_(rows * kChosen * 4) {
    SetMemory(memory_.data(), 0xff, memory_.bytes(), nullptr);
  }
  int32_t* data() const { return static_cast<int32_t*>(memory_.data()); }
  Ints Last() const { return Read(memory_.bytes() / 4 - kLast * kChosen, kLast * kChosen); }
  Ints First() const { return Read(0, kChosen); }
  void SetLast(const Ints& ids) const {
    CopyMemory(data() + memory_.bytes() / 4 - kLast * kChosen, ids.data(), kLast * kChosen * 4,
               nullptr);
  }

 private:
  Ints Read(int64_t first, int64_t count) const {
    Synchronize(TestStream());
    Ints ids(Size(count));
    CopyMemory(ids.data(), data() + first, count * 4, nullptr);
    return ids;
  }
  DeviceBytes memory_;
};

// Different ones in each of the last rows.
Ints LastIds(int64_t experts) {
  Ints ids;
  for (int64_t i = 0; i < kLast * kChosen; ++i) {
    ids.push_back(static_cast<int32_t>((i * 5 + i / kChosen) % experts));
  }
  return ids;
}

// Sums of five rows in two orders: each has at most four roundings.
void ExpectSameSums(const DeviceValues<double>& all, const DeviceValues<double>& alone) {
  const std::vector<double> got = all.Read(), want = alone.Read();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_DOUBLE_EQ(got[i], want[i]) << "sum " << i;
}

TEST(LargeRoutersGpuTest, Route) {
  SKIP_WITHOUT_MEMORY_FOR(5);
  for (const int64_t experts : kExperts) {
    const RouteSpec spec{.experts = experts, .chosen = kChosen, .renormalise = true};
    const int64_t rows = RowsOf(experts);
    const Floats last = FloatRows(experts, 1), last_gradient = FloatRows(kChosen, 2);
    const LargeTensor logits(rows, experts, last, kFloat), weights(rows, kChosen, kFloat);
    const LargeTensor dweights(rows, kChosen, last_gradient, kFloat);
    const LargeTensor dlogits(rows, experts, kFloat);
    const DeviceTensor few(kFloat, last), few_weights(kFloat, kLast * kChosen);
    const DeviceTensor few_dweights(kFloat, last_gradient), few_dlogits(kFloat, kLast * experts);
    const ManyIds ids(rows), few_ids(kLast);
    const auto both = [&](int64_t tokens, const void* in, const ManyIds& to, void* by,
                          const void* gradient, void* din) {
      RouteForward({.spec = spec,
                    .tokens = tokens,
                    .logits = static_cast<const float*>(in),
                    .ids = to.data(),
                    .weights = static_cast<float*>(by)},
                   TestStream());
      RouteBackward({.spec = spec,
                     .tokens = tokens,
                     .logits = static_cast<const float*>(in),
                     .ids = to.data(),
                     .dweights = static_cast<const float*>(gradient),
                     .dlogits = static_cast<float*>(din)},
                    TestStream());
    };
    both(rows, logits.data(), ids, weights.data(), dweights.data(), dlogits.data());
    both(kLast, few.data(), few_ids, few_weights.data(), few_dweights.data(), few_dlogits.data());
    EXPECT_EQ(ids.Last(), few_ids.Last());
    EXPECT_EQ(ids.First(), (Ints{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_TRUE(SameBits(weights.Last(), few_weights.Read()));
    ExpectLast(dlogits, few_dlogits, "gradient of the logits");
  }
}

TEST(LargeRoutersGpuTest, ExpertUse) {
  SKIP_WITHOUT_MEMORY_FOR(3);
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    for (const int64_t experts : kExperts) {
      const ExpertUseSpec spec{.experts = experts, .chosen = kChosen, .score = score};
      const int64_t rows = RowsOf(experts);
      const Floats last = FloatRows(experts, 1);
      const LargeTensor logits(rows, experts, last, kFloat);
      const DeviceTensor few(kFloat, last);
      const ManyIds ids(rows), few_ids(kLast);
      for (const ManyIds* each : {&ids, &few_ids}) each->SetLast(LastIds(experts));
      const DeviceValues<int32_t> counts(Ints(Size(experts), 1));
      const std::vector<double> none(Size(ExpertUseCount(experts)), 0.0);
      const DeviceValues<double> all(none), alone(none);
      const auto use = [&](int64_t tokens, const void* in, const ManyIds& of,
                           const DeviceValues<double>& sums) {
        const Scratch scratch(ExpertUseWorkspaceBytes(spec, tokens));
        ExpertUse({.spec = spec,
                   .tokens = tokens,
                   .logits = static_cast<const float*>(in),
                   .ids = of.data(),
                   .counts = counts.data(),
                   .sums = sums.data(),
                   .workspace = scratch.workspace()},
                  TestStream());
        Synchronize(TestStream());  // before the scratch goes
      };
      use(rows, logits.data(), ids, all);
      use(kLast, few.data(), few_ids, alone);
      EXPECT_EQ(alone.Read()[Size(experts)], double{kLast});
      ExpectSameSums(all, alone);
    }
  }
}

TEST(LargeRoutersGpuTest, RouterLoss) {
  SKIP_WITHOUT_MEMORY_FOR(5);
  for (const int64_t experts : kExperts) {
    const RouterLossSpec spec{.experts = experts, .chosen = kChosen};
    const int64_t rows = RowsOf(experts);
    const Floats last = FloatRows(experts, 1), none(last.size(), 0.0f);
    const LargeTensor logits(rows, experts, last, kFloat), dlogits(rows, experts, none, kFloat);
    const DeviceTensor few(kFloat, last), few_dlogits(kFloat, none);
    const ManyIds ids(rows), few_ids(kLast);
    for (const ManyIds* each : {&ids, &few_ids}) each->SetLast(LastIds(experts));
    const std::vector<double> empty(Size(RouterLossSumCount(spec)), 0.0);
    const DeviceValues<double> all(empty), alone(empty);
    const DeviceValues<float> factors({0.01f, 0.001f});
    const auto both = [&](int64_t tokens, const void* in, const ManyIds& of,
                          const DeviceValues<double>& sums, void* din) {
      const Scratch scratch(RouterLossSumsWorkspaceBytes(spec, tokens));
      RouterLossSums({.spec = spec,
                      .tokens = tokens,
                      .logits = static_cast<const float*>(in),
                      .ids = of.data(),
                      .sums = sums.data(),
                      .workspace = scratch.workspace()},
                     TestStream());
      RouterLossGradient({.spec = spec,
                          .tokens = tokens,
                          .logits = static_cast<const float*>(in),
                          .ids = of.data(),
                          .sums = alone.data(),  // of one pool, so that the bits are the same
                          .factors = factors.data(),
                          .dlogits = static_cast<float*>(din)},
                         TestStream());
      Synchronize(TestStream());  // before the scratch goes
    };
    both(kLast, few.data(), few_ids, alone, few_dlogits.data());
    both(rows, logits.data(), ids, all, dlogits.data());
    EXPECT_EQ(alone.Read()[Size(2 * experts)], double{kLast});
    ExpectSameSums(all, alone);
    ExpectLast(dlogits, few_dlogits, "gradient of the logits");
    EXPECT_FALSE(SameBits(few_dlogits.Read(), none));
  }
}

}  // namespace
}  // namespace gpu_large_sizes_test
}  // namespace coxswain::kernels
