// Attention of packed documents by warpgroup products and the copy engine, bfloat16, deterministic,
// compute capability 9.0: any lengths known to the device alone.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_ATTENTION_H_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_ATTENTION_H_

#include "kernels/attention/attention.h"

namespace coxswain::kernels::cuda {

// bfloat16, heads of keys and of values of multiples of 8, the wider of both 40 to 256 wide, at
// most 64 query heads a kv head, scale > 0, compute capability 9.0. Heads run as those of 64, 128
// or 256 with zeros behind them; keys of 136 to 192 beside values of up to 128 as those of 192 and
// 128. With fp8 heads of multiples of 16, up to 128 wide, narrow ones too, without softcap.
bool HopperAttentionSupports(const AttentionSpec& spec);
// Taken before cuDNN's plans for equal documents of this length: faster, forward and backward
// together, or by less than 6 % slower without gigabytes of workspace. Not for long documents and
// heads of more than 64 where bits need not repeat: cuDNN's atomics win, up to its 128.
bool HopperAttentionIsFastest(const AttentionSpec& spec, int64_t length);
// A counter; with fp8 the codes and scales of so many tokens and documents too.
int64_t HopperAttentionForwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens,
                                             int64_t documents);
// Two floats for each query head and token.
int64_t HopperAttentionBackwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens);
// lse is [nkv, T, nq / nkv]. Contracts of kernels/attention/attention.h; extents and workspace are
// checked by the caller. Throw std::invalid_argument unless all tensors are 16-byte aligned.
void HopperAttentionForward(const AttentionForwardArgs& args, Stream* stream);
void HopperAttentionBackward(const AttentionBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_ATTENTION_H_
