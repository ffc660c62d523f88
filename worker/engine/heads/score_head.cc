#include "worker/engine/heads/score_head.h"

#include "kernels/loss/score_loss.h"
#include "worker/engine/ops/dense.h"

namespace coxswain::engine {
namespace {

// dnorm is 0 at every token but the last of a document.
void Backward(const Sweep& sweep) {
  const Buffers& buffers = sweep.buffers;
  const Tensor& head = sweep.model.head;
  const int64_t bytes = sweep.batch.tokens * sweep.model.config.hidden_size *
                        kernels::DTypeBytes(sweep.model.compute_dtype);
  kernels::SetMemory(buffers.dnorm, 0, bytes, sweep.stream);
  kernels::ScoreHeadBackward({.spec = ScoreSpec(sweep.model),
                              .documents = sweep.batch.scored,
                              .rows = buffers.rows,
                              .x = buffers.final_norm,
                              .weight = head.value,
                              .dscores = buffers.dscores,
                              .scale = &buffers.scalars->gradient_scale,
                              .dx = buffers.dnorm,
                              .dweight = static_cast<float*>(head.gradient),
                              .accumulate = head.gradient != nullptr && FindsGradient(sweep, head)},
                             sweep.stream);
}

}  // namespace

kernels::ScoreHeadSpec ScoreSpec(const Model& model) {
  return {.dtype = model.compute_dtype,
          .width = model.config.hidden_size,
          .labels = model.config.labels};
}

void ScoreHead(const plan::Plan& plan, const Sweep& sweep) {
  const Buffers& buffers = sweep.buffers;
  kernels::ScoreHeadForward({.spec = ScoreSpec(sweep.model),
                             .documents = sweep.batch.scored,
                             .rows = buffers.rows,
                             .x = buffers.final_norm,
                             .weight = sweep.model.head.value,
                             .scores = buffers.scores},
                            sweep.stream);
  kernels::ScoreLoss({.spec = plan::ScoreSpecOf(plan.document_loss),
                      .documents = sweep.batch.scored,
                      .rows = buffers.rows,
                      .scores = buffers.scores,
                      .values = buffers.documents.values,
                      .loss = &buffers.scalars->loss_sum,
                      .reports = &buffers.scalars->preference,
                      .dscores = sweep.batch.train ? buffers.dscores : nullptr},
                     sweep.stream);
  if (sweep.batch.train) Backward(sweep);
}

}  // namespace coxswain::engine
