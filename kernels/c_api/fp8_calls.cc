// Translates the structs of kernels/c_api/quantized.h into those of the ops: products in FP8.
#include <string>

#include "kernels/c_api/calls.h"
#include "kernels/experts/grouped_fp8_linear.h"
#include "kernels/products/fp8_gemm.h"
#include "kernels/quantize/fp8.h"
#include "kernels/quantize/fp8_turn.h"

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

namespace coxswain::kernels::c_api {
namespace {

Fp8Format FormatOf(int32_t format) {
  if (format != COXSWAIN_E4M3 && format != COXSWAIN_E5M2) {
    throw std::invalid_argument("format is " + std::to_string(format) +
                                ", must be COXSWAIN_E4M3 or COXSWAIN_E5M2");
  }
  return format == COXSWAIN_E4M3 ? Fp8Format::kE4M3 : Fp8Format::kE5M2;
}

Fp8Scaling ScalingOf(int32_t scaling) {
  if (scaling < COXSWAIN_FP8_TENSOR || scaling > COXSWAIN_FP8_BLOCKS) {
    throw std::invalid_argument("scaling is " + std::to_string(scaling) +
                                ", must be of enum coxswain_fp8_scaling, 0 to 3");
  }
  constexpr Fp8Scaling kScalings[] = {Fp8Scaling::kTensor, Fp8Scaling::kRow, Fp8Scaling::kTile,
                                      Fp8Scaling::kBlock};
  return kScalings[scaling];
}

Fp8GemmSpec SpecOf(const coxswain_fp8_gemm_args& args) {
  return {.output_dtype = Type(args.output_dtype),
          .bias_dtype = Type(args.bias_dtype),
          .a_format = FormatOf(args.a_format),
          .b_format = FormatOf(args.b_format),
          .a_scaling = ScalingOf(args.a_scaling),
          .b_scaling = ScalingOf(args.b_scaling),
          .promote = args.promote != 0};
}

GroupedFp8LinearSpec SpecOf(const coxswain_grouped_fp8_linear_args& args) {
  return {.dtype = Type(args.dtype),
          .row_format = FormatOf(args.row_format),
          .experts = args.experts,
          .in_features = args.in_features,
          .out_features = args.out_features};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

extern "C" {

int64_t coxswain_fp8_stride(int64_t k) { return kernels::Fp8Stride(k); }
int64_t coxswain_fp8_scales(int32_t scaling, int64_t outer, int64_t k) {
  return c_api::GuardedBytes(
      [&] { return kernels::Fp8Scales(c_api::ScalingOf(scaling), outer, k); });
}

int64_t coxswain_fp8_quantize_workspace_bytes(const coxswain_fp8_quantize_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::Fp8QuantizeWorkspaceBytes(c_api::ScalingOf(args->scaling), args->rows,
                                              args->cols);
  });
}

int coxswain_fp8_quantize(const coxswain_fp8_quantize_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Fp8Quantize({.dtype = c_api::Type(args->dtype),
                          .format = c_api::FormatOf(args->format),
                          .scaling = c_api::ScalingOf(args->scaling),
                          .rows = args->rows,
                          .cols = args->cols,
                          .x = args->x,
                          .ldx = args->ldx == 0 ? args->cols : args->ldx,
                          .amax = args->amax,
                          .expected = args->expected,
                          .observed = args->observed,
                          .straight = {.codes = args->codes, .scales = args->scales},
                          .turned = {.codes = args->turned_codes, .scales = args->turned_scales},
                          .workspace = c_api::Lent(args->workspace)},
                         c_api::Wrap(stream));
  });
}

int coxswain_fp8_turn(const coxswain_fp8_turn_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Fp8Turn(
        {.rows = args->rows, .cols = args->cols, .codes = args->codes, .turned = args->turned},
        c_api::Wrap(stream));
  });
}

int64_t coxswain_fp8_gemm_workspace_bytes(const coxswain_fp8_gemm_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::Fp8GemmWorkspaceBytes(c_api::SpecOf(*args), args->m, args->n, args->k);
  });
}

int coxswain_fp8_gemm(const coxswain_fp8_gemm_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Fp8Gemm({.spec = c_api::SpecOf(*args),
                      .m = args->m,
                      .n = args->n,
                      .k = args->k,
                      .a = args->a,
                      .a_scales = args->a_scales,
                      .b = args->b,
                      .b_scales = args->b_scales,
                      .beta = args->beta,
                      .c = args->c,
                      .ldc = args->ldc == 0 ? args->n : args->ldc,
                      .bias = args->bias,
                      .workspace = c_api::Lent(args->workspace)},
                     c_api::Wrap(stream));
  });
}

int64_t coxswain_grouped_fp8_linear_workspace_bytes(const coxswain_grouped_fp8_linear_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::GroupedFp8LinearWorkspaceBytes(c_api::SpecOf(*args), args->rows); });
}

int coxswain_grouped_fp8_linear(const coxswain_grouped_fp8_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GroupedFp8Linear({.spec = c_api::SpecOf(*args),
                               .rows = args->rows,
                               .offsets = args->offsets,
                               .x = args->x,
                               .x_scale = args->x_scale,
                               .weight = args->weight,
                               .weight_scales = args->weight_scales,
                               .bias = args->bias,
                               .y = args->y,
                               .workspace = c_api::Lent(args->workspace)},
                              c_api::Wrap(stream));
  });
}

}  // extern "C"
