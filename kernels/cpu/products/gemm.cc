// C = alpha op(A) op(B) + beta Z + bias on BLAS. With a bias, C is first filled with beta C + bias
// and then accumulated into: one product, no second pass over the result. A Z that is not C is
// added behind the product, with the bits of an add op.
#include "kernels/products/gemm.h"

#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE void ScaleAddBias(float* c, float beta, const float* bias, int64_t n) {
  for (int64_t j = 0; j < n; ++j) c[j] = beta * c[j] + bias[j];
}

void FillWithBias(const GemmArgs& args, float beta) {
  float* c = static_cast<float*>(args.c);
  const float* bias = static_cast<const float*>(args.bias);
  cpu::ParallelFor(args.m, args.n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = c + i * args.ldc;
      if (beta == 0.0f) {
        std::memcpy(row, bias, static_cast<size_t>(args.n) * sizeof(float));
      } else {
        ScaleAddBias(row, beta, bias, args.n);
      }
    }
  });
}

void AddAddend(const GemmArgs& args) {
  float* c = static_cast<float*>(args.c);
  const float* z = static_cast<const float*>(args.addend);
  cpu::ParallelFor(args.m, args.n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      cpu::AddScaled(args.beta, z + i * args.ldc, c + i * args.ldc, args.n);
    }
  });
}

}  // namespace

bool GemmSupports(const GemmSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.output_dtype == DType::kFloat32;
}

int64_t GemmWorkspaceBytes() { return 0; }
void SetGemmTuning(bool on) {}
std::string GemmTable() { return ""; }
std::string TunedGemmTable() { return ""; }
bool LoadGemmTable(const std::string& table) { return false; }

void Gemm(const GemmArgs& args, Stream* stream) {
  cpu::RequireSupported(GemmSupports(args.spec), "Gemm");
  const bool adds = args.beta != 0.0f && args.addend != nullptr && args.addend != args.c;
  const float beta = adds ? 0.0f : args.beta;
  const bool fills = args.bias != nullptr && args.m > 0 && args.n > 0;
  if (fills) FillWithBias(args, beta);
  cpu::Sgemm({.m = args.m,
              .n = args.n,
              .k = args.k,
              .alpha = args.alpha,
              .a = {static_cast<const float*>(args.a), args.lda, args.spec.transpose_a},
              .b = {static_cast<const float*>(args.b), args.ldb, args.spec.transpose_b},
              .beta = fills ? 1.0f : beta,
              .c = static_cast<float*>(args.c),
              .stride_c = args.ldc});
  if (adds) AddAddend(args);
}

}  // namespace coxswain::kernels
