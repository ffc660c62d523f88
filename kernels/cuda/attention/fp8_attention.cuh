// Attention whose forward multiplies codes in E4M3 (kernels/attention/fp8_attention.h), on
// compute capability 9.0: what its two launches share.
//
// Values go turned, [vd, keys], for the tensor core reads both operands of codes along k. Its left
// operand has the keys of a step in another order than the product that made the probabilities has
// them: a lane holds keys 2 c, 2 c + 1, 8 + 2 c, 9 + 2 c of each 16 where 4 c .. 4 c + 3 are read.
// So values lie in that order, and probabilities stay in their lanes. Source: PTX ISA, "Register
// fragments for wgmma.mma_async.m64nNk32"; Shah and others, "FlashAttention-3", 2024, section 3.3.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_FP8_ATTENTION_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_FP8_ATTENTION_CUH_

#include "kernels/attention/fp8_attention.h"
#include "kernels/cuda/attention/hopper_tiles.cuh"

namespace coxswain::kernels::cuda {

// Codes and scales of the keys and values of a micro-batch in the workspace, as Fp8AttentionParts
// lays them out. Those of q are made by the blocks that read it.
struct AttentionCodes {
  uint8_t *k = nullptr, *v = nullptr;
  float *k_scales = nullptr, *v_scales = nullptr;
  int value_keys = 0, tiles = 0;
  // What the codes stand for: rows as those of q, k and v.
  bf16 *rounded_q = nullptr, *rounded_k = nullptr, *rounded_v = nullptr;
};

// Of a power of two. Of NaN it is some number; the scale itself makes NaN of what is multiplied by
// it.
__device__ __forceinline__ float ReciprocalOfPower(float x) {
  return __uint_as_float((254u << 23) - __float_as_uint(x));
}

// Where a document's parts begin.
__device__ __forceinline__ int FirstCodeTile(int begin, int document) {
  return begin / kFp8AttentionKeys + document;
}
__device__ __forceinline__ int FirstValueKey(int begin, int document) {
  return 16 * (begin / 16 + document);
}

// Of k and v, which are read once. Deterministic.
void LaunchAttentionCodes(const HopperParams& p, const AttentionCodes& codes, Stream* stream);
void LaunchHopperFp8Forward(const AttentionForwardArgs& args, HopperParams p,
                            const AttentionCodes& codes, int* next, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_FP8_ATTENTION_CUH_
