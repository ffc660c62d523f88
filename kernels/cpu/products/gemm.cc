// C = alpha op(A) op(B) + beta Z + bias on BLAS. With a bias, C is first filled with beta C + bias
// and then accumulated into: one product, no second pass over the result. A Z that is not C is
// added behind the product, with the bits of an add op.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/products/bias.h"
#include "kernels/products/gated_linear.h"
#include "kernels/products/gemm.h"
#include "kernels/products/plain_products.h"
#include "kernels/products/rotated_linear.h"

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

// Column sums: blocks of 64 rows summed apart, then added in block order. 4 bytes per element.

namespace {

constexpr int64_t kBlockRows = 64;

int64_t Blocks(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

}  // namespace

bool BiasSupports(const BiasSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.grad_dtype == DType::kFloat32;
}

int64_t BiasBackwardWorkspaceBytes(const BiasSpec& spec, int64_t rows, int64_t columns) {
  return cpu::AlignedFloatBytes(Blocks(rows) * columns);
}

void BiasBackward(const BiasBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(BiasSupports(args.spec), "Bias");
  const int64_t n = args.columns, blocks = Blocks(args.rows);
  cpu::RequireWorkspace(args.workspace, BiasBackwardWorkspaceBytes(args.spec, args.rows, n),
                        "Bias");
  const float* dy = static_cast<const float*>(args.dy);
  float* partial = static_cast<float*>(args.workspace.data);
  cpu::ParallelFor(blocks, n * kBlockRows, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float* sum = partial + b * n;
      std::memset(sum, 0, static_cast<size_t>(n) * sizeof(float));
      const int64_t last = std::min(args.rows, (b + 1) * kBlockRows);
      for (int64_t t = b * kBlockRows; t < last; ++t)
        cpu::AddScaled(1.0f, dy + t * args.ldy, sum, n);
    }
  });
  float* dbias = static_cast<float*>(args.dbias);
  for (int64_t b = 0; b < blocks; ++b) cpu::AddScaled(1.0f, partial + b * n, dbias, n);
}

bool GatedLinearSupports(const GatedLinearSpec& spec) { return PlainGatedLinearSupports(spec); }

void GatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GatedLinearSupports(args.spec), "GatedLinear");
  PlainGatedLinearForward(args, stream);
}

void GatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GatedLinearSupports(args.spec), "GatedLinear");
  PlainGatedLinearBackward(args, stream);
}

bool RotatedLinearSupports(const RotatedLinearSpec& spec) {
  return PlainRotatedLinearSupports(spec);
}

void RotatedLinearForward(const RotatedLinearArgs& args, Stream* stream) {
  cpu::RequireSupported(RotatedLinearSupports({args.rope.spec, args.in_features}), "RotatedLinear");
  PlainRotatedLinearForward(args, stream);
}

}  // namespace coxswain::kernels
