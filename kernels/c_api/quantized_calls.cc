// Translates the structs of kernels/c_api/c_api.h into those of the ops: quantised weights.
#include "kernels/c_api/calls.h"
#include "kernels/quantize/fp8_blocks.h"
#include "kernels/quantize/int8_rows.h"
#include "kernels/quantize/mxfp4.h"
#include "kernels/quantize/nf4.h"
#include "kernels/quantize/quantized_formats.h"

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

static_assert(COXSWAIN_NF4_BLOCK == kernels::kNf4Block &&
              COXSWAIN_NF4_SCALE_GROUP == kernels::kNf4ScaleGroup);
static_assert(COXSWAIN_MXFP4_BLOCK == kernels::kMxfp4Block &&
              COXSWAIN_FP8_BLOCK == kernels::kFp8Block);

int coxswain_nf4_quantize(const coxswain_nf4_quantize_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Nf4Quantize(
        {.elements = args->elements, .in = args->in, .codes = args->codes, .absmax = args->absmax},
        c_api::Wrap(stream));
  });
}

int coxswain_nf4_quantize_scales(const coxswain_nf4_quantize_scales_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Nf4QuantizeScales({.blocks = args->blocks,
                                .absmax = args->absmax,
                                .codes = args->codes,
                                .constants = args->constants},
                               c_api::Wrap(stream));
  });
}

int coxswain_nf4_dequantize(const coxswain_nf4_dequantize_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Nf4Dequantize({.dtype = c_api::Type(args->dtype),
                            .elements = args->elements,
                            .codes = args->codes,
                            .absmax = args->absmax,
                            .absmax_codes = args->absmax_codes,
                            .constants = args->constants,
                            .out = args->out},
                           c_api::Wrap(stream));
  });
}

int coxswain_int8_quantize_rows(const coxswain_int8_quantize_rows_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Int8QuantizeRows({.rows = args->rows,
                               .cols = args->cols,
                               .in = args->in,
                               .codes = args->codes,
                               .absmax = args->absmax},
                              c_api::Wrap(stream));
  });
}

int coxswain_int8_dequantize_rows(const coxswain_int8_dequantize_rows_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Int8DequantizeRows({.dtype = c_api::Type(args->dtype),
                                 .rows = args->rows,
                                 .cols = args->cols,
                                 .codes = args->codes,
                                 .absmax = args->absmax,
                                 .out = args->out},
                                c_api::Wrap(stream));
  });
}

int coxswain_mxfp4_quantize(const coxswain_mxfp4_quantize_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Mxfp4Quantize(
        {.elements = args->elements, .in = args->in, .codes = args->codes, .scales = args->scales},
        c_api::Wrap(stream));
  });
}

int coxswain_mxfp4_dequantize(const coxswain_mxfp4_dequantize_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Mxfp4Dequantize({.dtype = c_api::Type(args->dtype),
                              .elements = args->elements,
                              .codes = args->codes,
                              .scales = args->scales,
                              .out = args->out},
                             c_api::Wrap(stream));
  });
}

int coxswain_fp8_blocks_dequantize(const coxswain_fp8_blocks_dequantize_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Fp8BlocksDequantize({.dtype = c_api::Type(args->dtype),
                                  .rows = args->rows,
                                  .cols = args->cols,
                                  .first_row = args->first_row,
                                  .codes = args->codes,
                                  .scales = args->scales,
                                  .out = args->out},
                                 c_api::Wrap(stream));
  });
}

}  // extern "C"
