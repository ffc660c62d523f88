// RMSNorm, alone or behind a residual add, and its gradient: the rows of rms_norm_rows.cuh.
//   r = 1/sqrt(mean(x^2) + eps);  y = x r (o + w)
//   m = dy (o + w);  dx = r m - x r^3 sum(m x)/H;  dw = sum over rows of dy x r
// Saved for backward: x (the sum) and r. Source: kernels/norms/norms.h.
//
// A row lives in the registers of one warp (up to 128 vectors of 16 bytes) or of one block (up to
// 2,048) and is read once; longer or unaligned rows are walked twice, element by element. Backward
// runs a grid of a few blocks per multiprocessor over all rows: each keeps its part of dw in
// registers and leaves it in the workspace, and a second kernel adds the parts up.
// Bytes moved per element, in units of sizeof(T): forward 2, add and norm 4, backward 4 (3 when dx
// is overwritten); dw adds 8 bytes x columns x blocks. One rounding of y. Bitwise deterministic on
// one model of GPU: the parts depend on the number of multiprocessors.
#include "kernels/norms/norms.h"

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/norms/norm_rows.cuh"
#include "kernels/cuda/norms/rms_norm_rows.cuh"
#include "kernels/cuda/partial_sums.cuh"

namespace coxswain::kernels {
namespace {

using cuda::kLoopThreads;
using cuda::Stored;

// Vectors of a row that a thread holds at most.
constexpr int kMostVectors = 4;

// Rows one behind another.
struct Dense {
  __device__ int64_t Activation(int64_t row, int64_t hidden) const { return row * hidden; }
  __device__ int64_t Saved(int64_t row, int64_t hidden) const { return row * hidden; }
  __device__ int64_t Rstd(int64_t row) const { return row; }
};
template <typename T>
using ForwardRows = cuda::RmsForwardRows<T, Dense>;
template <typename T>
using BackwardRows = cuda::RmsBackwardRows<T, Dense>;

template <typename T, class Owner, Stored kStored, bool kAmax>
__global__ void __launch_bounds__(Owner::kMaxThreads) RmsNormForwardKernel(ForwardRows<T> args) {
  cuda::RmsForwardRow<Owner, kStored, kAmax>(args);
}

template <typename T, Stored kStored, bool kAmax>
__global__ void __launch_bounds__(kLoopThreads) RmsNormLoopedForwardKernel(ForwardRows<T> args) {
  cuda::RmsLoopedForwardRow<kStored, kAmax>(args);
}

template <typename T, class Owner, bool kAmax>
__global__ void __launch_bounds__(Owner::kMaxThreads, Owner::kResidentThreads / Owner::kMaxThreads)
    RmsNormBackwardKernel(BackwardRows<T> args, int stages) {
  cuda::LetNextStart();
  cuda::RmsBackwardRow<Owner, kAmax>(args, stages);
}

template <typename T, bool kAmax>
__global__ void __launch_bounds__(kLoopThreads) RmsNormLoopedBackwardKernel(BackwardRows<T> args) {
  cuda::RmsLoopedBackwardRow<kAmax>(args);
}

cuda::BackwardGrid PlanBackward(const RmsNormSpec& spec, int64_t rows) {
  return cuda::PlanBackward<kMostVectors>(spec.dtype, spec.hidden, rows);
}

template <typename T, Stored kStored>
void LaunchForward(const ForwardRows<T>& args, cudaStream_t stream) {
  cuda::ForAmax(args.amax, [&](auto wanted) {
    constexpr bool kAmax = decltype(wanted)::value;
    const auto held = [](auto owner) {
      return RmsNormForwardKernel<T, decltype(owner), kStored, kAmax>;
    };
    cuda::LaunchForwardRows<T, kMostVectors>(
        args, {args.x, args.y, args.weight, args.residual, args.saved}, held,
        RmsNormLoopedForwardKernel<T, kStored, kAmax>, stream);
  });
}

template <typename T>
void LaunchBackward(const BackwardRows<T>& args, const cuda::BackwardGrid& grid,
                    cudaStream_t stream) {
  cuda::ForAmax(args.amax, [&](auto wanted) {
    constexpr bool kAmax = decltype(wanted)::value;
    const auto held = [](auto owner) { return RmsNormBackwardKernel<T, decltype(owner), kAmax>; };
    cuda::LaunchBackwardRows<T, kMostVectors>(args, {args.dy, args.x, args.weight, args.dx}, grid,
                                              held, RmsNormLoopedBackwardKernel<T, kAmax>, stream);
  });
}

}  // namespace

bool RmsNormSupports(const RmsNormSpec& spec) { return spec.hidden > 0; }

void RmsNormForward(const RmsNormForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(RmsNormSupports(args.spec), "RmsNorm");
  cuda::RequireExtent(args.rows, "RmsNorm", "rows");
  if (args.rows == 0) return;
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const ForwardRows<T> rows{.rows = args.rows,
                              .hidden = args.spec.hidden,
                              .eps = args.spec.eps,
                              .offset = args.spec.weight_offset,
                              .x = static_cast<const T*>(args.x),
                              .residual = nullptr,
                              .weight = static_cast<const T*>(args.weight),
                              .saved = nullptr,
                              .y = static_cast<T*>(args.y),
                              .rstd = args.rstd,
                              .layout = {},
                              .amax = args.amax};
    LaunchForward<T, Stored::kNothing>(rows, cuda::Handle(stream));
  });
  cuda::CheckLaunch("RmsNorm");
}

void AddRmsNormForward(const AddRmsNormForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(RmsNormSupports(args.spec), "RmsNorm");
  cuda::RequireExtent(args.rows, "RmsNorm", "rows");
  if (args.rows == 0) return;
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const ForwardRows<T> rows{.rows = args.rows,
                              .hidden = args.spec.hidden,
                              .eps = args.spec.eps,
                              .offset = args.spec.weight_offset,
                              .x = static_cast<const T*>(args.x),
                              .residual = static_cast<const T*>(args.residual),
                              .weight = static_cast<const T*>(args.weight),
                              .saved = static_cast<T*>(args.sum),
                              .y = static_cast<T*>(args.y),
                              .rstd = args.rstd,
                              .layout = {},
                              .amax = args.amax};
    LaunchForward<T, Stored::kSum>(rows, cuda::Handle(stream));
  });
  cuda::CheckLaunch("RmsNorm");
}

int64_t RmsNormBackwardWorkspaceBytes(const RmsNormSpec& spec, int64_t rows) {
  return cuda::AlignUp(PlanBackward(spec, rows).blocks * spec.hidden * 4);
}

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(RmsNormSupports(args.spec), "RmsNorm");
  cuda::RequireExtent(args.rows, "RmsNorm", "rows");
  if (args.rows == 0) return;
  const bool frozen = args.dweight == nullptr;
  if (!frozen) {
    cuda::RequireWorkspace(args.workspace, RmsNormBackwardWorkspaceBytes(args.spec, args.rows),
                           "RmsNorm");
  }
  const cuda::BackwardGrid grid = PlanBackward(args.spec, args.rows);
  float* partials = frozen ? nullptr : static_cast<float*>(args.workspace.data);
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const BackwardRows<T> rows{.rows = args.rows,
                               .hidden = args.spec.hidden,
                               .dy = static_cast<const T*>(args.dy),
                               .x = static_cast<const T*>(args.x),
                               .weight = static_cast<const T*>(args.weight),
                               .offset = args.spec.weight_offset,
                               .rstd = args.rstd,
                               .accumulate = args.accumulate_dx,
                               .dx = static_cast<T*>(args.dx),
                               .partials = partials,
                               .layout = {},
                               .amax = args.amax};
    LaunchBackward(rows, grid, cuda::Handle(stream));
  });
  if (!frozen) {
    cuda::AddPartials({.partials = partials,
                       .count = grid.blocks,
                       .columns = args.spec.hidden,
                       .gradients = 1,
                       .gradient = {args.dweight, nullptr}},
                      args.spec.grad_dtype, cuda::Handle(stream));
  }
  cuda::CheckLaunch("RmsNorm");
}

}  // namespace coxswain::kernels
