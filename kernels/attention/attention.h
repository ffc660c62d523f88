// Causal grouped-query attention over packed documents, optionally within a sliding window.
// Query head h reads kv head h / (nq/nkv). Position i of a document sees positions
// max(0, i - window + 1) .. i of the same document (window 0: 0 .. i).
//   S = scale Q K^T;  P = softmax(S);  O = P V;  lse = log sum exp S
//   D = rowsum(dO O);  dP = dO V^T;  dS = P (dP - D);  dQ = scale dS K;  dK = scale dS^T Q;  dV =
//   P^T dO
// A head of q and k has hd elements, one of v and O vd, which may differ.
//
// With sinks each query head h has a learnt logit s, which takes part in its softmax and has no
// value. Scale and softcap do not change it:
//   lse = log (exp s + sum exp S);  P = exp(S - lse);  p = exp(s - lse);  O = P V
// Backward: rows of P and p sum to 1, and dp = dO 0 = 0. So D = p dp + rowsum(P dP) is rowsum(dO O)
// as before, dS = P (dP - D) as before, and the sink's gradient is that of one more score,
//   ds_h = sum over the rows of h of p (dp - D) = -sum p D
// Source: Dao, "FlashAttention-2", 2023, section 3; transformers sliding_window_overlay (kv > q -
// window), modeling_gpt_oss.py eager_attention_forward (sinks).
#ifndef COXSWAIN_KERNELS_ATTENTION_ATTENTION_H_
#define COXSWAIN_KERNELS_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <string>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/rope.h"

namespace coxswain::kernels {

struct AttentionSpec {
  DType dtype = DType::kFloat32;
  int64_t num_heads = 0;     // nq, a multiple of nkv
  int64_t num_kv_heads = 0;  // nkv
  int64_t head_dim = 0;      // hd
  int64_t value_dim = 0;     // vd; 0: hd
  // Elements from one row to the next of q and dq, and of k and dk; 0: they are views of one tensor
  // [T, (nq + nkv) hd + nkv vd]. Of v and dv; 0: as those of k.
  int64_t q_row = 0, kv_row = 0, v_row = 0;
  int64_t window = 0;                  // last positions visible, itself included; 0: all before
  float scale = 0.0f;                  // usually 1/sqrt(hd)
  float softcap = 0.0f;                // c > 0: S = c tanh(S / c) before the softmax; 0: none
  bool sinks = false;                  // query heads have sinks
  DType sink_dtype = DType::kFloat32;  // of them: float32 or `dtype`
  bool deterministic = true;  // false: the backward may differ in its last bits between runs
  // The forward multiplies codes in E4M3 (kernels/attention/fp8_attention.h). Without softcap,
  // heads at most 128 wide and a multiple of 16; on CUDA of bfloat16 and compute capability 9.0.
  bool fp8 = false;
};
bool AttentionSupports(const AttentionSpec& spec);

inline int64_t ValueDim(const AttentionSpec& spec) {
  return spec.value_dim > 0 ? spec.value_dim : spec.head_dim;
}
// Element i of head h in row t is data[t * row + h * hd + i], of v and O data[t * row + h * vd +
// i].
inline int64_t PackedRow(const AttentionSpec& spec) {
  return (spec.num_heads + spec.num_kv_heads) * spec.head_dim + spec.num_kv_heads * ValueDim(spec);
}
inline int64_t QueryRow(const AttentionSpec& spec) {
  return spec.q_row > 0 ? spec.q_row : PackedRow(spec);
}
inline int64_t KeyRow(const AttentionSpec& spec) {
  return spec.kv_row > 0 ? spec.kv_row : PackedRow(spec);
}
inline int64_t ValueRow(const AttentionSpec& spec) {
  return spec.v_row > 0 ? spec.v_row : KeyRow(spec);
}
template <typename Data>
struct HeadViews {
  Data q = nullptr;  // nq heads
  Data k = nullptr;  // nkv heads
  Data v = nullptr;
};
using HeadInputs = HeadViews<const void*>;
using HeadOutputs = HeadViews<void*>;

// Views of one tensor [T, (nq + nkv) hd + nkv vd]: q heads, k heads, v heads. For strides 0.
inline HeadOutputs PackedOutputs(const AttentionSpec& spec, void* qkv) {
  char* data = static_cast<char*>(qkv);
  const int64_t head = spec.head_dim * DTypeBytes(spec.dtype);
  return {data, data + spec.num_heads * head, data + (spec.num_heads + spec.num_kv_heads) * head};
}
inline HeadInputs PackedInputs(const AttentionSpec& spec, const void* qkv) {
  const HeadOutputs views = PackedOutputs(spec, const_cast<void*>(qkv));
  return {views.q, views.k, views.v};
}

// Extents that Prepare knows: at most so many tokens and documents, none longer than max_length.
struct AttentionExtents {
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t max_length = 0;
  bool dense = false;            // see Documents
  int64_t workspace_budget = 0;  // bytes; 0: no bound. An algorithm that needs more is not chosen
};
// Chooses the algorithms of a spec (CUDA: builds plans, a second each, remembered), so that no
// launch with these extents builds anything; launches run what the last call chose for their shape,
// whatever other budgets chose before. Returns a line for the log: what was chosen and why.
// Throws std::invalid_argument naming need and budget when nothing fits.
std::string PrepareAttention(const AttentionSpec& spec, const AttentionExtents& extents,
                             Stream* stream);
int64_t AttentionForwardWorkspaceBytes(const AttentionSpec& spec, const AttentionExtents& extents);
int64_t AttentionBackwardWorkspaceBytes(const AttentionSpec& spec, const AttentionExtents& extents);

// The documents of a micro-batch, back to back.
struct Documents {
  int64_t count = 0;                    // n
  const int32_t* cu_seqlens = nullptr;  // [n + 1], 0 = cu[0] <= ... <= cu[n] = T; length 0 allowed
  int64_t max_length = 0;               // bound on every document's length
  // Promise: document i is rows [i max_length, (i + 1) max_length), so T = n max_length, and what
  // cu_seqlens says is the same. Lets CUDA take a plan for equal lengths.
  bool dense = false;
};

struct AttentionForwardArgs {
  AttentionSpec spec = {};
  int64_t tokens = 0;  // T
  Documents documents = {};
  HeadInputs in = {};
  const void* sinks = nullptr;  // [nq] of spec.sink_dtype; null without spec.sinks
  void* out = nullptr;          // [T, nq vd]
  float* lse = nullptr;         // nq T floats, saved for backward; their order is the algorithm's
  // With spec.fp8, what the codes of q, k and v stand for (kernels/attention/fp8_attention.h): rows
  // as those of `in`, which may be the same memory. The backward reads them.
  HeadOutputs rounded = {};
  Workspace workspace = {};
};
void AttentionForward(const AttentionForwardArgs& args, Stream* stream);

struct AttentionBackwardArgs {
  AttentionSpec spec = {};
  int64_t tokens = 0;
  Documents documents = {};
  HeadInputs in = {};              // as forward read them; with spec.fp8 as it rounded them
  const void* sinks = nullptr;     // likewise
  const void* out = nullptr;       // [T, nq vd]
  const float* lse = nullptr;      // as forward with the same spec and documents wrote it
  const void* dout = nullptr;      // [T, nq vd]
  HeadOutputs gradients = {};      // rows as those of `in`, overwritten; none of `in`
  float* sink_gradient = nullptr;  // [nq], added to; null: the sinks are frozen, or none
  Workspace workspace = {};
  // What turned q and k of `in`: dq and dk are turned back, as RopeBackward does with what
  // `gradients` would be, or before they are rounded. Its qkv is that of `gradients`, which are
  // views of one tensor, with vd = hd. null: gradients of q and k as `in` has them.
  const RopeArgs* rotation = nullptr;
};
void AttentionBackward(const AttentionBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ATTENTION_ATTENTION_H_
