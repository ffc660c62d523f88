// Workspace of attention on a GPU: the need of the fastest algorithm, and the least possible.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MEMORY_ATTENTION_WORKSPACE_H_
#define COXSWAIN_CONTROLLER_PLANNER_MEMORY_ATTENTION_WORKSPACE_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::planner {

// A need up to this size counts like any other buffer. A larger one takes only memory that the plan
// leaves free.
inline constexpr int64_t kOrdinaryAttentionBytes = int64_t{4} << 30;

// Upper bounds. `plan` must have its model, formats and micro-step. Fastest: cuDNN's graph for
// micro-steps with one document per bin. Its deterministic backward keeps a partial dQ for each
// block of keys, so its workspace grows with tokens x sequence_len. Least: our own kernels, which
// take any documents.
int64_t FastestAttentionBytes(const plan::Plan& plan);
int64_t LeastAttentionBytes(const plan::Plan& plan);
// Codes and scales of attention in FP8 (kernels/attention/fp8_attention.h), which the least has
// room for; 0 without it.
int64_t Fp8AttentionBytes(const plan::Plan& plan);
// The need of the fastest algorithm on a GPU of this compute capability (x 10, 0: not known). It
// equals the least where our own kernels are faster than cuDNN's.
int64_t FastestAttentionBytes(const plan::Plan& plan, int32_t compute_capability);

// The plan's workspace for such a need; never below what matrix products take anyway.
int64_t WorkspaceOf(int64_t attention_bytes);

// True when enough micro-steps have one document per bin to make cuDNN's graph worth its memory.
// `single_document_bins`: share of bins that hold one document.
bool RunsSingleDocuments(const plan::Plan& plan, double single_document_bins);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MEMORY_ATTENTION_WORKSPACE_H_
