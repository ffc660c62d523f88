// The packed rows of attention from those of latent attention. A head of q and k has dn elements
// that stay and dr that rotate; the latter of k are one row that all heads share.
//   q_h = [q[h, :dn], R q[h, dn:]];  k_h = [kv[h, :dn], R k_rope];  v_h = kv[h, dn:]
// with R the rotation of kernels/rope.h over dr elements. Backward turns by the opposite angle,
// R^T, and the gradient of the shared row is the sum over the heads:
//   dq[h] = [dq_h[:dn], R^T dq_h[dn:]];  dkv[h] = [dk_h[:dn], dv_h];  dk_rope = R^T sum_h dk_h[dn:]
// Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1; transformers modeling_deepseek_v3.
#ifndef COXSWAIN_KERNELS_ATTENTION_LATENT_HEADS_H_
#define COXSWAIN_KERNELS_ATTENTION_LATENT_HEADS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

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

#endif  // COXSWAIN_KERNELS_ATTENTION_LATENT_HEADS_H_
