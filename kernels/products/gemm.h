// C = alpha op(A) op(B) + beta Z (+ bias on every row), Z being C itself, beta 1 then the gradient
// accumulator, or a matrix beside it, the residual that a linear's output is added to.
// A linear layer y = x W^T + b is {transpose_b, a = x, b = W}; dx = dy W has no transpose;
// dW += dy^T x is {transpose_a, a = dy, b = x, beta = 1}.
#ifndef COXSWAIN_KERNELS_PRODUCTS_GEMM_H_
#define COXSWAIN_KERNELS_PRODUCTS_GEMM_H_

#include <cstdint>
#include <string>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct GemmSpec {
  DType dtype = DType::kFloat32;         // A, B, bias
  DType output_dtype = DType::kFloat32;  // C
  bool transpose_a = false;
  bool transpose_b = false;
};
bool GemmSupports(const GemmSpec& spec);

// Scratch that makes every algorithm available; less is allowed and narrows the choice.
int64_t GemmWorkspaceBytes();

// CUDA: while tuning is on, the first launch of each shape times the candidates on its own operands
// (C may be left with any value) and the fastest is used from then on; while it is off, a shape not
// seen before takes the heuristic's first choice. Nothing on the CPU.
void SetGemmTuning(bool on);
// The choices made so far, those of gated_linear.h and lora_linear.h with them, as JSON {"device":
// ..., "library": ..., "gemms": [...], "gated": [...], "lora": [...]}; "" on the CPU. Same table,
// device and library: same bits.
std::string GemmTable();
// Of the shapes launched since tuning was last turned on alone.
std::string TunedGemmTable();
// Makes the choices of a table that GemmTable wrote; shapes in it are not tuned again. Ignores one
// of another device or library and returns false.
bool LoadGemmTable(const std::string& table);

// Row-major. An extent of 0 is allowed: k = 0 leaves beta Z (+ bias). With beta 0, Z is not read.
struct GemmArgs {
  GemmSpec spec = {};
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1.0f;
  const void* a = nullptr;  // [m, k]; [k, m] when transpose_a
  int64_t lda = 0;          // elements between rows of A as stored
  const void* b = nullptr;  // [k, n]; [n, k] when transpose_b
  int64_t ldb = 0;
  float beta = 0.0f;
  void* c = nullptr;  // [m, n], overlaps neither A nor B
  int64_t ldc = 0;
  // Z [m, n] in rows of ldc, of C's type; overlaps C nowhere or is C. null: C.
  const void* addend = nullptr;
  // [n], added to every row; null: none.
  const void* bias = nullptr;
  Workspace workspace = {};  // GEMM scratch of the plan; the CPU library needs none
};
void Gemm(const GemmArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PRODUCTS_GEMM_H_
