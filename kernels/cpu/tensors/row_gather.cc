#include "kernels/tensors/row_gather.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"

namespace coxswain::kernels {
bool RowGatherSupports(const RowGatherSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.columns > 0;
}

void GatherRows(const RowGatherArgs& args, Stream* stream) {
  cpu::RequireSupported(RowGatherSupports(args.spec), "RowGather");
  const float* in = static_cast<const float*>(args.in);
  float* out = static_cast<float*>(args.out);
  const int64_t columns = args.spec.columns;
  cpu::ParallelFor(args.rows, columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = out + i * columns;
      if (args.index[i] < 0) {
        std::fill_n(row, columns, 0.0f);
      } else {
        std::memcpy(row, in + args.index[i] * columns,
                    static_cast<size_t>(columns) * sizeof(float));
      }
    }
  });
}

void ScatterAddRows(const RowGatherArgs& args, Stream* stream) {
  cpu::RequireSupported(RowGatherSupports(args.spec), "RowGather");
  const float* in = static_cast<const float*>(args.in);
  float* out = static_cast<float*>(args.out);
  const int64_t columns = args.spec.columns;
  cpu::ParallelFor(args.rows, columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (args.index[i] < 0) continue;
      cpu::AddScaled(1.0f, in + i * columns, out + args.index[i] * columns, columns);
    }
  });
}

}  // namespace coxswain::kernels
