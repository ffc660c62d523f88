#include "kernels/quantize/int8_rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"

namespace coxswain::kernels {

void Int8QuantizeRows(const Int8QuantizeRowsArgs& args, Stream* stream) {
  cpu::RequireExtent(args.rows, "Int8QuantizeRows", "rows");
  cpu::RequireExtent(args.cols, "Int8QuantizeRows", "cols");
  cpu::ParallelFor(args.rows, args.cols * 2, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* in = args.in + row * args.cols;
      float absmax = 0;
      for (int64_t i = 0; i < args.cols; ++i) absmax = std::max(absmax, std::abs(in[i]));
      args.absmax[row] = absmax;
      const float scale = absmax > 0 ? 127.0f / absmax : 0.0f;
      int8_t* const codes = args.codes + row * args.cols;
      for (int64_t i = 0; i < args.cols; ++i) {
        codes[i] = static_cast<int8_t>(std::nearbyint(in[i] * scale));
      }
    }
  });
}

void Int8DequantizeRows(const Int8DequantizeRowsArgs& args, Stream* stream) {
  cpu::RequireExtent(args.rows, "Int8DequantizeRows", "rows");
  cpu::RequireExtent(args.cols, "Int8DequantizeRows", "cols");
  cpu::RequireSupported(args.dtype == DType::kFloat32, "Int8DequantizeRows");
  cpu::ParallelFor(args.rows, args.cols, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * args.cols; i < end * args.cols; ++i) {
      const float scaled = static_cast<float>(args.codes[i]) * args.absmax[i / args.cols];
      static_cast<float*>(args.out)[i] = scaled * (1.0f / 127.0f);
    }
  });
}

}  // namespace coxswain::kernels
