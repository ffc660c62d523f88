// Rows of a mixture of experts: sorted by expert, sent there, gated, and added up again.
#ifndef COXSWAIN_KERNELS_EXPERTS_EXPERT_ROWS_H_
#define COXSWAIN_KERNELS_EXPERTS_EXPERT_ROWS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// The order in which the experts of a mixture compute: the pairs (token, slot) of a router's ids,
// sorted by expert. Pair p is slot p % k of token p / k. The sort is stable: the pairs of an expert
// keep their order. A pair with id -1 belongs to no expert and is left out.
struct SortByExpertSpec {
  int64_t experts = 0;  // E
  int64_t chosen = 0;   // k
};
bool SortByExpertSupports(const SortByExpertSpec& spec);
int64_t SortByExpertWorkspaceBytes(const SortByExpertSpec& spec, int64_t tokens);

struct SortByExpertArgs {
  SortByExpertSpec spec = {};
  int64_t tokens = 0;            // T; T k below 2^31
  const int32_t* ids = nullptr;  // [T, k], in [-1, E)
  int32_t* order = nullptr;      // [T k], the pair at each place; -1 behind the last
  int32_t* places = nullptr;     // [T, k], the place of each pair; -1: left out
  int32_t* offsets = nullptr;    // [E + 1]: expert e has places offsets[e] to offsets[e + 1]
  int32_t* counts = nullptr;     // [E], pairs of each expert
  Workspace workspace = {};
};
void SortByExpert(const SortByExpertArgs& args, Stream* stream);

// The rows of a mixture's experts: the row of each pair's token, in the order of expert_rows.h.
//   rows[i] = x[order[i] / k];  dx[t] = sum over slots s of drows[places[t, s]], s rising
// A place behind the last pair has a row of zeros; a pair that is left out gives nothing. No
// atomics: dx gathers.
struct DispatchSpec {
  DType dtype = DType::kFloat32;
  int64_t hidden = 0;  // H
  int64_t chosen = 0;  // k
};
bool DispatchSupports(const DispatchSpec& spec);

struct DispatchForwardArgs {
  DispatchSpec spec = {};
  int64_t tokens = 0;               // T
  const int32_t* order = nullptr;   // [T k]
  const int32_t* places = nullptr;  // [T, k]: CUDA writes a token's row to its places
  const void* x = nullptr;          // [T, H]
  void* rows = nullptr;             // [T k, H]
};
void DispatchForward(const DispatchForwardArgs& args, Stream* stream);

struct DispatchBackwardArgs {
  DispatchSpec spec = {};
  int64_t tokens = 0;
  const int32_t* places = nullptr;  // [T, k]
  const void* drows = nullptr;      // [T k, H]
  void* dx = nullptr;               // [T, H]
  bool accumulate = false;          // dx is added to, else overwritten
};
void DispatchBackward(const DispatchBackwardArgs& args, Stream* stream);

// What the experts of a mixture give back to a token: the sum of its rows by the router's weights.
// Rows lie in the order of expert_rows.h.
//   y[t] = sum over slots s of weights[t, s] rows[places[t, s]], s rising
//   drows[i] = weights[order[i]] dy[order[i] / k];  dweights[t, s] = dy[t] . rows[places[t, s]]
// A pair that is left out gives nothing, its row and weight are not read, and its dweight is 0; a
// place behind the last pair has a row of zeros in drows. No atomics: y gathers.
struct CombineSpec {
  DType dtype = DType::kFloat32;  // rows, y and their gradients
  int64_t hidden = 0;             // H
  int64_t chosen = 0;             // k
};
bool CombineSupports(const CombineSpec& spec);

struct CombineForwardArgs {
  CombineSpec spec = {};
  int64_t tokens = 0;               // T
  const int32_t* places = nullptr;  // [T, k]
  const float* weights = nullptr;   // [T, k]
  const void* rows = nullptr;       // [T k, H]
  void* y = nullptr;                // [T, H]
};
void CombineForward(const CombineForwardArgs& args, Stream* stream);

struct CombineBackwardArgs {
  CombineSpec spec = {};
  int64_t tokens = 0;
  const int32_t* order = nullptr;   // [T k]
  const int32_t* places = nullptr;  // [T, k]
  const float* weights = nullptr;   // [T, k]
  const void* rows = nullptr;       // [T k, H]
  const void* dy = nullptr;         // [T, H]
  void* drows = nullptr;            // [T k, H]; may be rows; null: not wanted
  float* dweights = nullptr;        // [T, k]; null: not wanted
};
void CombineBackward(const CombineBackwardArgs& args, Stream* stream);

// Rows that a gate of their own scales, added to what is there: the shared experts of a mixture.
//   y[t] += s_t x[t], s_t = 1 / (1 + exp(-l_t)), l_t the logit of row t
//   dx[t] = s_t dy[t];  dl_t = s_t (1 - s_t) (dy[t] . x[t])
// Source: transformers Qwen2MoeSparseMoeBlock.
struct SigmoidGateSpec {
  DType dtype = DType::kFloat32;  // rows, logits and their gradients
  int64_t columns = 0;            // H
};
bool SigmoidGateSupports(const SigmoidGateSpec& spec);

struct SigmoidGateForwardArgs {
  SigmoidGateSpec spec = {};
  int64_t rows = 0;              // T
  const void* logits = nullptr;  // [T]
  const void* x = nullptr;       // [T, H]
  void* y = nullptr;             // [T, H], added to
};
void SigmoidGateForward(const SigmoidGateForwardArgs& args, Stream* stream);

struct SigmoidGateBackwardArgs {
  SigmoidGateSpec spec = {};
  int64_t rows = 0;
  const void* logits = nullptr;  // [T]
  const void* x = nullptr;       // [T, H]
  const void* dy = nullptr;      // [T, H]
  void* dx = nullptr;            // [T, H]; may be x; null: not wanted
  void* dlogits = nullptr;       // [T]; may be logits; null: not wanted
};
void SigmoidGateBackward(const SigmoidGateBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_EXPERT_ROWS_H_
