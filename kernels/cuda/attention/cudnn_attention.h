// Attention of equally long documents through cuDNN's fused graphs, bfloat16.
//
// A plan serves one spec, one shape (documents x length) and one budget. It takes about half a
// second to build and is kept for the life of the process: launches only look it up.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_CUDNN_ATTENTION_H_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_CUDNN_ATTENTION_H_

#include <cstdint>
#include <string>

#include "kernels/attention/attention.h"

namespace coxswain::kernels::cuda {

// bfloat16, heads of q, k and v of one width, a multiple of 8, neither softcap nor sinks. cuDNN may
// still refuse a shape. Source: cuDNN frontend 1.12, whose SDPA attributes have no sinks.
bool CudnnAttentionSupports(const AttentionSpec& spec);

// The plans of both directions for one spec and shape. Their lse is [documents, nq, length].
class CudnnAttention;

// Builds the plans of `documents` documents of `length` rows, or returns those built before with
// the same budget; launches of the shape use them until it is prepared with another. Null when
// cuDNN refuses or wants more than `workspace_budget` bytes (0: no bound); *line says which plans
// they are or why there is none. One thread at a time. The result lives for ever.
const CudnnAttention* PrepareCudnnAttention(const AttentionSpec& spec, int64_t documents,
                                            int64_t length, int64_t workspace_budget,
                                            Stream* stream, std::string* line);
// What PrepareCudnnAttention returned for them last; null if nothing.
const CudnnAttention* FindCudnnAttention(const AttentionSpec& spec, int64_t documents,
                                         int64_t length);

int64_t CudnnAttentionForwardWorkspaceBytes(const CudnnAttention& attention);
int64_t CudnnAttentionBackwardWorkspaceBytes(const CudnnAttention& attention);
// Contracts of kernels/attention/attention.h; extents and workspace are checked by the caller.
void CudnnAttentionForward(const CudnnAttention& attention, const AttentionForwardArgs& args,
                           Stream* stream);
void CudnnAttentionBackward(const CudnnAttention& attention, const AttentionBackwardArgs& args,
                            Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_CUDNN_ATTENTION_H_
