// Computes final logits, cross-entropy and their gradient, in chunks of the rows that have a target
// or, cut, of all of them over ranges of the vocabulary (cut_head.h).
#ifndef COXSWAIN_WORKER_ENGINE_HEADS_LM_HEAD_H_
#define COXSWAIN_WORKER_ENGINE_HEADS_LM_HEAD_H_

#include "kernels/lora/lora_linear.h"
#include "worker/engine/heads/loss_head.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// In: Buffers::final_norm, rows and labels. Training adds the loss of the objective to
// scalars->loss_sum, accumulates the gradient of a trained head, and sets dnorm [T, H] to the
// gradient of final_norm, scaled by scalars->gradient_scale. Evaluation adds the plain nll to
// scalars->loss_sum and the hits to scalars->hits. Writes the logits of Buffers::rows[0 ..
// batch.target_rows), at most one chunk, to Buffers::logits.
void HeadLogits(const Sweep& sweep);

void LmHead(const Sweep& sweep, const LossHead& head);

// The two halves of the head of a loss of documents. The first sets Buffers::head_nll [R] to minus
// the log-probability of every row with a target; evaluating, it adds the hits. The second does
// what training does in LmHead, with the weight of each row in Buffers::documents.weights, and adds
// no loss; the logits of the first half are still there where they were one chunk.
void HeadLogProbs(const Sweep& sweep, const LossHead& head);
void WeightedHead(const Sweep& sweep, const LossHead& head);

// The adapter of the head as the kernel sees it; 0 members: none.
kernels::LoraLinearSpec HeadLoraSpec(const Model& model, bool train);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_HEADS_LM_HEAD_H_
