// Blocks of 16,384 elements, each summed in double over fixed lanes, then added in table order.
// A float32 square cannot overflow a double: a block whose sum is finite has no non-finite element,
// so elements are only counted where a block's sum is not finite. 4 bytes per element.
#include "kernels/global_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kBlock = kTensorChunk;

COXSWAIN_VECTORIZE double SumSquares(const float* x, int64_t n) {
  double lanes[cpu::kLanes] = {};
  int64_t i = 0;
  for (; i + cpu::kLanes <= n; i += cpu::kLanes) {
    for (int64_t j = 0; j < cpu::kLanes; ++j) {
      const double value = x[i + j];
      lanes[j] += value * value;
    }
  }
  for (int64_t j = 0; i + j < n; ++j) {
    const double value = x[i + j];
    lanes[j] += value * value;
  }
  return cpu::SumLanes(lanes);
}

double CountNonfinite(const float* x, int64_t n) {
  return static_cast<double>(
      std::count_if(x, x + n, [](float value) { return !std::isfinite(value); }));
}

}  // namespace

bool GlobalNormSupports(DType dtype) { return dtype == DType::kFloat32; }

int64_t GlobalNormWorkspaceBytes(int64_t chunks) {
  return chunks * static_cast<int64_t>(sizeof(double));
}

void GlobalNorm(const GlobalNormArgs& args, Stream* stream) {
  cpu::RequireWorkspace(args.workspace, GlobalNormWorkspaceBytes(args.chunks), "GlobalNorm");
  double* partial = static_cast<double*>(args.workspace.data);
  NormSums sums;
  for (int64_t i = 0; i < args.count; ++i) {
    cpu::RequireSupported(GlobalNormSupports(args.tensors[i].dtype), "GlobalNorm");
    const float* data = static_cast<const float*>(args.tensors[i].data);
    const int64_t elements = args.tensors[i].elements, blocks = TensorChunks(elements);
    cpu::ParallelFor(blocks, kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        partial[b] = SumSquares(data + b * kBlock, std::min(kBlock, elements - b * kBlock));
      }
    });
    for (int64_t b = 0; b < blocks; ++b) {
      sums.sum_squares += partial[b];
      if (!std::isfinite(partial[b])) {
        sums.nonfinite +=
            CountNonfinite(data + b * kBlock, std::min(kBlock, elements - b * kBlock));
      }
    }
  }
  *args.sums = sums;
}

void DecideUpdate(const DecideUpdateArgs& args, Stream* stream) {
  const double norm = std::sqrt(args.sums->sum_squares);
  *args.norm = norm;
  args.scalars->skip = std::isfinite(norm) ? 0 : 1;
  args.scalars->clip_factor =
      args.max_norm > 0.0 ? std::min(1.0, args.max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace coxswain::kernels
