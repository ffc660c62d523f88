// A frozen linear with low-rank adapters of members that share its input x (q, k, v; gate, up; or
// one alone):
//   h = scale drop(x) A^T;  y = weight_scale x W^T + bias;  y_j += h_j B_j^T
//   g_j = scale dy_j B_j;  dB_j += dy_j^T h_j;  dA += g^T drop(x)
//   dx = weight_scale dy W + undrop(g A)
// The j-th member's y_j is a column slice of the packed output. No N x K temporary is formed.
// Source: Hu et al., "LoRA", 2021; peft lora.Linear.
#ifndef COXSWAIN_KERNELS_LORA_LORA_LINEAR_H_
#define COXSWAIN_KERNELS_LORA_LORA_LINEAR_H_

#include <cstdint>
#include <span>

#include "kernels/activations/dropout.h"
#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// One adapted linear of the pack: where its columns lie, and what launches read and write of it.
struct LoraMember {
  int64_t out_features = 0;         // N_j
  int64_t column_offset = 0;        // of y_j in a row of y
  const void* b = nullptr;          // [N_j, r]
  void* db = nullptr;               // [N_j, r], accumulated by backward
  const void* magnitude = nullptr;  // dora.h: m [N_j]
  void* dmagnitude = nullptr;       // dora.h: [N_j], accumulated by backward
};

struct LoraLinearSpec {
  DType dtype = DType::kFloat32;       // x, y, A, B, h and their gradients but dA, dB
  DType grad_dtype = DType::kFloat32;  // dA, dB
  int64_t in_features = 0;             // K
  int64_t rank = 0;                    // r, of every member
  // g >= 1 of them; they outlive the launch. Supports and WorkspaceBytes read their columns alone.
  std::span<const LoraMember> members = {};
  int64_t ldy = 0;            // columns of the packed y, >= offset_j + N_j
  float scale = 0.0f;         // alpha/r or alpha/sqrt(r)
  float dropout_rate = 0.0f;  // in [0, 1)
  int64_t out_features = 0;   // N, rows of W; 0: ldy
  float weight_scale = 1.0f;

  int64_t stacked_rank() const { return static_cast<int64_t>(members.size()) * rank; }  // g r
  int64_t columns() const { return out_features == 0 ? ldy : out_features; }            // N
};
bool LoraLinearSupports(const LoraLinearSpec& spec);

int64_t LoraLinearForwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows);
int64_t LoraLinearBackwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows);

// CUDA: one launch for y, and one for dx, with the low-rank product as more terms of the sum over k
// (lora_product.h there), or a product for each, by the table of gemm.h: while tuning is on, the
// first launch of each shape times both on its own operands.
struct LoraLinearForwardArgs {
  LoraLinearSpec spec = {};
  DropoutMask mask = {};    // read only when dropout_rate > 0
  int64_t rows = 0;         // T
  const void* x = nullptr;  // [T, K]
  // W [N, K]; null, with accumulate_y and no bias: y has its product already, and gets the
  // adapters' term alone.
  const void* weight = nullptr;
  const void* bias = nullptr;  // [N]; null: none
  const void* a = nullptr;     // [g r, K]: A_0, A_1, ...
  void* h = nullptr;           // [T, g r], saved for backward
  void* y = nullptr;           // [T, N] in rows of ldy
  bool accumulate_y = false;   // false: overwritten
  Workspace workspace = {};
};
void LoraLinearForward(const LoraLinearForwardArgs& args, Stream* stream);

struct LoraLinearBackwardArgs {
  LoraLinearSpec spec = {};
  DropoutMask mask = {};  // that of forward
  int64_t rows = 0;
  const void* x = nullptr;  // [T, K]
  // [N, K]; read only for dx; null, with accumulate_dx: dx gets the adapters' term alone.
  const void* weight = nullptr;
  const void* a = nullptr;     // [g r, K]
  const void* h = nullptr;     // [T, g r]
  const void* dy = nullptr;    // [T, N] in rows of ldy
  void* da = nullptr;          // [g r, K], accumulated
  void* dx = nullptr;          // [T, K]; null: x needs no gradient
  bool accumulate_dx = false;  // false: overwritten
  Workspace workspace = {};
};
void LoraLinearBackward(const LoraLinearBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LORA_LORA_LINEAR_H_
