// Attention of every dtype and width of heads, without tensor cores: float32 runs on it, and what
// the fast algorithms do not take.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_PLAIN_ATTENTION_H_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_PLAIN_ATTENTION_H_

#include "kernels/attention/attention.h"

namespace coxswain::kernels::cuda {

inline constexpr int64_t kPlainLargestHeadDim = 256;

// Heads up to kPlainLargestHeadDim wide. Forward needs no workspace.
int64_t PlainAttentionBackwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens);
// lse is [nq, T]. Contracts of kernels/attention/attention.h; extents are checked by the caller.
void PlainAttentionForward(const AttentionForwardArgs& args, Stream* stream);
void PlainAttentionBackward(const AttentionBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_PLAIN_ATTENTION_H_
