// RMSNorm, alone or behind a residual add, and its gradient.
//   r = 1/sqrt(mean(x^2) + eps);  y = x r (o + w)
//   m = dy (o + w);  dx = r m - x r^3 sum(m x)/H;  dw = sum over rows of dy x r
// Saved for backward: x (the sum) and r. Source: kernels/rms_norm.h.
//
// A row lives in the registers of one warp (up to 128 vectors of 16 bytes) or of one block (up to
// 2,048) and is read once; longer or unaligned rows are walked twice, element by element. Backward
// runs a grid of a few blocks per multiprocessor over all rows: each keeps its part of dw in
// registers and leaves it in the workspace, and a second kernel adds the parts up.
// Bytes moved per element, in units of sizeof(T): forward 2, add and norm 4, backward 4 (3 when dx
// is overwritten); dw adds 8 bytes x columns x blocks. One rounding of y. Bitwise deterministic on
// one model of GPU: the parts depend on the number of multiprocessors.
#include "kernels/rms_norm.h"

#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/partial_sums.cuh"

namespace coxswain::kernels {
namespace {

using cuda::FromFloat;
using cuda::kLoopThreads;
using cuda::kVector;
using cuda::kWarp;
using cuda::ToFloat;
using cuda::Vector;

// Vectors of a row that a thread holds at most.
constexpr int kMostVectors = 4;

template <typename T>
struct ForwardRows {
  int64_t rows, hidden;
  float eps, offset;
  const T *x, *residual, *weight;  // residual and sum null: none to add
  T *sum, *y;
  float* rstd;
};

// x += residual, rounded to T, and stored.
template <class Owner, typename T>
__device__ __forceinline__ void AddResidual(const T* residual, T* sum, int vectors,
                                            uint4 (&x)[Owner::kVectors]) {
  uint4 other[Owner::kVectors];
  cuda::LoadRow<Owner>(residual, vectors, other);
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    Vector<T> a, b;
    a.Unpack(x[i]);
    b.Unpack(other[i]);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) a.value[e] += b.value[e];
    x[i] = a.Pack();
    const int v = Owner::Index(i);
    if (v < vectors) reinterpret_cast<uint4*>(sum)[v] = x[i];
  }
}

template <typename T, class Owner, bool kAdd>
__global__ void __launch_bounds__(Owner::kMaxThreads) RmsNormForwardKernel(ForwardRows<T> args) {
  __shared__ float shared[kWarp];
  const int64_t row = Owner::FirstRow();
  if (Owner::kWarpPerRow && row >= args.rows) return;
  const int64_t at = row * args.hidden;
  const int vectors = static_cast<int>(args.hidden / kVector<T>);
  uint4 x[Owner::kVectors], weight[Owner::kVectors];
  cuda::LoadRow<Owner>(args.x + at, vectors, x);
  if constexpr (kAdd) AddResidual<Owner>(args.residual + at, args.sum + at, vectors, x);
  cuda::LoadWeight<Owner>(args.weight, vectors, weight);
  float squares = 0;
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    Vector<T> a;
    a.Unpack(x[i]);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) squares += a.value[e] * a.value[e];
  }
  const float rstd = cuda::Rstd(Owner::Sum(squares, shared), args.hidden, args.eps);
  if (Owner::Index(0) == 0) args.rstd[row] = rstd;
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    const int v = Owner::Index(i);
    if (v >= vectors) continue;
    Vector<T> a, w;
    a.Unpack(x[i]);
    w.Unpack(weight[i]);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e)
      a.value[e] = a.value[e] * rstd * (args.offset + w.value[e]);
    a.Store(args.y + at + int64_t{v} * kVector<T>);
  }
}

template <typename T, bool kAdd>
__global__ void __launch_bounds__(kLoopThreads) RmsNormLoopedForwardKernel(ForwardRows<T> args) {
  __shared__ float shared[kWarp];
  const int64_t at = int64_t{blockIdx.x} * args.hidden;
  const T* x = args.x + at;
  float squares = 0;
  for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
    float value = ToFloat(x[j]);
    if constexpr (kAdd) {
      const T sum = FromFloat<T>(value + ToFloat(args.residual[at + j]));
      args.sum[at + j] = sum;
      value = ToFloat(sum);
    }
    squares += value * value;
  }
  const float rstd = cuda::Rstd(cuda::BlockSum(squares, shared), args.hidden, args.eps);
  if (threadIdx.x == 0) args.rstd[blockIdx.x] = rstd;
  if constexpr (kAdd) x = args.sum + at;
  for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
    args.y[at + j] = FromFloat<T>(ToFloat(x[j]) * rstd * (args.offset + ToFloat(args.weight[j])));
  }
}

template <typename T>
struct BackwardRows {
  int64_t rows, hidden;
  const T *dy, *x, *weight;
  float offset;
  const float* rstd;
  bool accumulate;
  T* dx;
  float* partials;  // [blocks, hidden]; null: frozen weight
};

template <typename T, class Owner>
__global__ void __launch_bounds__(Owner::kMaxThreads, Owner::kResidentThreads / Owner::kMaxThreads)
    RmsNormBackwardKernel(BackwardRows<T> args) {
  __shared__ float shared[kWarp];
  const int vectors = static_cast<int>(args.hidden / kVector<T>);
  uint4 weight[Owner::kVectors];
  cuda::LoadWeight<Owner>(args.weight, vectors, weight);
  float dweight[Owner::kVectors][kVector<T>] = {};
  for (int64_t row = Owner::FirstRow(); row < args.rows; row += Owner::RowStep()) {
    const int64_t at = row * args.hidden;
    uint4 dy[Owner::kVectors], x[Owner::kVectors], dx[Owner::kVectors] = {};
    cuda::LoadRow<Owner>(args.dy + at, vectors, dy);
    cuda::LoadRow<Owner>(args.x + at, vectors, x);
    if (args.accumulate) cuda::LoadRow<Owner>(args.dx + at, vectors, dx);
    const float rstd = args.rstd[row];
    float along = 0;
#pragma unroll
    for (int i = 0; i < Owner::kVectors; ++i) {
      Vector<T> d, a, w;
      d.Unpack(dy[i]);
      a.Unpack(x[i]);
      w.Unpack(weight[i]);
#pragma unroll
      for (int e = 0; e < kVector<T>; ++e) {
        along += d.value[e] * (args.offset + w.value[e]) * a.value[e];
        dweight[i][e] += d.value[e] * (a.value[e] * rstd);
      }
    }
    along = Owner::Sum(along, shared) / static_cast<float>(args.hidden) * rstd * rstd * rstd;
    cuda::UnpackAgain(dy);
    cuda::UnpackAgain(x);
    cuda::UnpackAgain(weight);
#pragma unroll
    for (int i = 0; i < Owner::kVectors; ++i) {
      const int v = Owner::Index(i);
      if (v >= vectors) continue;
      Vector<T> d, a, w, out;
      d.Unpack(dy[i]);
      a.Unpack(x[i]);
      w.Unpack(weight[i]);
      out.Unpack(dx[i]);
#pragma unroll
      for (int e = 0; e < kVector<T>; ++e) {
        out.value[e] += rstd * (d.value[e] * (args.offset + w.value[e])) - along * a.value[e];
      }
      out.Store(args.dx + at + int64_t{v} * kVector<T>);
    }
  }
  if (args.partials == nullptr) return;
  cuda::StoreBlockSums<Owner, T>(dweight, vectors,
                                 args.partials + int64_t{blockIdx.x} * args.hidden);
}

// Each block has at least one row, which writes its part of dw; later rows add to it.
template <typename T>
__global__ void __launch_bounds__(kLoopThreads) RmsNormLoopedBackwardKernel(BackwardRows<T> args) {
  __shared__ float shared[kWarp];
  float* dweight =
      args.partials == nullptr ? nullptr : args.partials + int64_t{blockIdx.x} * args.hidden;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T *dy = args.dy + row * args.hidden, *x = args.x + row * args.hidden;
    T* dx = args.dx + row * args.hidden;
    const float rstd = args.rstd[row];
    float along = 0;
    for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
      along += ToFloat(dy[j]) * (args.offset + ToFloat(args.weight[j])) * ToFloat(x[j]);
    }
    along = cuda::BlockSum(along, shared) / static_cast<float>(args.hidden) * rstd * rstd * rstd;
    for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
      const float d = ToFloat(dy[j]), a = ToFloat(x[j]);
      if (dweight != nullptr) {
        dweight[j] = (row < gridDim.x ? 0.0f : dweight[j]) + d * (a * rstd);
      }
      const float gradient = rstd * (d * (args.offset + ToFloat(args.weight[j]))) - along * a;
      dx[j] = FromFloat<T>(args.accumulate ? ToFloat(dx[j]) + gradient : gradient);
    }
  }
}

cuda::BackwardGrid PlanBackward(const RmsNormSpec& spec, int64_t rows) {
  return cuda::PlanBackward<kMostVectors>(spec.dtype, spec.hidden, rows);
}

template <typename T, bool kAdd>
void LaunchForward(const ForwardRows<T>& args, cudaStream_t stream) {
  const auto held = [](auto owner) { return RmsNormForwardKernel<T, decltype(owner), kAdd>; };
  cuda::LaunchForwardRows<T, kMostVectors>(args,
                                           {args.x, args.y, args.weight, args.residual, args.sum},
                                           held, RmsNormLoopedForwardKernel<T, kAdd>, stream);
}

template <typename T>
void LaunchBackward(const BackwardRows<T>& args, const cuda::BackwardGrid& grid,
                    cudaStream_t stream) {
  const auto held = [](auto owner) { return RmsNormBackwardKernel<T, decltype(owner)>; };
  cuda::LaunchBackwardRows<T, kMostVectors>(args, {args.dy, args.x, args.weight, args.dx}, grid,
                                            held, RmsNormLoopedBackwardKernel<T>, stream);
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
                              .sum = nullptr,
                              .y = static_cast<T*>(args.y),
                              .rstd = args.rstd};
    LaunchForward<T, false>(rows, cuda::Handle(stream));
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
                              .sum = static_cast<T*>(args.sum),
                              .y = static_cast<T*>(args.y),
                              .rstd = args.rstd};
    LaunchForward<T, true>(rows, cuda::Handle(stream));
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
                               .partials = partials};
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
