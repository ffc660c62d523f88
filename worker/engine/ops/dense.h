// The three products of a matrix W [out, in], of which every linear and the LM head are made.
// `scale` multiplies the output and all gradients.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_DENSE_H_
#define COXSWAIN_WORKER_ENGINE_OPS_DENSE_H_

#include <cstdint>

#include "worker/engine/memory/model.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

struct Dense {
  const Tensor* weight = nullptr;  // [out, in]
  int64_t rows = 0;                // rows of x and y
  int64_t in = 0, out = 0;
  float scale = 1.0f;
  int64_t out_stride = 0;  // elements between rows of y and dy; 0: out
};

// y = scale x W^T + bias, or the same added to y or to an addend.
struct DenseForwardArgs {
  const void* x = nullptr;     // [rows, in]
  const void* bias = nullptr;  // [out]; null: none
  void* y = nullptr;           // [rows, out]
  bool accumulate = false;
  const void* addend = nullptr;  // [rows, out], added to the product and left unchanged; null: y
};
void DenseForward(const Sweep& sweep, const Dense& dense, const DenseForwardArgs& args);

// dx = scale dy W, or the same added to dx.
struct DenseInputGradientArgs {
  const void* dy = nullptr;  // [rows, out]
  void* dx = nullptr;        // [rows, in]
  bool accumulate = false;
};
void DenseInputGradient(const Sweep& sweep, const Dense& dense, const DenseInputGradientArgs& args);

// dW = scale dy^T x, or the same added to dW.
struct DenseWeightGradientArgs {
  const void* dy = nullptr;  // [rows, out]
  const void* x = nullptr;   // [rows, in]
  bool accumulate = false;
  int64_t part = 0;  // of the products that add to dW in a micro-step
};
void DenseWeightGradient(const Sweep& sweep, const Dense& dense,
                         const DenseWeightGradientArgs& args);

// True when the gradient of `weight` holds the sum of earlier micro-steps of the step, so that this
// micro-step adds its product.
bool FindsGradient(const Sweep& sweep, const Tensor& weight);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_DENSE_H_
