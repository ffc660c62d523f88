#include "worker/engine/heads/loss_head.h"

#include "worker/engine/memory/model.h"

namespace coxswain::engine {

kernels::CrossEntropySpec LossSpec(const plan::Plan& plan) {
  kernels::CrossEntropySpec spec;
  spec.dtype = ComputeDType(plan);
  spec.vocab = plan.model.vocab_size;
  spec.label_smoothing = static_cast<float>(plan.label_smoothing);
  spec.z_loss = static_cast<float>(plan.z_loss);
  spec.softcap = static_cast<float>(plan.model.logit_softcap);
  return spec;
}

LossHead LossHeadOf(const plan::Plan& plan) {
  return {.chunk_rows = plan.lm_head_chunk_tokens,
          .panel_bytes = plan.lm_head_panel_bytes,
          .spec = LossSpec(plan)};
}

}  // namespace coxswain::engine
