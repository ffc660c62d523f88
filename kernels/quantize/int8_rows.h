// INT8 by rows: q = round(x 127 / absmax of its row), to nearest even; x = q absmax / 127.
// Source: Dettmers et al., "LLM.int8()", 2022; bitsandbytes 0.50, functional.int8_vectorwise_quant
// and int8_vectorwise_dequant.
#ifndef COXSWAIN_KERNELS_QUANTIZE_INT8_ROWS_H_
#define COXSWAIN_KERNELS_QUANTIZE_INT8_ROWS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// Both libraries give the same bits. A row of zeros has codes 0.
struct Int8QuantizeRowsArgs {
  int64_t rows = 0, cols = 0;
  const float* in = nullptr;  // [rows, cols]
  int8_t* codes = nullptr;    // [rows, cols]
  float* absmax = nullptr;    // [rows]
};
void Int8QuantizeRows(const Int8QuantizeRowsArgs& args, Stream* stream);

// code x absmax, then x float32(1/127), each rounded to float32, then to `dtype` to nearest even.
// The CPU writes float32 alone.
struct Int8DequantizeRowsArgs {
  DType dtype = DType::kFloat32;
  int64_t rows = 0, cols = 0;
  const int8_t* codes = nullptr;  // [rows, cols]
  const float* absmax = nullptr;  // [rows]
  void* out = nullptr;            // [rows, cols]
};
void Int8DequantizeRows(const Int8DequantizeRowsArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_INT8_ROWS_H_
