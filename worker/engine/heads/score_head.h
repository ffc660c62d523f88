// The head of a plan whose loss is of scores: one row a document, no logits
// (kernels/loss/score_loss.h).
#ifndef COXSWAIN_WORKER_ENGINE_HEADS_SCORE_HEAD_H_
#define COXSWAIN_WORKER_ENGINE_HEADS_SCORE_HEAD_H_

#include "common/plan/plan.h"
#include "kernels/loss/score_loss.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// In: Buffers::final_norm, rows [S] and documents.values. Adds the loss to scalars->loss_sum and
// the reports to scalars->preference. Training accumulates the gradient of a trained head, and sets
// dnorm [T, H] to the gradient of final_norm, scaled by scalars->gradient_scale.
void ScoreHead(const plan::Plan& plan, const Sweep& sweep);

kernels::ScoreHeadSpec ScoreSpec(const Model& model);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_HEADS_SCORE_HEAD_H_
