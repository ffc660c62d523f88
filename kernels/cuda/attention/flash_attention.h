// Attention of packed documents on the tensor cores, bfloat16, deterministic: any lengths known to
// the device alone, a workspace of one float per (head, token).
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_ATTENTION_H_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_ATTENTION_H_

#include "kernels/attention/attention.h"

namespace coxswain::kernels::cuda {

// bfloat16, heads of keys and of values that are multiples of 8 up to 256 wide, scale > 0.
bool FlashAttentionSupports(const AttentionSpec& spec);
// Forward needs no workspace.
int64_t FlashAttentionBackwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens);
// lse is [nq, T]. Contracts of kernels/attention/attention.h; extents and workspace are checked by
// the caller. Throw std::invalid_argument unless all tensors are 16-byte aligned.
void FlashAttentionForward(const AttentionForwardArgs& args, Stream* stream);
void FlashAttentionBackward(const AttentionBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_ATTENTION_H_
