// C = A B^T + beta Z (+ bias on every row) of operands in FP8 (quantize/fp8.h): each product of
// codes times the two scales. Sums are in float32. Z as in gemm.h; before it is added the product
// may be rounded to the type of C.
// A linear layer y = x W^T + b: a = x, b = W. dx = dy W: a = dy, b = W turned. dW += dy^T x: a = dy
// turned, b = x turned.
#ifndef COXSWAIN_KERNELS_PRODUCTS_FP8_GEMM_H_
#define COXSWAIN_KERNELS_PRODUCTS_FP8_GEMM_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::kernels {

struct Fp8GemmSpec {
  DType output_dtype = DType::kFloat32;  // C and Z
  DType bias_dtype = DType::kFloat32;
  Fp8Format a_format = Fp8Format::kE4M3, b_format = Fp8Format::kE4M3;  // not both kE5M2
  // kTensor or kRow: both alike. kTile with kTile or kBlock.
  Fp8Scaling a_scaling = Fp8Scaling::kTensor, b_scaling = Fp8Scaling::kTensor;
  // Tensor cores that keep fewer bits of a sum than float32 hand it to float32 registers every 128
  // of k; without, they keep it to the end (faster). With kTile they always do.
  bool promote = false;
};
// Whether formats and scalings are a pair that products have.
constexpr bool Fp8OperandsFit(const Fp8GemmSpec& spec) {
  const bool tiles = spec.a_scaling == Fp8Scaling::kTile || spec.b_scaling == Fp8Scaling::kTile;
  const auto of_tiles = [](Fp8Scaling scaling) {
    return scaling == Fp8Scaling::kTile || scaling == Fp8Scaling::kBlock;
  };
  if (spec.a_format == Fp8Format::kE5M2 && spec.b_format == Fp8Format::kE5M2) return false;
  if (tiles) return of_tiles(spec.a_scaling) && of_tiles(spec.b_scaling);
  return spec.a_scaling == spec.b_scaling && spec.a_scaling != Fp8Scaling::kBlock;
}
// Whether this library, and on a GPU its compute capability (8.9 or newer; kTile, kBlock and kRow
// 9.0), has the product. The CPU's C and bias are in float32.
bool Fp8GemmSupports(const Fp8GemmSpec& spec);
// CUDA: n is a multiple of kFp8Alignment, and m of kFp8TileRows where A has tiles or blocks; k is
// any. The CPU takes any.
inline constexpr int64_t kFp8Alignment = 16, kFp8TileRows = 4;
int64_t Fp8GemmWorkspaceBytes(const Fp8GemmSpec& spec, int64_t m, int64_t n, int64_t k);

// An extent of 0 is allowed, as in gemm.h.
struct Fp8GemmArgs {
  Fp8GemmSpec spec = {};
  int64_t m = 0, n = 0, k = 0;
  const uint8_t* a = nullptr;       // [m, Fp8Stride(k)], aligned to 16 bytes
  const float* a_scales = nullptr;  // [Fp8Scales(a_scaling, m, k)], likewise
  const uint8_t* b = nullptr;       // [n, Fp8Stride(k)], likewise
  const float* b_scales = nullptr;  // [Fp8Scales(b_scaling, n, k)], likewise
  float beta = 0.0f;
  void* c = nullptr;  // [m, n] in rows of ldc
  int64_t ldc = 0;
  const void* addend = nullptr;  // Z, in rows of ldc; null: C
  const void* bias = nullptr;    // [n]; null: none
  Workspace workspace = {};
};
void Fp8Gemm(const Fp8GemmArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PRODUCTS_FP8_GEMM_H_
