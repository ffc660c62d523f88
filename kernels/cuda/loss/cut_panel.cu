// A panel of logits into the sums of its rows, and into its gradient in its place: the form of
// cut_cross_entropy.h for every GPU and type. A block a row. Bytes per element: the type's, read
// once or read and written. Bitwise deterministic: every sum has an order fixed by the panels.
#include "kernels/cuda/loss/cut_row.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace cuda::cut {
namespace {

using cross_entropy::kThreads;
using cross_entropy::kWarps;

// What is known of a row behind some panels.
struct PanelRow {
  Partial sums;  // 16 bytes
  float target;
  Largest largest;
};
static_assert(sizeof(PanelRow) <= kCutRowBytes);

__device__ __forceinline__ Partial Merge(const Partial& a, const Partial& b) {
  const float reference = fmaxf(a.reference, b.reference);
  return {reference,
          a.exponentials * Exp2(a.reference - reference) +
              b.exponentials * Exp2(b.reference - reference),
          a.logits + b.logits};
}

// In the first warp. `warps` is shared.
__device__ __forceinline__ Largest LargestOfBlock(Largest mine, Largest* warps) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    mine = LargerOf(mine, {__shfl_xor_sync(~0u, mine.logit, offset),
                           __shfl_xor_sync(~0u, mine.column, offset)});
  }
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  if (threadIdx.x >= kWarp) return mine;
  mine = threadIdx.x < kWarps ? warps[threadIdx.x] : NoLogit();
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    mine = LargerOf(mine, {__shfl_xor_sync(~0u, mine.logit, offset),
                           __shfl_xor_sync(~0u, mine.column, offset)});
  }
  return mine;
}

template <typename T, bool kSoftcap>
__global__ void __launch_bounds__(kThreads)
    AddPanelKernel(const RowResults results, PanelRow* rows, const CutPanel panel) {
  __shared__ Partial warps[kWarps];
  __shared__ Largest largest_of_warps[kWarps];
  const int64_t row = blockIdx.x;
  const CrossEntropyArgs& loss = results.loss;
  const T* z = static_cast<const T*>(panel.values) + row * panel.ld;
  const int32_t target = loss.targets[row];
  const cross_entropy::Softcap softcap(loss.spec.softcap);
  Partial sums = cross_entropy::Empty();
  Largest largest = NoLogit();
  for (int64_t v = target == kIgnoreTarget ? panel.columns : threadIdx.x; v < panel.columns;
       v += kThreads) {
    const float logit = ToFloat(z[v]);
    largest = LargerOf(largest, {logit, static_cast<int>(panel.first + v)});
    const float capped[1] = {kSoftcap ? softcap.Of(logit) : logit};
    const float reference = fmaxf(sums.reference, capped[0] * kLog2E);
    sums.exponentials *= Exp2(sums.reference - reference);
    sums.reference = reference;
    cross_entropy::AddLogits<true>(capped, &sums);
  }
  sums = cross_entropy::BlockMerge(sums, warps);
  if (results.hits != nullptr) largest = LargestOfBlock(largest, largest_of_warps);
  if (threadIdx.x != 0) return;
  PanelRow all{sums, 0.0f, largest};
  if (panel.first > 0) {
    all = {Merge(rows[row].sums, sums), rows[row].target, LargerOf(rows[row].largest, largest)};
  }
  if (target >= panel.first && target < panel.first + panel.columns) {
    all.target = cross_entropy::Cap<kSoftcap>(ToFloat(z[target - panel.first]), loss.spec.softcap);
  }
  if (panel.first + panel.columns == loss.spec.vocab) {
    FinishRow(results, row, all.sums, all.target, all.largest);
  } else {
    rows[row] = all;
  }
}

template <typename T, bool kSoftcap>
__global__ void __launch_bounds__(kThreads)
    ReplacePanelKernel(const CrossEntropyArgs loss, const float* statistics, const CutPanel panel) {
  const int64_t row = blockIdx.x;
  T* z = static_cast<T*>(panel.values) + row * panel.ld;
  const int32_t target = loss.targets[row];
  if (target == kIgnoreTarget) {
    for (int64_t v = threadIdx.x; v < panel.columns; v += kThreads) z[v] = FromFloat<T>(0.0f);
    return;
  }
  const cross_entropy::Gradient gradient = GradientOfRow(loss, statistics, row);
  for (int64_t v = threadIdx.x; v < panel.columns; v += kThreads) {
    float dz[1] = {ToFloat(z[v])};
    if (panel.first + v == target) {
      dz[0] = gradient.AtTarget<kSoftcap>(kSoftcap ? gradient.softcap.Of(dz[0]) : dz[0]);
    } else {
      gradient.Apply<kSoftcap>(dz);
    }
    z[v] = FromFloat<T>(dz[0]);
  }
}

template <typename Fn>
void ForKind(const CutCrossEntropySpec& spec, const Fn& fn) {
  ForDType(spec.dtype, [&](auto zero) {
    if (spec.softcap > 0.0f) {
      fn(zero, std::true_type{});
    } else {
      fn(zero, std::false_type{});
    }
  });
}

}  // namespace
}  // namespace cuda::cut

void AddCutPanel(const CutCrossEntropyForwardArgs& args, const CutSpace& space,
                 const CutPanel& panel, Stream* stream) {
  cuda::cut::ForKind(args.spec, [&](auto zero, auto softcap) {
    cuda::cut::AddPanelKernel<decltype(zero), decltype(softcap)::value>
        <<<static_cast<unsigned>(args.rows), cuda::cut::kThreads, 0, cuda::Handle(stream)>>>(
            cuda::cut::ResultsOf(args), static_cast<cuda::cut::PanelRow*>(space.rows), panel);
  });
  cuda::CheckLaunch("CutCrossEntropyForward");
}

void ReplaceCutPanel(const CutCrossEntropyBackwardArgs& args, const CutPanel& panel,
                     Stream* stream) {
  cuda::cut::ForKind(args.spec, [&](auto zero, auto softcap) {
    cuda::cut::ReplacePanelKernel<decltype(zero), decltype(softcap)::value>
        <<<static_cast<unsigned>(args.rows), cuda::cut::kThreads, 0, cuda::Handle(stream)>>>(
            cuda::cut::GradientOf(args), args.statistics, panel);
  });
  cuda::CheckLaunch("CutCrossEntropyBackward");
}

}  // namespace coxswain::kernels
