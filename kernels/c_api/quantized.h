/* Of kernels/c_api/c_api.h: nf4.h, int8_rows.h, mxfp4.h and fp8_blocks.h. */
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

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_QUANTIZED_H_ */
