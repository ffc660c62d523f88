#include "worker/engine/ops/expert_use.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "common/plan/routers.h"

namespace coxswain::engine {
namespace {

// One layer, and the sums that its means are of.
struct LayerSums {
  LayerExpertUse use;
  double rows = 0, entropies = 0;
};

LayerSums ReadLayer(const plan::Router& router, const double* sums) {
  const double* counts = sums + router.use;
  const double pairs = std::accumulate(counts, counts + router.experts, 0.0);
  const auto experts = static_cast<double>(router.experts);
  LayerSums layer;
  layer.use.layer = router.layer;
  if (pairs > 0) {
    layer.use.load_ratio = *std::max_element(counts, counts + router.experts) * experts / pairs;
  }
  layer.use.unused_experts = std::count(counts, counts + router.experts, 0.0);
  layer.rows = counts[router.experts];
  layer.entropies = counts[router.experts + 1];
  if (layer.rows > 0) layer.use.router_entropy = layer.entropies / layer.rows;
  const double tokens = pairs / static_cast<double>(router.chosen);
  layer.use.nonfinite_tokens = std::llround(tokens - layer.rows);
  return layer;
}

// `factor`: that of the loss, by which its sum was multiplied.
std::optional<double> LossOf(double sum, double factor, int64_t loss_denominator) {
  const double loss = sum / (factor * static_cast<double>(loss_denominator));
  if (factor <= 0 || !std::isfinite(loss)) return std::nullopt;
  return loss;
}

}  // namespace

kernels::ExpertUseSpec UseSpec(const kernels::RouteSpec& spec) {
  return {.experts = spec.experts, .chosen = spec.chosen, .score = spec.score};
}

void AddExpertUse(const Sweep& sweep, const BoundRoute& op) {
  kernels::ExpertUseArgs use;
  use.spec = UseSpec(op.spec);
  use.tokens = sweep.batch.tokens;
  use.logits = op.logits;
  use.ids = op.ids;
  use.counts = op.counts;
  use.sums = op.use;
  use.workspace = sweep.buffers.scratch;
  kernels::ExpertUse(use, sweep.stream);
}

double* RouterLossSumsOf(const Sweep& sweep) {
  return sweep.buffers.router_use + sweep.model.router_loss_sums;
}

ExpertUse ExpertUseOf(const plan::Plan& plan, const double* sums, int64_t loss_denominator) {
  ExpertUse use;
  double rows = 0, entropies = 0;
  for (const plan::Router& router : plan::RoutersOf(plan)) {
    const LayerSums layer = ReadLayer(router, sums);
    use.layers.push_back(layer.use);
    use.load_ratio += layer.use.load_ratio;
    if (layer.use.load_ratio > use.worst_load_ratio) {
      use.worst_load_ratio = layer.use.load_ratio;
      use.worst_layer = layer.use.layer;
    }
    use.unused_experts += layer.use.unused_experts;
    use.nonfinite_tokens += layer.use.nonfinite_tokens;
    rows += layer.rows;
    entropies += layer.entropies;
  }
  if (use.layers.empty()) return use;
  use.load_ratio /= static_cast<double>(use.layers.size());
  if (rows > 0) use.router_entropy = entropies / rows;
  const double* losses = sums + plan::RouterUseDoubles(plan) - 2;
  use.balance_loss = LossOf(losses[0], plan.router_losses.balance, loss_denominator);
  use.z_loss = LossOf(losses[1], plan.router_losses.z, loss_denominator);
  return use;
}

}  // namespace coxswain::engine
