#include "worker/engine/ops/router_losses.h"

#include <cstdint>
#include <vector>

#include "kernels/experts/router_loss.h"
#include "worker/engine/ops/expert_use.h"

namespace coxswain::engine {
namespace {

// Rows of a pool, and where its numbers lie.
struct Pool {
  int64_t begin = 0, count = 0;
  double *sums = nullptr, *losses = nullptr;
  const float* factors = nullptr;
};

template <typename Use>
void ForPools(const Sweep& sweep, const Use& use) {
  const Buffers& buffers = sweep.buffers;
  const int64_t sums = kernels::RouterLossSumCount(sweep.model.router_spec);
  const bool whole = sweep.model.router_losses.by_micro_batch;
  const std::vector<int64_t> ends =
      whole ? std::vector<int64_t>{sweep.batch.tokens} : *sweep.batch.bin_ends;
  int64_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    use(Pool{.begin = begin,
             .count = ends[i] - begin,
             .sums = buffers.router_sums + at * sums,
             .losses = buffers.router_losses + 2 * at,
             .factors = buffers.router_factors + 2 * at});
    begin = ends[i];
  }
}

}  // namespace

bool HasRouterLosses(const Sweep& sweep) {
  return sweep.batch.train && sweep.model.router_losses.any();
}

void AddRouterRows(const Sweep& sweep, const BoundRoute& op) {
  ForPools(sweep, [&](const Pool& pool) {
    kernels::RouterLossSumsArgs sums;
    sums.spec = sweep.model.router_spec;
    sums.tokens = pool.count;
    sums.logits = op.logits + pool.begin * op.spec.experts;
    sums.ids = op.ids + pool.begin * op.spec.chosen;
    sums.accumulate = !op.first;
    sums.sums = pool.sums;
    sums.workspace = sweep.buffers.scratch;
    kernels::RouterLossSums(sums, sweep.stream);
  });
}

void AddRouterLosses(const Sweep& sweep) {
  ForPools(sweep, [&](const Pool& pool) {
    kernels::RouterLoss({.spec = sweep.model.router_spec,
                         .sums = pool.sums,
                         .losses = pool.losses,
                         .factors = pool.factors,
                         .total = &sweep.buffers.scalars->loss_sum,
                         .parts = RouterLossSumsOf(sweep)},
                        sweep.stream);
  });
}

void AddRouterGradient(const Sweep& sweep, const BoundRoute& op) {
  ForPools(sweep, [&](const Pool& pool) {
    kernels::RouterLossGradientArgs gradient;
    gradient.spec = sweep.model.router_spec;
    gradient.tokens = pool.count;
    gradient.logits = op.logits + pool.begin * op.spec.experts;
    gradient.ids = op.ids + pool.begin * op.spec.chosen;
    gradient.sums = pool.sums;
    gradient.factors = pool.factors;
    gradient.scale = &sweep.buffers.scalars->gradient_scale;
    gradient.dlogits = op.dlogits + pool.begin * op.spec.experts;
    kernels::RouterLossGradient(gradient, sweep.stream);
  });
}

}  // namespace coxswain::engine
