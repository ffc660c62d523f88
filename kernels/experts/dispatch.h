// The rows of a mixture's experts: the row of each pair's token, in the order of sort_by_expert.h.
//   rows[i] = x[order[i] / k];  dx[t] = sum over slots s of drows[places[t, s]], s rising
// A place behind the last pair has a row of zeros; a pair that is left out gives nothing. No
// atomics: dx gathers.
#ifndef COXSWAIN_KERNELS_EXPERTS_DISPATCH_H_
#define COXSWAIN_KERNELS_EXPERTS_DISPATCH_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

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

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_DISPATCH_H_
