// Rows of heads: the norm of q and k, and packed rows from those of latent attention.
#ifndef COXSWAIN_KERNELS_ATTENTION_HEADS_H_
#define COXSWAIN_KERNELS_ATTENTION_HEADS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// RMSNorm of every q head and every k head over head_dim, before RoPE; the heads share one weight
// vector for q and one for k. Or, `whole`, one norm over all q heads together and one over all k
// heads. Formulas: norms.h. Source: transformers Qwen3Attention, Gemma3Attention (weight_offset)
// and Olmo2Attention (whole).
//
// Below, wq and wk are the elements of one norm: hd both, whole: nq hd and nkv hd. n is the norms
// of a token: nq + nkv, whole: 2.
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

// The packed rows of attention from those of latent attention. A head of q and k has dn elements
// that stay and dr that rotate; the latter of k are one row that all heads share.
//   q_h = [q[h, :dn], R q[h, dn:]];  k_h = [kv[h, :dn], R k_rope];  v_h = kv[h, dn:]
// with R the rotation of kernels/rope.h over dr elements. Backward turns by the opposite angle,
// R^T, and the gradient of the shared row is the sum over the heads:
//   dq[h] = [dq_h[:dn], R^T dq_h[dn:]];  dkv[h] = [dk_h[:dn], dv_h];  dk_rope = R^T sum_h dk_h[dn:]
// Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1; transformers modeling_deepseek_v3.
struct LatentHeadsSpec {
  DType dtype = DType::kFloat32;
  int64_t heads = 0;         // n, of q, k and v
  int64_t nope = 0;          // dn
  int64_t rope = 0;          // dr, even
  int64_t value = 0;         // dv
  bool interleaved = false;  // pairs are neighbours; else halves (kernels/rope.h)
};
bool LatentHeadsSupports(const LatentHeadsSpec& spec);

constexpr int64_t LatentQueryRow(const LatentHeadsSpec& spec) {
  return spec.heads * (spec.nope + spec.rope);
}
constexpr int64_t LatentKeyValueRow(const LatentHeadsSpec& spec) {
  return spec.heads * (spec.nope + spec.value);
}
constexpr int64_t LatentPackedRow(const LatentHeadsSpec& spec) {
  return 2 * LatentQueryRow(spec) + spec.heads * spec.value;
}

// Where a token stands: tables of BuildRopeTable for dr.
struct LatentPlaces {
  const float* cos = nullptr;          // [positions, dr / 2]
  const float* sin = nullptr;          // [positions, dr / 2]
  const int32_t* positions = nullptr;  // [T], below the tables' positions
};

struct LatentHeadsForwardArgs {
  LatentHeadsSpec spec = {};
  int64_t tokens = 0;  // T
  LatentPlaces places = {};
  const void* q = nullptr;       // [T, n (dn + dr)]
  const void* kv = nullptr;      // [T, n (dn + dv)]: dn of k, then dv of v, by head
  const void* k_rope = nullptr;  // [T, dr]
  void* qkv = nullptr;           // [T, 2 n (dn + dr) + n dv]: q heads, k heads, v heads
};
void LatentHeadsForward(const LatentHeadsForwardArgs& args, Stream* stream);

struct LatentHeadsBackwardArgs {
  LatentHeadsSpec spec = {};
  int64_t tokens = 0;
  LatentPlaces places = {};
  const void* dqkv = nullptr;  // as qkv
  void* dq = nullptr;          // as q, kv and k_rope; overwritten
  void* dkv = nullptr;
  void* dk_rope = nullptr;
};
void LatentHeadsBackward(const LatentHeadsBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ATTENTION_HEADS_H_
