#include "worker/engine/heads/cut_head.h"

#include "kernels/tensors/rows.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/ops/dense.h"
#include "worker/engine/ops/gradient_sum.h"

namespace coxswain::engine {
namespace {

kernels::RowGatherArgs CutRows(const Sweep& sweep) {
  kernels::RowGatherArgs args;
  args.spec.dtype = sweep.model.compute_dtype;
  args.spec.columns = sweep.model.config.hidden_size;
  args.rows = sweep.batch.target_rows;
  args.index = sweep.buffers.rows;
  return args;
}

kernels::Workspace CutWorkspace(const Sweep& sweep, const LossHead& head) {
  return {.data = sweep.buffers.logits, .bytes = head.panel_bytes};
}

void AddCutHits(const Sweep& sweep, const float* hits) {
  kernels::Sum({.count = sweep.batch.target_rows,
                .values = hits,
                .sum = &sweep.buffers.scalars->hits,
                .accumulate = true},
               sweep.stream);
}

// The float32 gradient of the rows, in the compute dtype; head_x has been read for the last time.
const void* RoundedRowGradient(const Sweep& sweep) {
  const Buffers& buffers = sweep.buffers;
  if (sweep.model.compute_dtype == kernels::DType::kFloat32) return buffers.head_dx;
  kernels::Convert({.from = kernels::DType::kFloat32,
                    .to = sweep.model.compute_dtype,
                    .count = sweep.batch.target_rows * sweep.model.config.hidden_size,
                    .in = buffers.head_dx,
                    .out = buffers.head_x},
                   sweep.stream);
  return buffers.head_x;
}

}  // namespace

kernels::CutCrossEntropySpec CutSpec(const Model& model, const kernels::CrossEntropySpec& loss) {
  const bool trained = model.head.gradient != nullptr;
  return {.dtype = loss.dtype,
          .weight_gradient_dtype = trained ? model.head.gradient_dtype : kernels::DType::kFloat32,
          .hidden = model.config.hidden_size,
          .vocab = loss.vocab,
          .logit_scale = static_cast<float>(model.config.logit_scale),
          .label_smoothing = loss.label_smoothing,
          .z_loss = loss.z_loss,
          .softcap = loss.softcap};
}

void CutLosses(const Sweep& sweep, const LossHead& head) {
  const Buffers& buffers = sweep.buffers;
  kernels::RowGatherArgs gather = CutRows(sweep);
  gather.in = buffers.final_norm;
  gather.out = buffers.head_x;
  kernels::GatherRows(gather, sweep.stream);
  // No gradient of the rows is there while nothing trains.
  auto* hits = sweep.batch.train ? nullptr : static_cast<float*>(buffers.head_dx);
  kernels::CutCrossEntropyForward({.spec = CutSpec(sweep.model, head.spec),
                                   .rows = sweep.batch.target_rows,
                                   .x = buffers.head_x,
                                   .weight = sweep.model.head.value,
                                   .targets = buffers.labels,
                                   .loss = buffers.head_loss,
                                   .nll = buffers.head_nll,
                                   .hits = hits,
                                   .statistics = buffers.head_statistics,
                                   .workspace = CutWorkspace(sweep, head)},
                                  sweep.stream);
  if (hits != nullptr) AddCutHits(sweep, hits);
}

void CutGradients(const Sweep& sweep, const LossHead& head, const float* row_weights) {
  const Buffers& buffers = sweep.buffers;
  const Tensor& weight = sweep.model.head;
  kernels::CutCrossEntropyBackward({.spec = CutSpec(sweep.model, head.spec),
                                    .rows = sweep.batch.target_rows,
                                    .x = buffers.head_x,
                                    .weight = weight.value,
                                    .targets = buffers.labels,
                                    .statistics = buffers.head_statistics,
                                    .gradient_scale = &buffers.scalars->gradient_scale,
                                    .row_weights = row_weights,
                                    .dx = static_cast<float*>(buffers.head_dx),
                                    .dweight = weight.gradient,
                                    .accumulate = FindsGradient(sweep, weight),
                                    .sum = SumOf(sweep, weight),
                                    .term = buffers.gradient_term,
                                    .workspace = CutWorkspace(sweep, head)},
                                   sweep.stream);
  kernels::RowGatherArgs scatter = CutRows(sweep);
  scatter.in = RoundedRowGradient(sweep);
  scatter.out = buffers.dnorm;
  kernels::ScatterAddRows(scatter, sweep.stream);
}

}  // namespace coxswain::engine
