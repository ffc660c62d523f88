// LayerNorm over the last dimension.
//   mu = mean(x);  r = 1/sqrt(mean((x - mu)^2) + eps);  n = (x - mu) r;  y = n w + b
//   m = dy w;  dx = r (m - mean(m) - n mean(m n));  dw = sum over rows of dy n;  db = sum of dy
// The variance is of the differences, never mean(x^2) - mu^2.
// Source: Ba, Kiros and Hinton, "Layer Normalization", 2016; torch.nn.LayerNorm.
#ifndef COXSWAIN_KERNELS_NORMS_LAYER_NORM_H_
#define COXSWAIN_KERNELS_NORMS_LAYER_NORM_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct LayerNormSpec {
  DType dtype = DType::kFloat32;       // activations, weight and bias
  DType grad_dtype = DType::kFloat32;  // dweight, dbias
  int64_t hidden = 0;                  // H
  float eps = 1e-5f;
};
bool LayerNormSupports(const LayerNormSpec& spec);

struct LayerNormForwardArgs {
  LayerNormSpec spec = {};
  int64_t rows = 0;              // T
  const void* x = nullptr;       // [T, H]
  const void* weight = nullptr;  // [H]
  const void* bias = nullptr;    // [H]; null: none
  void* y = nullptr;             // [T, H]; may be x
  float* mean = nullptr;         // [T], saved for backward
  float* rstd = nullptr;         // [T], likewise
};
void LayerNormForward(const LayerNormForwardArgs& args, Stream* stream);

int64_t LayerNormBackwardWorkspaceBytes(const LayerNormSpec& spec, int64_t rows);

struct LayerNormBackwardArgs {
  LayerNormSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;      // [T, H]
  const void* x = nullptr;       // [T, H]
  const void* weight = nullptr;  // [H]
  const float* mean = nullptr;   // [T]
  const float* rstd = nullptr;   // [T]
  bool accumulate_dx = true;     // false: dx is overwritten
  void* dx = nullptr;            // [T, H]; may be dy when overwritten
  void* dweight = nullptr;       // [H], accumulated; null: frozen
  void* dbias = nullptr;         // [H], accumulated; null: frozen or none
  Workspace workspace = {};
};
void LayerNormBackward(const LayerNormBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_NORMS_LAYER_NORM_H_
