// RMSNorm of every q head and every k head over head_dim, before RoPE; the heads share one weight
// vector for q and one for k. Or, `whole`, one norm over all q heads together and one over all k
// heads. Formulas: rms_norm.h. Source: transformers Qwen3Attention, Gemma3Attention (weight_offset)
// and Olmo2Attention (whole).
//
// Below, wq and wk are the elements of one norm: hd both, whole: nq hd and nkv hd. n is the norms
// of a token: nq + nkv, whole: 2.
#ifndef COXSWAIN_KERNELS_ATTENTION_QK_NORM_H_
#define COXSWAIN_KERNELS_ATTENTION_QK_NORM_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct QkNormSpec {
  DType dtype = DType::kFloat32;       // activations and weights
  DType grad_dtype = DType::kFloat32;  // dq_weight, dk_weight
  int64_t num_heads = 0;               // nq
  int64_t num_kv_heads = 0;            // nkv
  int64_t head_dim = 0;                // hd
  float eps = 1e-6f;
  float weight_offset = 0.0f;  // o: 1 where weights are kept as what they differ from 1
  bool whole = false;
};
bool QkNormSupports(const QkNormSpec& spec);

struct QkNormForwardArgs {
  QkNormSpec spec = {};
  int64_t tokens = 0;              // T
  void* qkv = nullptr;             // [T, (nq + 2 nkv) hd], q and k overwritten
  const void* q_weight = nullptr;  // [wq]
  const void* k_weight = nullptr;  // [wk]
  void* saved_qk = nullptr;        // [T, (nq + nkv) hd], q and k before the norm, for backward
  float* rstd = nullptr;           // [T, n], q first, for backward
};
void QkNormForward(const QkNormForwardArgs& args, Stream* stream);

int64_t QkNormBackwardWorkspaceBytes(const QkNormSpec& spec, int64_t tokens);

struct QkNormBackwardArgs {
  QkNormSpec spec = {};
  int64_t tokens = 0;
  void* dqkv = nullptr;            // [T, (nq + 2 nkv) hd], q and k parts overwritten by dx
  const void* saved_qk = nullptr;  // [T, (nq + nkv) hd]
  const float* rstd = nullptr;     // [T, n]
  const void* q_weight = nullptr;  // [wq]
  const void* k_weight = nullptr;  // [wk]
  void* dq_weight = nullptr;       // [wq], accumulated over tokens and norms; null: frozen
  void* dk_weight = nullptr;       // [wk], likewise; null exactly when dq_weight is
  Workspace workspace = {};
};
void QkNormBackward(const QkNormBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ATTENTION_QK_NORM_H_
