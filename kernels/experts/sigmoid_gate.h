// Rows that a gate of their own scales, added to what is there: the shared experts of a mixture.
//   y[t] += s_t x[t], s_t = 1 / (1 + exp(-l_t)), l_t the logit of row t
//   dx[t] = s_t dy[t];  dl_t = s_t (1 - s_t) (dy[t] . x[t])
// Source: transformers Qwen2MoeSparseMoeBlock.
#ifndef COXSWAIN_KERNELS_EXPERTS_SIGMOID_GATE_H_
#define COXSWAIN_KERNELS_EXPERTS_SIGMOID_GATE_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

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

#endif  // COXSWAIN_KERNELS_EXPERTS_SIGMOID_GATE_H_
