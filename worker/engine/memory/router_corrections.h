// The corrections of routers that updates move (plan::Plan::router_bias_rate): whole on every rank,
// in "router.corrections". The tensor among the weights keeps what the base has.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_ROUTER_CORRECTIONS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_ROUTER_CORRECTIONS_H_

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

// From the files of the base, which LoadBaseWeights has checked; with init: random they are 0.
absl::Status LoadCorrections(const plan::Plan& plan, const ParameterLayout& layout,
                             const Buffers& buffers);

// By the use of experts, summed over the ranks, unless the update is skipped.
void MoveCorrections(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_ROUTER_CORRECTIONS_H_
