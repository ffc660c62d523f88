// One pass per row while it is in cache. Bytes per element: forward 8, add+norm 16, backward 12 (16
// accumulating). dweight: blocks of 64 rows summed apart in the workspace, then added in block
// order, so the bits do not depend on threads.
#include "kernels/norms/norms.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/amax.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/norms/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE void NormRows(const float* x, const float* weight, const RmsNormSpec& spec,
                                 float* y, float* rstd, int64_t rows) {
  const int64_t hidden = spec.hidden;
  for (int64_t t = 0; t < rows; ++t) {
    rstd[t] =
        cpu::NormRow(x + t * hidden, weight, spec.weight_offset, spec.eps, y + t * hidden, hidden);
  }
}

struct AddNormRowsArgs {
  const float *x, *residual, *weight;
  float offset, eps;
  float *sum, *y, *rstd;
};

COXSWAIN_VECTORIZE void AddNormRows(const AddNormRowsArgs& args, int64_t begin, int64_t end,
                                    int64_t hidden) {
  for (int64_t t = begin; t < end; ++t) {
    const float* x = args.x + t * hidden;
    const float* residual = args.residual + t * hidden;
    float* sum = args.sum + t * hidden;
    for (int64_t j = 0; j < hidden; ++j) sum[j] = x[j] + residual[j];
    args.rstd[t] =
        cpu::NormRow(sum, args.weight, args.offset, args.eps, args.y + t * hidden, hidden);
  }
}

COXSWAIN_VECTORIZE void BackwardRows(const RmsNormBackwardArgs& args, int64_t begin, int64_t end,
                                     float* dweight) {
  const int64_t hidden = args.spec.hidden;
  const float* dy = static_cast<const float*>(args.dy);
  const float* x = static_cast<const float*>(args.x);
  const float* weight = static_cast<const float*>(args.weight);
  float* dx = static_cast<float*>(args.dx);
  for (int64_t t = begin; t < end; ++t) {
    const int64_t at = t * hidden;
    if (args.accumulate_dx) {
      cpu::NormRowBackward<true>(dy + at, x + at, weight, args.spec.weight_offset, args.rstd[t],
                                 dx + at, dweight, hidden);
    } else {
      cpu::NormRowBackward<false>(dy + at, x + at, weight, args.spec.weight_offset, args.rstd[t],
                                  dx + at, dweight, hidden);
    }
  }
}

int64_t Blocks(int64_t rows) { return (rows + cpu::kNormBlockRows - 1) / cpu::kNormBlockRows; }

}  // namespace

bool RmsNormSupports(const RmsNormSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.grad_dtype == DType::kFloat32 && spec.hidden > 0;
}

void RmsNormForward(const RmsNormForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(RmsNormSupports(args.spec), "RmsNorm");
  const int64_t hidden = args.spec.hidden;
  const float* x = static_cast<const float*>(args.x);
  const float* weight = static_cast<const float*>(args.weight);
  float* y = static_cast<float*>(args.y);
  cpu::ParallelFor(args.rows, 2 * hidden, [&](int64_t begin, int64_t end) {
    NormRows(x + begin * hidden, weight, args.spec, y + begin * hidden, args.rstd + begin,
             end - begin);
    cpu::RaiseAmax(y + begin * hidden, (end - begin) * hidden, args.amax);
  });
}

void AddRmsNormForward(const AddRmsNormForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(RmsNormSupports(args.spec), "RmsNorm");
  const AddNormRowsArgs rows{.x = static_cast<const float*>(args.x),
                             .residual = static_cast<const float*>(args.residual),
                             .weight = static_cast<const float*>(args.weight),
                             .offset = args.spec.weight_offset,
                             .eps = args.spec.eps,
                             .sum = static_cast<float*>(args.sum),
                             .y = static_cast<float*>(args.y),
                             .rstd = args.rstd};
  cpu::ParallelFor(args.rows, 3 * args.spec.hidden, [&](int64_t begin, int64_t end) {
    AddNormRows(rows, begin, end, args.spec.hidden);
    cpu::RaiseAmax(rows.y + begin * args.spec.hidden, (end - begin) * args.spec.hidden, args.amax);
  });
}

int64_t RmsNormBackwardWorkspaceBytes(const RmsNormSpec& spec, int64_t rows) {
  return cpu::AlignedFloatBytes(Blocks(rows) * spec.hidden);
}

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(RmsNormSupports(args.spec), "RmsNorm");
  const int64_t hidden = args.spec.hidden, blocks = Blocks(args.rows);
  float* dweight = static_cast<float*>(args.dweight);
  float* partial = static_cast<float*>(args.workspace.data);
  if (dweight != nullptr) {
    cpu::RequireWorkspace(args.workspace, RmsNormBackwardWorkspaceBytes(args.spec, args.rows),
                          "RmsNorm");
    std::memset(partial, 0, static_cast<size_t>(blocks * hidden) * sizeof(float));
  }
  cpu::ParallelFor(blocks, 4 * hidden * cpu::kNormBlockRows, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * cpu::kNormBlockRows;
      const int64_t last = std::min(args.rows, first + cpu::kNormBlockRows);
      BackwardRows(args, first, last, dweight != nullptr ? partial + b * hidden : nullptr);
      cpu::RaiseAmax(static_cast<float*>(args.dx) + first * hidden, (last - first) * hidden,
                     args.amax);
    }
  });
  if (dweight == nullptr) return;
  for (int64_t b = 0; b < blocks; ++b) cpu::AddScaled(1.0f, partial + b * hidden, dweight, hidden);
}

}  // namespace coxswain::kernels
