// The LM head without chunks of logits (kernels/loss/cut_cross_entropy.h): all rows with a target
// at once, over ranges of the vocabulary.
#ifndef COXSWAIN_WORKER_ENGINE_HEADS_CUT_HEAD_H_
#define COXSWAIN_WORKER_ENGINE_HEADS_CUT_HEAD_H_

#include <cstdint>

#include "kernels/loss/cut_cross_entropy.h"
#include "worker/engine/heads/loss_head.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

kernels::CutCrossEntropySpec CutSpec(const Model& model, const kernels::CrossEntropySpec& loss);

// Sets Buffers::head_x and, by row, head_loss, head_nll and head_statistics. Of a sweep that does
// not train it adds the hits to scalars->hits.
void CutLosses(const Sweep& sweep, const LossHead& head);
// Behind CutLosses of the same rows: accumulates the gradient of a trained head and adds that of
// the rows to dnorm. `row_weights` [R]; null: all 1.
void CutGradients(const Sweep& sweep, const LossHead& head, const float* row_weights);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_HEADS_CUT_HEAD_H_
