#include "kernels/tensors/split_rows.h"

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"

namespace coxswain::kernels {

bool SplitRowsSupports(const SplitRowsSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.first > 0 && spec.second > 0;
}

void SplitRowsForward(const SplitRowsForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(SplitRowsSupports(args.spec), "SplitRows");
  const int64_t n = args.spec.first, m = args.spec.second;
  cpu::ParallelFor(args.rows, n + m, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = static_cast<const float*>(args.x) + t * (n + m);
      std::copy_n(x, n, static_cast<float*>(args.first) + t * n);
      std::copy_n(x + n, m, static_cast<float*>(args.second) + t * m);
    }
  });
}

void SplitRowsBackward(const SplitRowsBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(SplitRowsSupports(args.spec), "SplitRows");
  const int64_t n = args.spec.first, m = args.spec.second;
  cpu::ParallelFor(args.rows, n + m, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* dx = static_cast<float*>(args.dx) + t * (n + m);
      std::copy_n(static_cast<const float*>(args.dfirst) + t * n, n, dx);
      std::copy_n(static_cast<const float*>(args.dsecond) + t * m, m, dx + n);
    }
  });
}

}  // namespace coxswain::kernels
