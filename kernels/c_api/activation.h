// The activation that a caller names.
#ifndef COXSWAIN_KERNELS_C_API_ACTIVATION_H_
#define COXSWAIN_KERNELS_C_API_ACTIVATION_H_

#include <stdexcept>
#include <string>

#include "kernels/c_api/c_api.h"
#include "kernels/products/gated_linear.h"

namespace coxswain::kernels::c_api {

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

}  // namespace coxswain::kernels::c_api

#endif  // COXSWAIN_KERNELS_C_API_ACTIVATION_H_
