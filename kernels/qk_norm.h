// RMSNorm of every q head and every k head over head_dim, before RoPE; the heads share one weight
// vector for q and one for k. Formulas: rms_norm.h. Source: transformers Qwen3Attention.
#ifndef COXSWAIN_KERNELS_QK_NORM_H_
#define COXSWAIN_KERNELS_QK_NORM_H_

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
};
bool QkNormSupports(const QkNormSpec& spec);

struct QkNormForwardArgs {
  QkNormSpec spec = {};
  int64_t tokens = 0;              // T
  void* qkv = nullptr;             // [T, (nq + 2 nkv) hd], q and k overwritten
  const void* q_weight = nullptr;  // [hd]
  const void* k_weight = nullptr;  // [hd]
  void* saved_qk = nullptr;        // [T, (nq + nkv) hd], q and k before the norm, for backward
  float* rstd = nullptr;           // [T, nq + nkv], for backward
};
void QkNormForward(const QkNormForwardArgs& args, Stream* stream);

int64_t QkNormBackwardWorkspaceBytes(const QkNormSpec& spec, int64_t tokens);

struct QkNormBackwardArgs {
  QkNormSpec spec = {};
  int64_t tokens = 0;
  void* dqkv = nullptr;            // [T, (nq + 2 nkv) hd], q and k parts overwritten by dx
  const void* saved_qk = nullptr;  // [T, (nq + nkv) hd]
  const float* rstd = nullptr;     // [T, nq + nkv]
  const void* q_weight = nullptr;  // [hd]
  const void* k_weight = nullptr;  // [hd]
  void* dq_weight = nullptr;       // [hd], accumulated over tokens and heads; null: frozen
  void* dk_weight = nullptr;       // [hd], likewise; null exactly when dq_weight is
  Workspace workspace = {};
};
void QkNormBackward(const QkNormBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QK_NORM_H_
