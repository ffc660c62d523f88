// The end of a step: norm of the reduced gradients, decision, update.
#ifndef COXSWAIN_WORKER_ENGINE_OPTIMIZER_H_
#define COXSWAIN_WORKER_ENGINE_OPTIMIZER_H_

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "worker/engine/buffers.h"
#include "worker/engine/model.h"
#include "worker/engine/parameter_store.h"
#include "worker/engine/verified_groups.h"

namespace coxswain::engine {

// Tensors [first, first + count) of a list and the chunks they are walked in (kernels/adamw.h).
struct TensorRange {
  int64_t first = 0, count = 0, chunks = 0;
};

// Writes this rank's pieces: the records of the optimizer (those of the embedding's unit, then the
// others, both in table order) and norm_tensors (order of `groups`).
void FillTensorLists(const plan::Plan& plan, const ParameterLayout& layout,
                     const std::vector<VerifiedGroup>& groups, const Buffers& buffers);

// Writes norm_tensors alone, of the pieces' gradients or values, as `values` says.
void FillNormTensors(const ParameterLayout& layout, const std::vector<VerifiedGroup>& groups,
                     const ParameterStore& store, Values (ParameterStore::*values)(size_t) const,
                     const Buffers& buffers);

// Writes sum of squares and non-finite count of a range of norm_tensors into `sums`.
void NormOf(const Buffers& buffers, const TensorRange& range, kernels::NormSums* sums,
            kernels::Stream* stream);

// Computes norm, clip factor and skip flag from scalars->norm_sums; they stay on the device.
void DecideUpdate(const Buffers& buffers, double max_grad_norm, kernels::Stream* stream);

struct UpdateArgs {
  TensorRange range;  // of the optimizer's records
  bool last = true;   // of the ranges of this update
};
// Clips, skips or applies as decided, by the launch of the plan's optimizer.
void UpdateParameters(const plan::Plan& plan, const Buffers& buffers, const UpdateArgs& args,
                      kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPTIMIZER_H_
