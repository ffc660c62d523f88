// The end of a step: norm of the reduced gradients, decision, update.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_OPTIMIZER_H_
#define COXSWAIN_WORKER_ENGINE_STEP_OPTIMIZER_H_

#include <cstdint>

#include "common/plan/plan.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/memory/parameter_store.h"

namespace coxswain::engine {

// Tensors [first, first + count) of a list and the chunks they are walked in
// (kernels/optimizer/adamw.h).
struct TensorRange {
  int64_t first = 0, count = 0, chunks = 0;
};

// Writes the optimizer's records of this rank's pieces: first those of the embedding's unit, then
// the others, both in table order.
void FillRecords(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers);

// Computes norm, clip factor and skip flag from scalars->norm_sums; they stay on the device.
void DecideUpdate(const Buffers& buffers, double max_grad_norm, kernels::Stream* stream);

struct UpdateArgs {
  TensorRange range;  // range of the optimizer's records
  bool last = true;   // true for the last range of this update
};
// Clips, skips or applies the update as decided, with the kernel of the plan's optimizer.
void UpdateParameters(const plan::Plan& plan, const Buffers& buffers, const UpdateArgs& args,
                      kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_OPTIMIZER_H_
