// Workspace of attention on a GPU: what the fastest algorithm needs, and what the least.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ATTENTION_WORKSPACE_H_
#define COXSWAIN_CONTROLLER_PLANNER_ATTENTION_WORKSPACE_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::planner {

// A need up to here counts like any other buffer; a larger one takes only memory that is left.
inline constexpr int64_t kOrdinaryAttentionBytes = int64_t{4} << 30;

// Upper bounds, of a plan that has its model, formats and micro-step. The fastest: cuDNN's graph
// for micro-steps of one document a bin, whose deterministic backward keeps a partial dQ for each
// block of keys; its workspace grows with tokens x sequence_len. The least: our own kernels, which
// take any documents.
int64_t FastestAttentionBytes(const plan::Plan& plan);
int64_t LeastAttentionBytes(const plan::Plan& plan);
// Of the fastest on a GPU of this compute capability (x 10, 0: not known): the least where our own
// kernels are faster than cuDNN's.
int64_t FastestAttentionBytes(const plan::Plan& plan, int32_t compute_capability);

// The plan's workspace for such a need: never less than what products take anyway.
int64_t WorkspaceOf(int64_t attention_bytes);

// Whether enough micro-steps have one document a bin for cuDNN's graph to be worth memory.
// `single_document_bins`: share of bins that hold one document.
bool RunsSingleDocuments(const plan::Plan& plan, double single_document_bins);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ATTENTION_WORKSPACE_H_
