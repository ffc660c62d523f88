// Blocks of 16,384 elements, each summed in double over fixed lanes, then added in table order.
// A float32 square cannot overflow a double: a block whose sum is finite has no non-finite element,
// so elements are only counted where a block's sum is not finite. 4 bytes per element.
#include "kernels/optimizer/global_norm.h"

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

NormSums ChunkSums(const float* x, int64_t n) {
  const double squares = SumSquares(x, n);
  return {squares, std::isfinite(squares) ? 0.0 : CountNonfinite(x, n)};
}

void Add(const NormSums& chunk, NormSums* sums) {
  sums->sum_squares += chunk.sum_squares;
  sums->nonfinite += chunk.nonfinite;
}

}  // namespace

bool GlobalNormSupports(DType dtype) { return dtype == DType::kFloat32; }

int64_t GlobalNormWorkspaceBytes(int64_t chunks) {
  return chunks * static_cast<int64_t>(sizeof(NormSums));
}

void GlobalNorm(const GlobalNormArgs& args, Stream* stream) {
  cpu::RequireWorkspace(args.workspace, GlobalNormWorkspaceBytes(args.chunks), "GlobalNorm");
  NormSums* partial = static_cast<NormSums*>(args.workspace.data);
  NormSums sums;
  for (int64_t i = 0; i < args.count; ++i) {
    cpu::RequireSupported(GlobalNormSupports(args.tensors[i].dtype), "GlobalNorm");
    const float* data = static_cast<const float*>(args.tensors[i].data);
    const int64_t elements = args.tensors[i].elements, blocks = TensorChunks(elements);
    cpu::ParallelFor(blocks, kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        partial[b] = ChunkSums(data + b * kBlock, std::min(kBlock, elements - b * kBlock));
      }
    });
    for (int64_t b = 0; b < blocks; ++b) Add(partial[b], &sums);
    partial += blocks;
  }
  *args.sums = sums;
}

void TensorNorms(const TensorNormsArgs& args, Stream* stream) {
  cpu::RequireExtent(args.count, "TensorNorms", "count");
  const NormSums* chunk = args.chunk_sums;
  for (int64_t i = 0; i < args.count; ++i) {
    args.sums[i] = {};
    const NormSums* end = chunk + TensorChunks(args.tensors[i].elements);
    for (; chunk < end; ++chunk) Add(*chunk, &args.sums[i]);
  }
}

void DecideUpdate(const DecideUpdateArgs& args, Stream* stream) {
  const double norm = std::sqrt(args.sums->sum_squares);
  *args.norm = norm;
  args.scalars->skip = std::isfinite(norm) ? 0 : 1;
  args.scalars->clip_factor =
      args.max_norm > 0.0 ? std::min(1.0, args.max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace coxswain::kernels
