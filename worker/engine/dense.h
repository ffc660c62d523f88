// The three products of a matrix W [out, in]: what every linear and the LM head are made of. A
// product of `scale` has its gradients scaled likewise.
#ifndef COXSWAIN_WORKER_ENGINE_DENSE_H_
#define COXSWAIN_WORKER_ENGINE_DENSE_H_

#include <cstdint>

#include "worker/engine/model.h"
#include "worker/engine/sweep.h"

namespace coxswain::engine {

struct Dense {
  const Tensor* weight = nullptr;  // [out, in]
  int64_t rows = 0;                // of x and y
  int64_t in = 0, out = 0;
  float scale = 1.0f;
  int64_t out_stride = 0;  // elements between rows of y and dy; 0: out
};

// y = scale x W^T + bias, or added to y or to an addend.
struct DenseForwardArgs {
  const void* x = nullptr;     // [rows, in]
  const void* bias = nullptr;  // [out]; null: none
  void* y = nullptr;           // [rows, out]
  bool accumulate = false;
  const void* addend = nullptr;  // [rows, out], what is added to, left as it is; null: y
};
void DenseForward(const Sweep& sweep, const Dense& dense, const DenseForwardArgs& args);

// dx = scale dy W, or added to dx.
struct DenseInputGradientArgs {
  const void* dy = nullptr;  // [rows, out]
  void* dx = nullptr;        // [rows, in]
  bool accumulate = false;
};
void DenseInputGradient(const Sweep& sweep, const Dense& dense, const DenseInputGradientArgs& args);

// dW = scale dy^T x, or added to dW.
struct DenseWeightGradientArgs {
  const void* dy = nullptr;  // [rows, out]
  const void* x = nullptr;   // [rows, in]
  bool accumulate = false;
};
void DenseWeightGradient(const Sweep& sweep, const Dense& dense,
                         const DenseWeightGradientArgs& args);

// Whether the gradient of a weight holds what earlier micro-steps of the step came to: the product
// of this one is added to it.
bool FindsGradient(const Sweep& sweep, const Tensor& weight);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DENSE_H_
