// Three passes per row while it is in cache: mean, variance of the differences, result. Bytes per
// element: forward 8, backward 12 (16 accumulating). dweight and dbias: blocks of 64 rows summed
// apart in the workspace, then added in block order, so the bits do not depend on threads.
#include "kernels/norms/norms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/amax.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/norms/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE void NormRows(const LayerNormForwardArgs& args, int64_t begin, int64_t end) {
  const int64_t n = args.spec.hidden;
  const float count = static_cast<float>(n);
  const float* weight = static_cast<const float*>(args.weight);
  const float* bias = static_cast<const float*>(args.bias);
  for (int64_t t = begin; t < end; ++t) {
    const float* x = static_cast<const float*>(args.x) + t * n;
    float* y = static_cast<float*>(args.y) + t * n;
    float sums[cpu::kLanes] = {}, squares[cpu::kLanes] = {};
    int64_t i = 0;
    for (; i + cpu::kLanes <= n; i += cpu::kLanes) {
      for (int64_t j = 0; j < cpu::kLanes; ++j) sums[j] += x[i + j];
    }
    for (int64_t j = 0; i + j < n; ++j) sums[j] += x[i + j];
    const float mean = cpu::SumLanes(sums) / count;
    for (i = 0; i + cpu::kLanes <= n; i += cpu::kLanes) {
      for (int64_t j = 0; j < cpu::kLanes; ++j) squares[j] += (x[i + j] - mean) * (x[i + j] - mean);
    }
    for (int64_t j = 0; i + j < n; ++j) squares[j] += (x[i + j] - mean) * (x[i + j] - mean);
    const float rstd = 1.0f / std::sqrt(cpu::SumLanes(squares) / count + args.spec.eps);
    for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - mean) * rstd * weight[j];
    for (int64_t j = 0; bias != nullptr && j < n; ++j) y[j] += bias[j];
    args.mean[t] = mean;
    args.rstd[t] = rstd;
  }
}

// sums [2, H]: of dweight and of dbias; null: both frozen.
template <bool kAccumulate>
COXSWAIN_INLINE void BackwardRow(const LayerNormBackwardArgs& args, int64_t t, float* sums) {
  const int64_t n = args.spec.hidden;
  const float* dy = static_cast<const float*>(args.dy) + t * n;
  const float* x = static_cast<const float*>(args.x) + t * n;
  const float* weight = static_cast<const float*>(args.weight);
  float* dx = static_cast<float*>(args.dx) + t * n;
  const float mean = args.mean[t], rstd = args.rstd[t];
  float sum[cpu::kLanes] = {}, along[cpu::kLanes] = {};
  int64_t i = 0;
  for (; i + cpu::kLanes <= n; i += cpu::kLanes) {
    for (int64_t j = 0; j < cpu::kLanes; ++j) {
      const float m = dy[i + j] * weight[i + j];
      sum[j] += m;
      along[j] += m * ((x[i + j] - mean) * rstd);
    }
  }
  for (int64_t j = 0; i + j < n; ++j) {
    const float m = dy[i + j] * weight[i + j];
    sum[j] += m;
    along[j] += m * ((x[i + j] - mean) * rstd);
  }
  const float mean_m = cpu::SumLanes(sum) / static_cast<float>(n);
  const float mean_mn = cpu::SumLanes(along) / static_cast<float>(n);
  if (sums != nullptr) {
    for (int64_t j = 0; j < n; ++j) sums[j] += dy[j] * ((x[j] - mean) * rstd);
    for (int64_t j = 0; j < n; ++j) sums[n + j] += dy[j];
  }
  for (int64_t j = 0; j < n; ++j) {
    const float normed = (x[j] - mean) * rstd;
    const float gradient = rstd * (dy[j] * weight[j] - mean_m - normed * mean_mn);
    dx[j] = kAccumulate ? dx[j] + gradient : gradient;
  }
}

COXSWAIN_VECTORIZE void BackwardRows(const LayerNormBackwardArgs& args, int64_t begin, int64_t end,
                                     float* sums) {
  for (int64_t t = begin; t < end; ++t) {
    if (args.accumulate_dx) {
      BackwardRow<true>(args, t, sums);
    } else {
      BackwardRow<false>(args, t, sums);
    }
  }
}

int64_t Blocks(int64_t rows) { return (rows + cpu::kNormBlockRows - 1) / cpu::kNormBlockRows; }

}  // namespace

bool LayerNormSupports(const LayerNormSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.grad_dtype == DType::kFloat32 && spec.hidden > 0;
}

void LayerNormForward(const LayerNormForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(LayerNormSupports(args.spec), "LayerNorm");
  const int64_t hidden = args.spec.hidden;
  cpu::ParallelFor(args.rows, 3 * hidden, [&](int64_t begin, int64_t end) {
    NormRows(args, begin, end);
    cpu::RaiseAmax(static_cast<float*>(args.y) + begin * hidden, (end - begin) * hidden, args.amax);
  });
}

int64_t LayerNormBackwardWorkspaceBytes(const LayerNormSpec& spec, int64_t rows) {
  return cpu::AlignedFloatBytes(Blocks(rows) * 2 * spec.hidden);
}

void LayerNormBackward(const LayerNormBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(LayerNormSupports(args.spec), "LayerNorm");
  const int64_t hidden = args.spec.hidden, blocks = Blocks(args.rows);
  const bool frozen = args.dweight == nullptr && args.dbias == nullptr;
  float* partial = static_cast<float*>(args.workspace.data);
  if (!frozen) {
    cpu::RequireWorkspace(args.workspace, LayerNormBackwardWorkspaceBytes(args.spec, args.rows),
                          "LayerNorm");
    std::memset(partial, 0, static_cast<size_t>(blocks * 2 * hidden) * sizeof(float));
  }
  cpu::ParallelFor(blocks, 5 * hidden * cpu::kNormBlockRows, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * cpu::kNormBlockRows;
      const int64_t last = std::min(args.rows, first + cpu::kNormBlockRows);
      BackwardRows(args, first, last, frozen ? nullptr : partial + b * 2 * hidden);
      cpu::RaiseAmax(static_cast<float*>(args.dx) + first * hidden, (last - first) * hidden,
                     args.amax);
    }
  });
  for (int64_t b = 0; !frozen && b < blocks; ++b) {
    const float* sums = partial + b * 2 * hidden;
    if (args.dweight != nullptr) {
      cpu::AddScaled(1.0f, sums, static_cast<float*>(args.dweight), hidden);
    }
    if (args.dbias != nullptr) {
      cpu::AddScaled(1.0f, sums + hidden, static_cast<float*>(args.dbias), hidden);
    }
  }
}

}  // namespace coxswain::kernels
