// The layouts among which the planner may choose for a job.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LAYOUT_LAYOUT_OPTIONS_H_
#define COXSWAIN_CONTROLLER_PLANNER_LAYOUT_LAYOUT_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

struct LayoutLimits {
  int64_t global_batch_bins = 1;
  uint64_t memory_bytes = 0;        // of the device, per worker; 0: no limit
  double single_document_bins = 1;  // share of the training bins
  int32_t compute_capability = 0;   // of the device, x 10; 0: not known
};

// One block computes while the next is gathered.
inline constexpr int32_t kLeastWeightSlots = 2;

// One choice of everything that the job leaves to the planner.
struct Layout {
  Precision master_dtype{}, gradient_dtype{};
  int32_t zero = 0;
  int64_t micro_batch = 1;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  int32_t weight_slots = kLeastWeightSlots;  // under ZeRO 3
  int64_t attention_workspace = 0;           // bytes; 0: that of the micro-step, if ordinary
  int64_t logits_bytes =
      0;  // most of an LM-head chunk, or of a cut head's panel; 0: that of the device
  bool cut_head = false;
  int32_t compute_capability = 0;  // of LayoutLimits
};

// Values the job sets are kept. In order of preference:
// - cpu: no recomputation before `block`, then the largest micro-batch of at most 4,096 tokens
//   (more does not run faster);
// - cuda: the least recomputation with a micro-batch of 8,192 to 32,768 tokens, the largest first;
//   below 8,192 tokens the largest micro-batch, then the least recomputation;
// - masters and gradients: float32 before bfloat16, but bfloat16 before any product is computed
//   again and before micro-batches below 8,192 tokens;
// - ranks that share a replica: within each of these the lowest ZeRO stage that fits.
// - attention.workspace_gib auto: the need of the fastest algorithm if that is ordinary
//   (attention_workspace.h), else the least; ChooseLayout adds the free memory.
// Micro-batches are cut so that the micro-steps of a step are equal. The last layout is the
// smallest. `plan` must have its model, device, compute_dtype, mesh, parameters and sequence_len.
std::vector<Layout> LayoutsToTry(const config::JobSpec& job, const LayoutLimits& limits,
                                 const plan::Plan& plan);

// Fills the fields that the layout decides, those of the LM head and buffers. A cut head takes what
// it needs at least, if that is above logits_bytes. Quantised experts are dequantised with their
// block, and gradients are summed to nearest.
void ApplyLayout(const Layout& layout, plan::Plan* plan);

// On cuda: enlarges LM-head chunks to 5 GiB of logits, because each chunk reads and writes the
// gradient of the head once.
void EnlargeHeadChunk(plan::Plan* plan);

// Of loss.head_memory_mib; 0: auto.
int64_t FixedLogitsBytes(const config::JobSpec& job);

// Device bytes of the smallest layout, with those of NCCL.
uint64_t SmallestLayoutBytes(const config::JobSpec& job, const LayoutLimits& limits,
                             plan::Plan plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LAYOUT_LAYOUT_OPTIONS_H_
