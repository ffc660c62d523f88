// The ops of experts but their products: router, its losses, sorting, and the permutation of rows,
// of which each row of the table says how near it comes to a copy. Routing is uniform, or gives the
// fullest expert four times the mean.
#include <algorithm>
#include <numeric>
#include <random>

#include "bench/kernels/cuda/harness.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/route.h"
#include "kernels/experts/router_loss.h"

namespace coxswain::kernels::bench {
namespace {

struct Mixture {
  const char* model;
  int64_t tokens, hidden;
  RouteSpec route;
  int64_t pairs() const { return tokens * route.chosen; }
};
const Mixture kMixtures[] = {
    {"30b-a3b", 8192, 2048, {.experts = 128, .chosen = 8, .renormalise = true}},
    {"20b", 8192, 2880, {.experts = 32, .chosen = 4, .renormalise = true}},
    {"deepseek",
     4096,
     7168,
     {.experts = 256,
      .chosen = 8,
      .score = RouterScore::kSigmoid,
      .groups = 8,
      .top_groups = 4,
      .renormalise = true,
      .scale = 2.5f}},
};

std::string ExpertExtents(const Mixture& m) {
  return std::to_string(m.tokens) + " x " + std::to_string(m.route.chosen) + " of " +
         std::to_string(m.route.experts);
}

// k different experts for each token.
std::vector<int32_t> ExpertIds(const Mixture& m, bool skewed) {
  std::mt19937 random(1);
  const auto experts = static_cast<size_t>(m.route.experts);
  const auto chosen = static_cast<size_t>(m.route.chosen);
  std::bernoulli_distribution fullest(4.0 * static_cast<double>(chosen) /
                                      static_cast<double>(experts));
  std::vector<int32_t> order(experts), ids;
  std::iota(order.begin(), order.end(), 0);
  for (int64_t t = 0; t < m.tokens; ++t) {
    const size_t first = skewed ? 1 : 0;  // expert 0 stands first and is the fullest
    for (size_t s = first; s < chosen + first; ++s) {
      std::swap(order[s], order[s + random() % (experts - s)]);
    }
    const size_t from = skewed && !fullest(random) ? 1 : 0;
    for (size_t s = from; s < chosen + from; ++s) ids.push_back(order[s]);
  }
  return ids;
}

struct Places {
  std::vector<int32_t> order, places;

  explicit Places(const std::vector<int32_t>& ids) : order(ids.size()), places(ids.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)];
    });
    for (size_t i = 0; i < order.size(); ++i) {
      places[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    }
  }
};

void BenchRouter(Bench* bench, const Mixture& m) {
  const double tokens = static_cast<double>(m.tokens), pairs = static_cast<double>(m.pairs());
  const double logits = tokens * static_cast<double>(m.route.experts);
  bench->Time({.name = "experts route forward",
               .extents = ExpertExtents(m),
               .bytes = 4 * logits + 8 * pairs,
               .make = [&](Memory* memory) -> Launch {
                 const RouteForwardArgs args{
                     .spec = m.route,
                     .tokens = m.tokens,
                     .logits = memory->Floats(m.tokens * m.route.experts),
                     .ids = static_cast<int32_t*>(memory->Zeros(4 * m.pairs())),
                     .weights = memory->Floats(m.pairs())};
                 return [=](Stream* s) { RouteForward(args, s); };
               },
               .note = m.model});
  bench->Time({.name = "experts route backward",
               .extents = ExpertExtents(m),
               .bytes = 8 * logits + 8 * pairs,
               .make = [&](Memory* memory) -> Launch {
                 const RouteBackwardArgs args{
                     .spec = m.route,
                     .tokens = m.tokens,
                     .logits = memory->Floats(m.tokens * m.route.experts),
                     .ids = memory->Upload(ExpertIds(m, false)),
                     .dweights = memory->Floats(m.pairs()),
                     .dlogits = memory->Floats(m.tokens * m.route.experts)};
                 return [=](Stream* s) { RouteBackward(args, s); };
               },
               .note = m.model});
}

void BenchRouterLoss(Bench* bench, const Mixture& m) {
  const RouterLossSpec spec{.experts = m.route.experts, .chosen = m.route.chosen};
  const double tokens = static_cast<double>(m.tokens), pairs = static_cast<double>(m.pairs());
  const double logits = tokens * static_cast<double>(m.route.experts);
  const int64_t sums_bytes = 8 * RouterLossSumCount(spec);
  bench->Time({.name = "experts router loss sums",
               .extents = ExpertExtents(m),
               .bytes = 4 * logits + 4 * pairs,
               .make = [&](Memory* memory) -> Launch {
                 const RouterLossSumsArgs args{
                     .spec = spec,
                     .tokens = m.tokens,
                     .logits = memory->Floats(m.tokens * m.route.experts),
                     .ids = memory->Upload(ExpertIds(m, false)),
                     .sums = static_cast<double*>(memory->Zeros(sums_bytes)),
                     .workspace = memory->Scratch(RouterLossSumsWorkspaceBytes(spec, m.tokens))};
                 return [=](Stream* s) { RouterLossSums(args, s); };
               },
               .note = m.model});
  bench->Time({.name = "experts router loss gradient",
               .extents = ExpertExtents(m),
               .bytes = 12 * logits + 4 * tokens,
               .make = [&](Memory* memory) -> Launch {
                 const std::vector<double> sums(static_cast<size_t>(sums_bytes / 8), tokens);
                 const RouterLossGradientArgs args{
                     .spec = spec,
                     .tokens = m.tokens,
                     .logits = memory->Floats(m.tokens * m.route.experts),
                     .ids = memory->Upload(ExpertIds(m, false)),
                     .sums = memory->Upload(sums),
                     .factors = memory->Upload(std::vector<float>{0.001f, 0.001f}),
                     .dlogits = memory->Floats(m.tokens * m.route.experts)};
                 return [=](Stream* s) { RouterLossGradient(args, s); };
               },
               .note = m.model});
}

void BenchSort(Bench* bench, const Mixture& m, bool skewed) {
  const SortByExpertSpec spec{.experts = m.route.experts, .chosen = m.route.chosen};
  const auto ints = [&](Memory* memory, int64_t count) {
    return static_cast<int32_t*>(memory->Zeros(4 * count));
  };
  bench->Time({.name = skewed ? "experts sort skewed" : "experts sort",
               .extents = ExpertExtents(m),
               .bytes = 12 * static_cast<double>(m.pairs()),
               .make = [&](Memory* memory) -> Launch {
                 const SortByExpertArgs args{
                     .spec = spec,
                     .tokens = m.tokens,
                     .ids = memory->Upload(ExpertIds(m, skewed)),
                     .order = ints(memory, m.pairs()),
                     .places = ints(memory, m.pairs()),
                     .offsets = ints(memory, spec.experts + 1),
                     .counts = ints(memory, spec.experts),
                     .workspace = memory->Scratch(SortByExpertWorkspaceBytes(spec, m.tokens))};
                 return [=](Stream* s) { SortByExpert(args, s); };
               },
               .note = m.model});
}

void BenchDispatch(Bench* bench, const Mixture& m, const Places& at, const std::string& kind) {
  const DispatchSpec spec{.dtype = kBF16, .hidden = m.hidden, .chosen = m.route.chosen};
  const double bytes = 2.0 * static_cast<double>((m.tokens + m.pairs()) * m.hidden);
  bench->Time({.name = "experts dispatch forward" + kind,
               .extents = Extents(m.pairs(), m.hidden),
               .bytes = bytes,
               .make = [&](Memory* memory) -> Launch {
                 const DispatchForwardArgs args{.spec = spec,
                                                .tokens = m.tokens,
                                                .order = memory->Upload(at.order),
                                                .places = memory->Upload(at.places),
                                                .x = memory->BFloat16(m.tokens * m.hidden),
                                                .rows = memory->BFloat16(m.pairs() * m.hidden)};
                 return [=](Stream* s) { DispatchForward(args, s); };
               },
               .note = m.model});
  bench->Time({.name = "experts dispatch backward" + kind,
               .extents = Extents(m.pairs(), m.hidden),
               .bytes = bytes,
               .make = [&](Memory* memory) -> Launch {
                 const DispatchBackwardArgs args{.spec = spec,
                                                 .tokens = m.tokens,
                                                 .places = memory->Upload(at.places),
                                                 .drows = memory->BFloat16(m.pairs() * m.hidden),
                                                 .dx = memory->BFloat16(m.tokens * m.hidden)};
                 return [=](Stream* s) { DispatchBackward(args, s); };
               },
               .note = m.model});
}

void BenchCombine(Bench* bench, const Mixture& m, const Places& at, const std::string& kind) {
  const CombineSpec spec{.dtype = kBF16, .hidden = m.hidden, .chosen = m.route.chosen};
  const double row = 2.0 * static_cast<double>(m.hidden);
  const double tokens = static_cast<double>(m.tokens), pairs = static_cast<double>(m.pairs());
  bench->Time({.name = "experts combine forward" + kind,
               .extents = Extents(m.pairs(), m.hidden),
               .bytes = row * (tokens + pairs),
               .make = [&](Memory* memory) -> Launch {
                 const CombineForwardArgs args{.spec = spec,
                                               .tokens = m.tokens,
                                               .places = memory->Upload(at.places),
                                               .weights = memory->Floats(m.pairs()),
                                               .rows = memory->BFloat16(m.pairs() * m.hidden),
                                               .y = memory->BFloat16(m.tokens * m.hidden)};
                 return [=](Stream* s) { CombineForward(args, s); };
               },
               .note = m.model});
  bench->Time({.name = "experts combine backward" + kind,
               .extents = Extents(m.pairs(), m.hidden),
               .bytes = row * (tokens + 2 * pairs),
               .make = [&](Memory* memory) -> Launch {
                 const CombineBackwardArgs args{.spec = spec,
                                                .tokens = m.tokens,
                                                .order = memory->Upload(at.order),
                                                .places = memory->Upload(at.places),
                                                .weights = memory->Floats(m.pairs()),
                                                .rows = memory->BFloat16(m.pairs() * m.hidden),
                                                .dy = memory->BFloat16(m.tokens * m.hidden),
                                                .drows = memory->BFloat16(m.pairs() * m.hidden),
                                                .dweights = memory->Floats(m.pairs())};
                 return [=](Stream* s) { CombineBackward(args, s); };
               },
               .note = m.model});
}

void BenchSigmoidGate(Bench* bench, const Mixture& m) {
  const SigmoidGateSpec spec{.dtype = kBF16, .columns = m.hidden};
  const int64_t elements = m.tokens * m.hidden;
  const double bytes = 6.0 * static_cast<double>(elements);
  bench->Time({.name = "shared experts' gate forward",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const SigmoidGateForwardArgs args{.spec = spec,
                                                   .rows = m.tokens,
                                                   .logits = memory->BFloat16(m.tokens),
                                                   .x = memory->BFloat16(elements),
                                                   .y = memory->BFloat16(elements)};
                 return [=](Stream* s) { SigmoidGateForward(args, s); };
               },
               .note = m.model});
  bench->Time({.name = "shared experts' gate backward",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const SigmoidGateBackwardArgs args{.spec = spec,
                                                    .rows = m.tokens,
                                                    .logits = memory->BFloat16(m.tokens),
                                                    .x = memory->BFloat16(elements),
                                                    .dy = memory->BFloat16(elements),
                                                    .dx = memory->BFloat16(elements),
                                                    .dlogits = memory->BFloat16(m.tokens)};
                 return [=](Stream* s) { SigmoidGateBackward(args, s); };
               },
               .note = m.model});
}

}  // namespace

void BenchExperts(Bench* bench) {
  for (const Mixture& m : kMixtures) {
    BenchSigmoidGate(bench, m);
    BenchRouter(bench, m);
    BenchRouterLoss(bench, m);
    for (const bool skewed : {false, true}) {
      const Places at(ExpertIds(m, skewed));
      const std::string kind = skewed ? " skewed" : "";
      BenchSort(bench, m, skewed);
      BenchDispatch(bench, m, at, kind);
      BenchCombine(bench, m, at, kind);
    }
  }
}

}  // namespace coxswain::kernels::bench
