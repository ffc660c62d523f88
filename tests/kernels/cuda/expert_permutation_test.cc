// The ops of experts one behind the other, but for their products: in one captured graph for every
// distribution, and over rows of more than 2^31 elements (invariant kernels-2).
#include <numeric>

#include "kernels/experts/expert_rows.h"
#include "kernels/experts/route.h"
#include "kernels/experts/router_loss.h"
#include "tests/kernels/cuda/expert_pairs.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_expert_permutation_test {
namespace {

constexpr int64_t kTokens = 523, kExperts = 64, kChosen = 6, kHidden = 136;
constexpr int64_t kPairs = kTokens * kChosen;
constexpr DType kType = DType::kBFloat16;

// From logits to the combined rows and back; the experts themselves change nothing.
class ExpertPermutation {
 public:
  // What a graph holds: `logits` may change between its launches.
  void Launch() const {
    RouteForward({.spec = route_,
                  .tokens = kTokens,
                  .logits = logits.floats(),
                  .ids = ids_.data(),
                  .weights = weights_.floats()},
                 TestStream());
    SortByExpert({.spec = {.experts = kExperts, .chosen = kChosen},
                  .tokens = kTokens,
                  .ids = ids_.data(),
                  .order = order_.data(),
                  .places = places_.data(),
                  .offsets = offsets_.data(),
                  .counts = counts_.data(),
                  .workspace = sorting_.workspace()},
                 TestStream());
    LaunchRows();
    RouteBackward({.spec = route_,
                   .tokens = kTokens,
                   .logits = logits.floats(),
                   .ids = ids_.data(),
                   .dweights = dweights_.floats(),
                   .dlogits = dlogits_.floats()},
                  TestStream());
    LaunchLosses();
  }
  // All that the launches write.
  std::vector<Doubles> Read() const {
    std::vector<Doubles> all = {sums_.Read(), losses_.Read()};
    for (const auto* ints : {&ids_, &order_, &places_, &offsets_, &counts_}) {
      const Ints values = ints->Read();
      all.emplace_back(values.begin(), values.end());
    }
    for (const auto* floats : {&weights_, &rows_, &y_, &drows_, &dweights_, &dx_, &dlogits_}) {
      all.push_back(Double(floats->Read()));
    }
    return all;
  }

  DeviceTensor logits = DeviceTensor(DType::kFloat32, kTokens* kExperts);

 private:
  void LaunchRows() const {
    DispatchForward({.spec = dispatch_,
                     .tokens = kTokens,
                     .order = order_.data(),
                     .places = places_.data(),
                     .x = x_.data(),
                     .rows = rows_.data()},
                    TestStream());
    CombineForward({.spec = combine_,
                    .tokens = kTokens,
                    .places = places_.data(),
                    .weights = weights_.floats(),
                    .rows = rows_.data(),
                    .y = y_.data()},
                   TestStream());
    CombineBackward({.spec = combine_,
                     .tokens = kTokens,
                     .order = order_.data(),
                     .places = places_.data(),
                     .weights = weights_.floats(),
                     .rows = rows_.data(),
                     .dy = y_.data(),
                     .drows = drows_.data(),
                     .dweights = dweights_.floats()},
                    TestStream());
    DispatchBackward({.spec = dispatch_,
                      .tokens = kTokens,
                      .places = places_.data(),
                      .drows = drows_.data(),
                      .dx = dx_.data()},
                     TestStream());
  }
  void LaunchLosses() const {
    RouterLossSums({.spec = loss_,
                    .tokens = kTokens,
                    .logits = logits.floats(),
                    .ids = ids_.data(),
                    .sums = sums_.data(),
                    .workspace = summing_.workspace()},
                   TestStream());
    RouterLoss({.spec = loss_, .sums = sums_.data(), .losses = losses_.data()}, TestStream());
    RouterLossGradient({.spec = loss_,
                        .tokens = kTokens,
                        .logits = logits.floats(),
                        .ids = ids_.data(),
                        .sums = sums_.data(),
                        .factors = factors_.data(),
                        .dlogits = dlogits_.floats()},
                       TestStream());
  }

  const RouteSpec route_{.experts = kExperts, .chosen = kChosen, .renormalise = true};
  const DispatchSpec dispatch_{.dtype = kType, .hidden = kHidden, .chosen = kChosen};
  const CombineSpec combine_{.dtype = kType, .hidden = kHidden, .chosen = kChosen};
  const RouterLossSpec loss_{.experts = kExperts, .chosen = kChosen};
  const DeviceTensor x_ = DeviceTensor(kType, Normal(kTokens* kHidden, 5, kType));
  const DeviceValues<float> factors_ = DeviceValues<float>({0.01f, 0.001f});
  const DeviceValues<int32_t> ids_{Ints(kPairs)}, order_{Ints(kPairs)}, places_{Ints(kPairs)};
  const DeviceValues<int32_t> offsets_{Ints(kExperts + 1)}, counts_{Ints(kExperts)};
  const DeviceTensor weights_ = DeviceTensor(DType::kFloat32, kPairs);
  const DeviceTensor rows_ = DeviceTensor(kType, kPairs* kHidden);
  const DeviceTensor y_ = DeviceTensor(kType, kTokens* kHidden);
  const DeviceTensor drows_ = DeviceTensor(kType, kPairs* kHidden);
  const DeviceTensor dweights_ = DeviceTensor(DType::kFloat32, kPairs);
  const DeviceTensor dx_ = DeviceTensor(kType, kTokens* kHidden);
  const DeviceTensor dlogits_ = DeviceTensor(DType::kFloat32, kTokens* kExperts);
  const DeviceValues<double> sums_{Doubles(2 * kExperts + 2)}, losses_{Doubles(2)};
  const Scratch sorting_ =
      Scratch(SortByExpertWorkspaceBytes({.experts = kExperts, .chosen = kChosen}, kTokens));
  const Scratch summing_ = Scratch(RouterLossSumsWorkspaceBytes(loss_, kTokens));
};

// Any experts, the same ones for every token, and any experts again.
TEST(ExpertPermutationGpuTest, OneGraphServesEveryDistribution) {
  ExpertPermutation launched, replayed;
  Synchronize(TestStream());
  Graph* graph = CaptureGraph([&] { replayed.Launch(); }, TestStream());
  const Floats any = Normal(kTokens * kExperts, 1, DType::kFloat32);
  Floats same = any;
  for (size_t i = 0; i < same.size(); ++i) {
    if (i % kExperts >= kExperts - kChosen) same[i] += 100.0f;
  }
  std::vector<Doubles> first;
  const Floats* const in_turn[] = {&any, &same, &any};
  for (const Floats* logits : in_turn) {
    launched.logits.Write(*logits);
    replayed.logits.Write(*logits);
    launched.Launch();
    LaunchGraph(graph, TestStream());
    const std::vector<Doubles> got = replayed.Read();
    EXPECT_TRUE(got == launched.Read());
    if (first.empty()) first = got;
    EXPECT_EQ(got == first, logits == &any);
    const Doubles& counts = got[6];
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0), double{kPairs});
    if (logits == &same) {
      EXPECT_EQ(counts.back(), double{kTokens});
    }
  }
  DestroyGraph(graph);
}

// Places in falling order: the rows of token 0 lie behind 2^31 elements. Sums of eight equal rows
// by 1/8 and by 1 are exact.
TEST(ExpertPermutationGpuTest, RowsBehind31Bits) {
  const int64_t hidden = 4096, chosen = 8, tokens = (int64_t{1} << 16) + 3, pairs = tokens * chosen;
  const int64_t row_bytes = hidden * DTypeBytes(kType);
  if (FreeMemoryBytes() < (pairs + 3 * tokens) * row_bytes * 5 / 4) GTEST_SKIP() << "needs 7 GiB";
  Ints falling(Size(pairs));
  std::iota(falling.rbegin(), falling.rend(), 0);
  const DeviceValues<int32_t> order(falling), places(falling);
  const DeviceTensor weights(DType::kFloat32, Floats(Size(pairs), 0.125f));
  const DeviceTensor dweights(DType::kFloat32, pairs);
  const DeviceBytes x(tokens * row_bytes), rows(pairs * row_bytes), y(tokens * row_bytes);
  SetMemory(x.data(), 0, x.bytes(), nullptr);
  SetMemory(rows.data(), 0xff, rows.bytes(), nullptr);
  const Floats values = Normal(hidden, 1, kType);
  const DeviceTensor row(kType, values), got(kType, hidden);
  CopyMemory(x.data(), row.data(), row_bytes, nullptr);
  const auto row_at = [&](const DeviceBytes& from, int64_t i) {
    Synchronize(TestStream());
    CopyMemory(got.data(), static_cast<const char*>(from.data()) + i * row_bytes, row_bytes,
               nullptr);
    return got.Read();
  };
  const DispatchSpec dispatch{.dtype = kType, .hidden = hidden, .chosen = chosen};
  const CombineSpec combine{.dtype = kType, .hidden = hidden, .chosen = chosen};
  DispatchForward({dispatch, tokens, order.data(), places.data(), x.data(), rows.data()},
                  TestStream());
  EXPECT_TRUE(SameBits(row_at(rows, pairs - 1), values));
  EXPECT_TRUE(SameBits(row_at(rows, pairs - 8), values));
  EXPECT_TRUE(SameBits(row_at(rows, pairs - 9), Floats(Size(hidden), 0.0f)));
  CombineForward({combine, tokens, places.data(), weights.floats(), rows.data(), y.data()},
                 TestStream());
  EXPECT_TRUE(SameBits(row_at(y, 0), values));
  CombineBackward({combine, tokens, order.data(), places.data(), weights.floats(), rows.data(),
                   x.data(), rows.data(), dweights.floats()},
                  TestStream());
  Floats eighth = values;
  for (float& value : eighth) value *= 0.125f;
  EXPECT_TRUE(SameBits(row_at(rows, pairs - 1), eighth));
  EXPECT_GT(dweights.Read()[0], 0.0f);
  DispatchBackward({dispatch, tokens, places.data(), rows.data(), y.data()}, TestStream());
  EXPECT_TRUE(SameBits(row_at(y, 0), values));
}

}  // namespace
}  // namespace gpu_expert_permutation_test
}  // namespace coxswain::kernels
