/* Of kernels/c_api/c_api.h: nf4.h, int8_rows.h, mxfp4.h, fp8_blocks.h, fp8.h and
 * grouped_fp8_linear.h. */
#ifndef COXSWAIN_KERNELS_C_API_QUANTIZED_H_
#define COXSWAIN_KERNELS_C_API_QUANTIZED_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements with one absmax, and absmax with one constant of double quantisation. */
enum { COXSWAIN_NF4_BLOCK = 64, COXSWAIN_NF4_SCALE_GROUP = 256 };

typedef struct {
  int64_t elements;
  const float* in; /* [elements] */
  uint8_t* codes;  /* [ceil(elements / 2)], two codes a byte */
  float* absmax;   /* [ceil(elements / COXSWAIN_NF4_BLOCK)] */
} coxswain_nf4_quantize_args;
int coxswain_nf4_quantize(const coxswain_nf4_quantize_args* args, void* stream);

typedef struct {
  int64_t blocks;
  const float* absmax; /* [blocks] */
  uint8_t* codes;      /* [blocks] */
  float* constants;    /* [1 + ceil(blocks / COXSWAIN_NF4_SCALE_GROUP)] */
} coxswain_nf4_quantize_scales_args;
int coxswain_nf4_quantize_scales(const coxswain_nf4_quantize_scales_args* args, void* stream);

typedef struct {
  int32_t dtype; /* of out */
  int64_t elements;
  const uint8_t* codes;        /* [ceil(elements / 2)], aligned to 4 bytes */
  const float* absmax;         /* of coxswain_nf4_quantize; null: doubly quantised */
  const uint8_t* absmax_codes; /* codes of coxswain_nf4_quantize_scales, where absmax is null */
  const float* constants;      /* likewise */
  void* out;                   /* [elements] */
} coxswain_nf4_dequantize_args;
int coxswain_nf4_dequantize(const coxswain_nf4_dequantize_args* args, void* stream);

typedef struct {
  int64_t rows, cols;
  const float* in; /* [rows, cols] */
  int8_t* codes;   /* [rows, cols] */
  float* absmax;   /* [rows] */
} coxswain_int8_quantize_rows_args;
int coxswain_int8_quantize_rows(const coxswain_int8_quantize_rows_args* args, void* stream);

typedef struct {
  int32_t dtype; /* of out */
  int64_t rows, cols;
  const int8_t* codes; /* [rows, cols] */
  const float* absmax; /* [rows] */
  void* out;           /* [rows, cols] */
} coxswain_int8_dequantize_rows_args;
int coxswain_int8_dequantize_rows(const coxswain_int8_dequantize_rows_args* args, void* stream);

/* Elements with one scale, and rows and columns with one scale. */
enum { COXSWAIN_MXFP4_BLOCK = 32, COXSWAIN_FP8_BLOCK = 128 };

typedef struct {
  int64_t elements; /* a multiple of COXSWAIN_MXFP4_BLOCK */
  const float* in;  /* [elements] */
  uint8_t* codes;   /* [elements / 2], two codes a byte, the first in the low nibble */
  uint8_t* scales;  /* [elements / COXSWAIN_MXFP4_BLOCK] */
} coxswain_mxfp4_quantize_args;
int coxswain_mxfp4_quantize(const coxswain_mxfp4_quantize_args* args, void* stream);

typedef struct {
  int32_t dtype;         /* of out */
  int64_t elements;      /* a multiple of COXSWAIN_MXFP4_BLOCK */
  const uint8_t* codes;  /* [elements / 2], aligned to 4 bytes */
  const uint8_t* scales; /* [elements / COXSWAIN_MXFP4_BLOCK] */
  void* out;             /* [elements] */
} coxswain_mxfp4_dequantize_args;
int coxswain_mxfp4_dequantize(const coxswain_mxfp4_dequantize_args* args, void* stream);

typedef struct {
  int32_t dtype; /* of out */
  int64_t rows, cols;
  int64_t first_row;    /* of the matrix that scales is of: the row that comes first here */
  const uint8_t* codes; /* [rows, cols] */
  const float* scales;  /* [ceil(rows of the matrix / COXSWAIN_FP8_BLOCK), ceil(cols / the same)] */
  void* out;            /* [rows, cols] */
} coxswain_fp8_blocks_dequantize_args;
int coxswain_fp8_blocks_dequantize(const coxswain_fp8_blocks_dequantize_args* args, void* stream);

/* Operands of products in FP8. */
enum coxswain_fp8_format { COXSWAIN_E4M3 = 0, COXSWAIN_E5M2 = 1 };
/* What shares a scale in [outer, k]: all, a row, 128 along k of a row, 128 x 128. */
enum coxswain_fp8_scaling {
  COXSWAIN_FP8_TENSOR = 0,
  COXSWAIN_FP8_ROW = 1,
  COXSWAIN_FP8_TILES = 2,
  COXSWAIN_FP8_BLOCKS = 3
};
/* Bytes of a row of codes, and floats of scales, of an operand [outer, k]; -1: no such scaling. */
int64_t coxswain_fp8_stride(int64_t k);
int64_t coxswain_fp8_scales(int32_t scaling, int64_t outer, int64_t k);

typedef struct {
  int32_t dtype; /* of x */
  int32_t format, scaling;
  int64_t rows, cols;
  int64_t ldx;           /* elements between rows of x; 0: cols */
  const void* x;         /* [rows, cols] */
  const float* amax;     /* COXSWAIN_FP8_TENSOR: of x, on the device; null: found here */
  const float* expected; /* instead, one that may be 0: then amax is found here; null: none */
  float* observed;       /* COXSWAIN_FP8_TENSOR: raised to the amax of x; null: not wanted */
  uint8_t* codes;        /* [rows, coxswain_fp8_stride(cols)]; null: not wanted */
  float* scales;         /* [coxswain_fp8_scales(scaling, rows, cols)] */
  uint8_t* turned_codes; /* [cols, coxswain_fp8_stride(rows)]; null: not wanted */
  float* turned_scales;  /* [coxswain_fp8_scales(scaling, cols, rows)] */
  coxswain_workspace workspace;
} coxswain_fp8_quantize_args;
int64_t coxswain_fp8_quantize_workspace_bytes(const coxswain_fp8_quantize_args* args);
int coxswain_fp8_quantize(const coxswain_fp8_quantize_args* args, void* stream);

/* Codes turned, each byte as it is; the stride of the turned ones is filled with 0. */
typedef struct {
  int64_t rows, cols;
  const uint8_t* codes; /* [rows, cols] */
  uint8_t* turned;      /* [cols, coxswain_fp8_stride(rows)], aligned to 16 bytes; not codes */
} coxswain_fp8_turn_args;
int coxswain_fp8_turn(const coxswain_fp8_turn_args* args, void* stream);

/* c = a b^T + beta c (+ bias). */
typedef struct {
  int32_t output_dtype, bias_dtype;
  int32_t a_format, b_format, a_scaling, b_scaling;
  int32_t promote; /* sums leave the tensor cores every 128 of k */
  int64_t m, n, k; /* n a multiple of 16 */
  float beta;
  const uint8_t *a, *b; /* codes [m, coxswain_fp8_stride(k)], [n, the same] */
  const float *a_scales, *b_scales;
  const void* bias; /* [n]; null: none */
  void* c;          /* [m, n] in rows of ldc; 0: n */
  int64_t ldc;
  coxswain_workspace workspace;
} coxswain_fp8_gemm_args;
int64_t coxswain_fp8_gemm_workspace_bytes(const coxswain_fp8_gemm_args* args);
int coxswain_fp8_gemm(const coxswain_fp8_gemm_args* args, void* stream);

/* grouped_fp8_linear.h: y = x W_e^T (+ bias_e) over the rows of each expert. */
typedef struct {
  int32_t dtype;      /* of bias and y */
  int32_t row_format; /* of x; weights are COXSWAIN_E4M3 */
  int64_t rows, experts, in_features, out_features;
  const int32_t* offsets;     /* [experts + 1] */
  const uint8_t* x;           /* codes [rows, coxswain_fp8_stride(in_features)] */
  const float* x_scale;       /* one */
  const uint8_t* weight;      /* codes [experts, out_features, the same] */
  const float* weight_scales; /* [experts] */
  const void* bias;           /* [experts, out_features]; null: none */
  void* y;                    /* [rows, out_features] */
  coxswain_workspace workspace;
} coxswain_grouped_fp8_linear_args;
int64_t coxswain_grouped_fp8_linear_workspace_bytes(const coxswain_grouped_fp8_linear_args* args);
int coxswain_grouped_fp8_linear(const coxswain_grouped_fp8_linear_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_QUANTIZED_H_ */
