// What every function of kernels/c_api/c_api.h does around its op.
#ifndef COXSWAIN_KERNELS_C_API_CALLS_H_
#define COXSWAIN_KERNELS_C_API_CALLS_H_

#include <functional>
#include <stdexcept>
#include <string>

#include "kernels/c_api/c_api.h"
#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/products/gated_linear.h"

namespace coxswain::kernels::c_api {

// The activation that a caller names.

inline GateActivation Activation(int32_t activation) {
  switch (activation) {
    case COXSWAIN_SILU:
      return GateActivation::kSilu;
    case COXSWAIN_GELU_TANH:
      return GateActivation::kGeluTanh;
    case COXSWAIN_GELU:
      return GateActivation::kGelu;
    default:
      throw std::invalid_argument("activation is " + std::to_string(activation) +
                                  ", must be one of coxswain_activation");
  }
}

// What `call` throws becomes a code and coxswain_last_error().
int Guarded(const std::function<void()>& call);

// The bytes that `count` returns; -1 where it throws.
template <typename Count>
int64_t GuardedBytes(const Count& count) {
  int64_t bytes = -1;
  Guarded([&] { bytes = count(); });
  return bytes;
}

// What a caller's stream is to the library; each library defines its own (cuda/caller_stream.cc,
// cpu/caller_stream.cc).
Stream* Wrap(void* handle);

inline DType Type(int32_t dtype) {
  if (dtype != COXSWAIN_FLOAT32 && dtype != COXSWAIN_BFLOAT16) {
    throw std::invalid_argument("dtype is " + std::to_string(dtype) +
                                ", must be COXSWAIN_FLOAT32 or COXSWAIN_BFLOAT16");
  }
  return dtype == COXSWAIN_FLOAT32 ? DType::kFloat32 : DType::kBFloat16;
}

inline Workspace Lent(const coxswain_workspace& workspace) {
  return {.data = workspace.data, .bytes = workspace.bytes};
}

}  // namespace coxswain::kernels::c_api

#endif  // COXSWAIN_KERNELS_C_API_CALLS_H_
