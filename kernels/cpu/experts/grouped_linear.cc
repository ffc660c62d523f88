// One product by gemm.h per expert that has rows. The offsets are in host memory here.
#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/experts/grouped_gated_linear.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/plain_grouped_gated_linear.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels {
namespace {

// Rows that belong to no expert, of `columns` elements.
template <typename Args>
void ZeroRowsBehind(const Args& args, int64_t columns, void* out) {
  if (!args.zeros_behind) return;
  float* values = static_cast<float*>(out);
  std::fill(values + args.offsets[args.spec.experts] * columns, values + args.rows * columns, 0.0f);
}

template <typename Args>
void Require(const Args& args) {
  cpu::RequireSupported(GroupedLinearSupports(args.spec), "GroupedLinear");
  cpu::RequireExtent(args.rows, "GroupedLinear", "rows");
  cpu::RequireSegments(args.offsets, args.spec.experts, args.rows, "GroupedLinear");
}

const float* Part(const void* data, int64_t elements) {
  return data == nullptr ? nullptr : static_cast<const float*>(data) + elements;
}

void AddBiasGradients(const GroupedLinearWeightGradientArgs& args) {
  const int64_t n = args.spec.out_features;
  cpu::ParallelFor(args.spec.experts, args.rows / args.spec.experts * n,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t e = begin; e < end; ++e) {
                       float* db = static_cast<float*>(args.dbias) + e * n;
                       if (!args.accumulate) std::fill_n(db, n, 0.0f);
                       for (int64_t i = args.offsets[e]; i < args.offsets[e + 1]; ++i) {
                         cpu::AddScaled(1.0f, Part(args.dy, i * n), db, n);
                       }
                     }
                   });
}

}  // namespace

bool GroupedLinearSupports(const GroupedLinearSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.grad_dtype == DType::kFloat32 && spec.experts > 0 &&
         spec.in_features > 0 && spec.out_features > 0;
}

void GroupedLinearForward(const GroupedLinearForwardArgs& args, Stream* stream) {
  Require(args);
  const int64_t k = args.spec.in_features, n = args.spec.out_features;
  for (int64_t e = 0; e < args.spec.experts; ++e) {
    const int64_t first = args.offsets[e], count = args.offsets[e + 1] - first;
    if (count == 0) continue;
    Gemm({.spec = {.transpose_b = true},
          .m = count,
          .n = n,
          .k = k,
          .a = Part(args.x, first * k),
          .lda = k,
          .b = Part(args.weight, e * n * k),
          .ldb = k,
          .c = static_cast<float*>(args.y) + first * n,
          .ldc = n,
          .bias = Part(args.bias, e * n),
          .workspace = {}},
         stream);
  }
  ZeroRowsBehind(args, n, args.y);
}

void GroupedLinearInputGradient(const GroupedLinearInputGradientArgs& args, Stream* stream) {
  Require(args);
  const int64_t k = args.spec.in_features, n = args.spec.out_features;
  for (int64_t e = 0; e < args.spec.experts; ++e) {
    const int64_t first = args.offsets[e], count = args.offsets[e + 1] - first;
    if (count == 0) continue;
    Gemm({.spec = {},
          .m = count,
          .n = k,
          .k = n,
          .a = Part(args.dy, first * n),
          .lda = n,
          .b = Part(args.weight, e * n * k),
          .ldb = k,
          .c = static_cast<float*>(args.dx) + first * k,
          .ldc = k,
          .workspace = {}},
         stream);
  }
  ZeroRowsBehind(args, k, args.dx);
}

void GroupedLinearWeightGradient(const GroupedLinearWeightGradientArgs& args, Stream* stream) {
  Require(args);
  const int64_t k = args.spec.in_features, n = args.spec.out_features;
  for (int64_t e = 0; args.dweight != nullptr && e < args.spec.experts; ++e) {
    const int64_t first = args.offsets[e], count = args.offsets[e + 1] - first;
    float* dweight = static_cast<float*>(args.dweight) + e * n * k;
    if (count == 0) {
      if (!args.accumulate) std::fill_n(dweight, n * k, 0.0f);
      continue;
    }
    Gemm({.spec = {.transpose_a = true},
          .m = n,
          .n = k,
          .k = count,
          .a = Part(args.dy, first * n),
          .lda = n,
          .b = Part(args.x, first * k),
          .ldb = k,
          .beta = args.accumulate ? 1.0f : 0.0f,
          .c = dweight,
          .ldc = k,
          .workspace = {}},
         stream);
  }
  if (args.dbias != nullptr) AddBiasGradients(args);
}

bool GroupedGatedLinearSupports(const GroupedGatedLinearSpec& spec) {
  return PlainGroupedGatedLinearSupports(spec);
}

void GroupedGatedLinearForward(const GroupedGatedLinearForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GroupedGatedLinearSupports(args.spec), "GroupedGatedLinear");
  PlainGroupedGatedLinearForward(args, stream);
}

}  // namespace coxswain::kernels
