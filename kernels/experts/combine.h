// What the experts of a mixture give back to a token: the sum of its rows by the router's weights.
// Rows lie in the order of sort_by_expert.h.
//   y[t] = sum over slots s of weights[t, s] rows[places[t, s]], s rising
//   drows[i] = weights[order[i]] dy[order[i] / k];  dweights[t, s] = dy[t] . rows[places[t, s]]
// A pair that is left out gives nothing, its row and weight are not read, and its dweight is 0; a
// place behind the last pair has a row of zeros in drows. No atomics: y gathers.
#ifndef COXSWAIN_KERNELS_EXPERTS_COMBINE_H_
#define COXSWAIN_KERNELS_EXPERTS_COMBINE_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

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

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_COMBINE_H_
