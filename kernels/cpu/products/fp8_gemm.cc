// Products in FP8 by the float32 product: operands are decoded into the workspace, multiplied
// there, and one pass over the sums writes C.
// The scales of tensors and rows are applied to the sums. Those of tiles and blocks are multiplied
// onto the codes, which rounds each element once: with u = 2^-24 a sum is off by at most
// (k + 2) u of the sum of the absolute products, by k u for tensors and rows, whose two scales then
// round the result twice. `promote` changes nothing: every sum is in float32.
#include "kernels/products/fp8_gemm.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/quantize/fp8_values.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

struct Operand {
  Fp8Format format;
  Fp8Scaling scaling;
  int64_t outer, k;
  const uint8_t* codes;
  const float* scales;
};

bool InElements(const Operand& operand) {
  return operand.scaling == Fp8Scaling::kTile || operand.scaling == Fp8Scaling::kBlock;
}
// Without k there are no scales.
bool InSums(const Operand& operand) { return !InElements(operand) && operand.k > 0; }

// The scale of the elements of a row in a block of k.
float ScaleInRow(const Operand& operand, int64_t row, int64_t block) {
  if (!InElements(operand)) return 1.0f;
  if (operand.scaling == Fp8Scaling::kTile) {
    return operand.scales[block * Fp8PaddedScales(operand.outer) + row];
  }
  return operand.scales[row / kFp8Block * Fp8PaddedScales(Fp8Blocks(operand.k)) + block];
}

// The scale of the sums of a row.
float ScaleOfRow(const Operand& operand, int64_t row) {
  if (!InSums(operand)) return 1.0f;
  return operand.scales[operand.scaling == Fp8Scaling::kRow ? row : 0];
}

void Decode(const Operand& operand, float* values) {
  const auto& table = operand.format == Fp8Format::kE4M3 ? cpu::kFp8Values<Fp8Format::kE4M3>
                                                         : cpu::kFp8Values<Fp8Format::kE5M2>;
  cpu::ParallelFor(operand.outer, operand.k, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* const codes = operand.codes + row * Fp8Stride(operand.k);
      float* const out = values + row * operand.k;
      for (int64_t first = 0; first < operand.k; first += kFp8Block) {
        const float scale = ScaleInRow(operand, row, first / kFp8Block);
        const int64_t last = std::min(first + kFp8Block, operand.k);
        for (int64_t i = first; i < last; ++i) out[i] = table[codes[i]] * scale;
      }
    }
  });
}

// c = sums s_a s_b + bias + beta z; s_b of a tensor, or by column.
COXSWAIN_VECTORIZE void Scale(const float* sums, float a, const float* b, bool by_column, float* c,
                              int64_t n) {
  for (int64_t j = 0; j < n; ++j) c[j] = sums[j] * a * b[by_column ? j : 0];
}
COXSWAIN_VECTORIZE void ScaleAndAdd(const float* sums, float a, const float* b, bool by_column,
                                    float beta, const float* z, float* c, int64_t n) {
  for (int64_t j = 0; j < n; ++j) c[j] = sums[j] * a * b[by_column ? j : 0] + beta * z[j];
}
COXSWAIN_VECTORIZE void AddBias(const float* bias, float* c, int64_t n) {
  for (int64_t j = 0; j < n; ++j) c[j] += bias[j];
}

void Finish(const Fp8GemmArgs& args, const Operand& a, const Operand& b, const float* sums) {
  const float one = 1.0f;
  const float* const scales = InSums(b) ? b.scales : &one;
  const bool by_column = b.scaling == Fp8Scaling::kRow && InSums(b);
  float* const c = static_cast<float*>(args.c);
  const float* const z = args.addend == nullptr ? c : static_cast<const float*>(args.addend);
  cpu::ParallelFor(args.m, args.n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* const row = sums + i * args.n;
      float* const out = c + i * args.ldc;
      const float scale = ScaleOfRow(a, i);
      if (args.beta == 0.0f) {
        Scale(row, scale, scales, by_column, out, args.n);
      } else {
        ScaleAndAdd(row, scale, scales, by_column, args.beta, z + i * args.ldc, out, args.n);
      }
      if (args.bias != nullptr) AddBias(static_cast<const float*>(args.bias), out, args.n);
    }
  });
}

void Validate(const Fp8GemmArgs& args) {
  cpu::RequireSupported(Fp8GemmSupports(args.spec), "Fp8Gemm");
  cpu::RequireExtent(args.m, "Fp8Gemm", "m");
  cpu::RequireExtent(args.n, "Fp8Gemm", "n");
  cpu::RequireExtent(args.k, "Fp8Gemm", "k");
  if (args.ldc < args.n) {
    throw std::invalid_argument("Fp8Gemm: ldc is " + std::to_string(args.ldc) + ", a row has " +
                                std::to_string(args.n));
  }
  cpu::RequireWorkspace(args.workspace, Fp8GemmWorkspaceBytes(args.spec, args.m, args.n, args.k),
                        "Fp8Gemm");
}

}  // namespace

bool Fp8GemmSupports(const Fp8GemmSpec& spec) {
  return spec.output_dtype == DType::kFloat32 && spec.bias_dtype == DType::kFloat32 &&
         Fp8OperandsFit(spec);
}

int64_t Fp8GemmWorkspaceBytes(const Fp8GemmSpec& spec, int64_t m, int64_t n, int64_t k) {
  return cpu::AlignedFloatBytes(m * k) + cpu::AlignedFloatBytes(n * k) +
         cpu::AlignedFloatBytes(m * n);
}

void Fp8Gemm(const Fp8GemmArgs& args, Stream* stream) {
  Validate(args);
  if (args.m == 0 || args.n == 0) return;
  const Operand a{args.spec.a_format, args.spec.a_scaling, args.m, args.k, args.a, args.a_scales};
  const Operand b{args.spec.b_format, args.spec.b_scaling, args.n, args.k, args.b, args.b_scales};
  char* const scratch = static_cast<char*>(args.workspace.data);
  auto* const a_values = reinterpret_cast<float*>(scratch);
  auto* const b_values =
      reinterpret_cast<float*>(scratch + cpu::AlignedFloatBytes(args.m * args.k));
  auto* const sums = reinterpret_cast<float*>(scratch + cpu::AlignedFloatBytes(args.m * args.k) +
                                              cpu::AlignedFloatBytes(args.n * args.k));
  Decode(a, a_values);
  Decode(b, b_values);
  cpu::Sgemm({.m = args.m,
              .n = args.n,
              .k = args.k,
              .alpha = 1.0f,
              .a = {a_values, args.k},
              .b = {b_values, args.k, true},
              .beta = 0.0f,
              .c = sums,
              .stride_c = args.n});
  Finish(args, a, b, sums);
}

}  // namespace coxswain::kernels
