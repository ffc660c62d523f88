// Norms of rows: RMSNorm, alone and behind an add, and LayerNorm. `amax`, a float32 on the device,
// is raised to the largest size of the elements stored in the tensor named beside it, as
// activations/gates.h says. Null: not wanted.
#ifndef COXSWAIN_KERNELS_NORMS_NORMS_H_
#define COXSWAIN_KERNELS_NORMS_NORMS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// RMSNorm over the last dimension, alone or behind a residual add.
//   r = 1/sqrt(mean(x^2) + eps);  y = x r (o + w)
//   m = dy (o + w);  dx = r (m - x r^2 sum(m x)/H);  dw = sum over rows of dy x r
// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019; transformers
// LlamaRMSNorm.
struct RmsNormSpec {
  DType dtype = DType::kFloat32;       // activations and weight
  DType grad_dtype = DType::kFloat32;  // dweight
  int64_t hidden = 0;                  // H
  float eps = 1e-6f;
  float weight_offset = 0.0f;  // o: 1 where weights are kept as what they differ from 1
};
bool RmsNormSupports(const RmsNormSpec& spec);

struct RmsNormForwardArgs {
  RmsNormSpec spec = {};
  int64_t rows = 0;              // T
  const void* x = nullptr;       // [T, H]
  const void* weight = nullptr;  // [H]
  void* y = nullptr;             // [T, H]; may be x
  float* rstd = nullptr;         // [T], saved for backward
  float* amax = nullptr;         // of y
};
void RmsNormForward(const RmsNormForwardArgs& args, Stream* stream);

// sum = x + residual, y = RmsNorm(sum). Saved for backward: sum and rstd.
struct AddRmsNormForwardArgs {
  RmsNormSpec spec = {};
  int64_t rows = 0;
  const void* x = nullptr;         // [T, H]
  const void* residual = nullptr;  // [T, H]
  const void* weight = nullptr;    // [H]
  void* sum = nullptr;             // [T, H]; may be x or residual
  void* y = nullptr;               // [T, H]; not sum
  float* rstd = nullptr;           // [T]
  float* amax = nullptr;           // of y
};
void AddRmsNormForward(const AddRmsNormForwardArgs& args, Stream* stream);

int64_t RmsNormBackwardWorkspaceBytes(const RmsNormSpec& spec, int64_t rows);

// Gradient of both forms. `dx` is the gradient of the residual stream: the norm's part is added to
// what flows past it, so that no add kernel is needed.
struct RmsNormBackwardArgs {
  RmsNormSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;      // [T, H]
  const void* x = nullptr;       // [T, H], what was normalised (the sum of AddRmsNormForward)
  const void* weight = nullptr;  // [H]
  const float* rstd = nullptr;   // [T]
  bool accumulate_dx = true;     // false: dx is overwritten (the last norm of the model)
  void* dx = nullptr;            // [T, H]; may be dy when overwritten
  void* dweight = nullptr;       // [H], accumulated; null: frozen weight
  float* amax = nullptr;         // of dx
  Workspace workspace = {};
};
void RmsNormBackward(const RmsNormBackwardArgs& args, Stream* stream);

// LayerNorm over the last dimension.
//   mu = mean(x);  r = 1/sqrt(mean((x - mu)^2) + eps);  n = (x - mu) r;  y = n w + b
//   m = dy w;  dx = r (m - mean(m) - n mean(m n));  dw = sum over rows of dy n;  db = sum of dy
// The variance is of the differences, never mean(x^2) - mu^2.
// Source: Ba, Kiros and Hinton, "Layer Normalization", 2016; torch.nn.LayerNorm.
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
  float* amax = nullptr;         // of y
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
  float* amax = nullptr;         // of dx
  Workspace workspace = {};
};
void LayerNormBackward(const LayerNormBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_NORMS_NORMS_H_
