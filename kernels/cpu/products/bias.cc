// Column sums: blocks of 64 rows summed apart, then added in block order. 4 bytes per element.
#include "kernels/products/bias.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kBlockRows = 64;

int64_t Blocks(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

}  // namespace

bool BiasSupports(const BiasSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.grad_dtype == DType::kFloat32;
}

int64_t BiasBackwardWorkspaceBytes(const BiasSpec& spec, int64_t rows, int64_t columns) {
  return cpu::AlignedFloatBytes(Blocks(rows) * columns);
}

void BiasBackward(const BiasBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(BiasSupports(args.spec), "Bias");
  const int64_t n = args.columns, blocks = Blocks(args.rows);
  cpu::RequireWorkspace(args.workspace, BiasBackwardWorkspaceBytes(args.spec, args.rows, n),
                        "Bias");
  const float* dy = static_cast<const float*>(args.dy);
  float* partial = static_cast<float*>(args.workspace.data);
  cpu::ParallelFor(blocks, n * kBlockRows, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float* sum = partial + b * n;
      std::memset(sum, 0, static_cast<size_t>(n) * sizeof(float));
      const int64_t last = std::min(args.rows, (b + 1) * kBlockRows);
      for (int64_t t = b * kBlockRows; t < last; ++t)
        cpu::AddScaled(1.0f, dy + t * args.ldy, sum, n);
    }
  });
  float* dbias = static_cast<float*>(args.dbias);
  for (int64_t b = 0; b < blocks; ++b) cpu::AddScaled(1.0f, partial + b * n, dbias, n);
}

}  // namespace coxswain::kernels
