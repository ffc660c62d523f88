// Weight-decomposed low-rank adapters: every row of W + s B A gets a trained length m_j.
//   n_j = ||W_j + s (B A)_j||_2;  f_j = m_j / n_j
//   u = x W^T + s (x A^T) B^T;  y = u f + bias
//   dm_j += sum over rows t of dy_tj u_tj / n_j;  du = dy f;  n counts as a constant
// The sum W + s B A is never formed: n_j^2 = ||W_j||^2 + 2 s B_j (W A^T)_j + s^2 B_j (A A^T) B_j^T.
// Source: Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024, sections 4.1 and 4.3;
// peft 0.21 lora/dora.py without dropout (with it, peft drops the input of W as well).
//
// Around the calls of a LoRA linear (lora_linear.h), whose packed output this describes too:
//   loading           DoraRowSquares of W, which is frozen
//   each update       DoraFactors of A, B and m as they are now
//   forward           LoraLinearForward without bias: u;  DoraForward: y. u is kept
//   backward          DoraBackward: dy becomes du;  LoraLinearBackward of du
#ifndef COXSWAIN_KERNELS_LORA_DORA_H_
#define COXSWAIN_KERNELS_LORA_DORA_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels {

// dtype: of W, A, B, m, u, y, bias; grad_dtype: of dm. Dropout is not supported.
bool DoraSupports(const LoraLinearSpec& spec);

struct DoraRowSquaresArgs {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;          // N
  int64_t columns = 0;       // K
  const void* w = nullptr;   // [N, K]
  float* squares = nullptr;  // [N], ||W_j||^2
};
void DoraRowSquares(const DoraRowSquaresArgs& args, Stream* stream);

int64_t DoraFactorsWorkspaceBytes(const LoraLinearSpec& spec);

// Columns of the packed output that no member covers get norm 1 and factor 1.
struct DoraFactorsArgs {
  LoraLinearSpec spec = {};
  const void* w = nullptr;         // [ldy, K]
  const float* squares = nullptr;  // [ldy], of DoraRowSquares
  const void* a = nullptr;         // [g r, K]
  float* norm = nullptr;           // n [ldy]
  float* factor = nullptr;         // f [ldy]
  Workspace workspace = {};
};
void DoraFactors(const DoraFactorsArgs& args, Stream* stream);

struct DoraForwardArgs {
  LoraLinearSpec spec = {};
  int64_t rows = 0;               // T
  const void* u = nullptr;        // [T, ldy]
  const float* factor = nullptr;  // [ldy]
  const void* bias = nullptr;     // [ldy]; null: none
  void* y = nullptr;              // [T, ldy]; may be u where the magnitudes are frozen
};
void DoraForward(const DoraForwardArgs& args, Stream* stream);

int64_t DoraBackwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows);

struct DoraBackwardArgs {
  LoraLinearSpec spec = {};
  int64_t rows = 0;
  const void* u = nullptr;        // [T, ldy], as forward read it
  const float* norm = nullptr;    // [ldy]
  const float* factor = nullptr;  // [ldy]
  void* dy = nullptr;             // [T, ldy], overwritten by du; columns of no member stay
  Workspace workspace = {};
};
void DoraBackward(const DoraBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LORA_DORA_H_
