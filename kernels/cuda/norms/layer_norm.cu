// LayerNorm and its gradient.
//   mu = mean(x);  r = 1/sqrt(mean((x - mu)^2) + eps);  n = (x - mu) r;  y = n w + b
//   m = dy w;  dx = r (m - mean(m) - n mean(m n));  dw = sum over rows of dy n;  db = sum of dy
// Saved for backward: x, mu and r. Source: kernels/norms/norms.h.
//
// A row lives in the registers of one warp or one block, as in rms_norm.cu; longer or unaligned
// rows are walked element by element. Backward keeps the parts of dw and db in registers, a second
// kernel adds them up. Bytes moved per element, in units of sizeof(T): forward 2, backward 4 (3
// when dx is overwritten). One rounding of y. Bitwise deterministic on one model of GPU.
#include "kernels/norms/norms.h"

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/norms/norm_rows.cuh"
#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/stored_amax.cuh"

namespace coxswain::kernels {
namespace {

using cuda::FromFloat;
using cuda::kLoopThreads;
using cuda::kVector;
using cuda::kWarp;
using cuda::StoredAmax;
using cuda::ToFloat;
using cuda::Vector;

// Vectors of a row that a thread holds at most; backward holds two sums per element.
constexpr int kMostForward = 4, kMostBackward = 4;

template <typename T>
struct ForwardRows {
  int64_t rows, hidden;
  float eps;
  const T *x, *weight, *bias;  // bias null: none
  T* y;
  float *mean, *rstd;
  float* amax;  // of y; of kAmax
};

template <typename T, class Owner, bool kAmax>
__global__ void __launch_bounds__(Owner::kMaxThreads) LayerNormForwardKernel(ForwardRows<T> args) {
  __shared__ float shared[kWarp];
  const int64_t row = Owner::FirstRow();
  if (Owner::kWarpPerRow && row >= args.rows) return;
  StoredAmax<T, kAmax> largest(args.amax);
  const int64_t at = row * args.hidden;
  const int vectors = static_cast<int>(args.hidden / kVector<T>);
  uint4 x[Owner::kVectors], weight[Owner::kVectors], bias[Owner::kVectors] = {};
  cuda::LoadRow<Owner>(args.x + at, vectors, x);
  cuda::LoadWeight<Owner>(args.weight, vectors, weight);
  if (args.bias != nullptr) cuda::LoadWeight<Owner>(args.bias, vectors, bias);
  float sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    Vector<T> a;
    a.Unpack(x[i]);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) sum += a.value[e];
  }
  const float mean = Owner::Sum(sum, shared) / static_cast<float>(args.hidden);
  cuda::UnpackAgain(x);
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    if (Owner::Index(i) >= vectors) continue;
    Vector<T> a;
    a.Unpack(x[i]);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) squares += (a.value[e] - mean) * (a.value[e] - mean);
  }
  const float rstd = cuda::Rstd(Owner::Sum(squares, shared), args.hidden, args.eps);
  if (Owner::Index(0) == 0) {
    args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
  cuda::UnpackAgain(x);
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    const int v = Owner::Index(i);
    if (v >= vectors) continue;
    Vector<T> a, w, b;
    a.Unpack(x[i]);
    w.Unpack(weight[i]);
    b.Unpack(bias[i]);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) {
      a.value[e] = (a.value[e] - mean) * rstd * w.value[e] + b.value[e];
    }
    a.Store(args.y + at + int64_t{v} * kVector<T>);
    largest.Take(a);
  }
  largest.Raise();
}

template <typename T, bool kAmax>
__global__ void __launch_bounds__(kLoopThreads) LayerNormLoopedForwardKernel(ForwardRows<T> args) {
  __shared__ float shared[kWarp];
  StoredAmax<T, kAmax> largest(args.amax);
  const int64_t at = int64_t{blockIdx.x} * args.hidden;
  float sum = 0, squares = 0;
  for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) sum += ToFloat(args.x[at + j]);
  const float mean = cuda::BlockSum(sum, shared) / static_cast<float>(args.hidden);
  for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
    const float difference = ToFloat(args.x[at + j]) - mean;
    squares += difference * difference;
  }
  const float rstd = cuda::Rstd(cuda::BlockSum(squares, shared), args.hidden, args.eps);
  if (threadIdx.x == 0) {
    args.mean[blockIdx.x] = mean;
    args.rstd[blockIdx.x] = rstd;
  }
  for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
    const float bias = args.bias == nullptr ? 0.0f : ToFloat(args.bias[j]);
    const T y =
        FromFloat<T>((ToFloat(args.x[at + j]) - mean) * rstd * ToFloat(args.weight[j]) + bias);
    args.y[at + j] = y;
    largest.Take(y);
  }
  largest.Raise();
}

template <typename T>
struct BackwardRows {
  int64_t rows, hidden;
  const T *dy, *x, *weight;
  const float *mean, *rstd;
  bool accumulate;
  T* dx;
  float* partials;  // [blocks, 2, hidden]: of dw and of db; null: both frozen
  float* amax;      // of dx; of kAmax
};

template <typename T, class Owner, bool kAmax>
__global__ void __launch_bounds__(Owner::kMaxThreads, Owner::kResidentThreads / Owner::kMaxThreads)
    LayerNormBackwardKernel(BackwardRows<T> args, int stages) {
  cuda::LetNextStart();
  extern __shared__ uint4 ring_memory[];
  __shared__ float shared[kWarp];
  StoredAmax<T, kAmax> largest(args.amax);
  const int vectors = static_cast<int>(args.hidden / kVector<T>);
  const float count = static_cast<float>(args.hidden);
  const cuda::RowRing<Owner> ring{ring_memory, stages, args.accumulate ? 3 : 2, vectors};
  uint4 weight[Owner::kVectors];
  cuda::LoadWeight<Owner>(args.weight, vectors, weight);
  float dweight[Owner::kVectors][kVector<T>] = {}, dbias[Owner::kVectors][kVector<T>] = {};
  float next_mean = 0.0f, next_rstd = 0.0f;
  const auto fetch = [&](int64_t row, int stage) {
    const int64_t at = row * args.hidden;
    ring.Fetch(stage, 0, args.dy + at);
    ring.Fetch(stage, 1, args.x + at);
    if (args.accumulate) ring.Fetch(stage, 2, args.dx + at);
  };
  const auto use = [&](int64_t row, int stage) {
    const bool first = row == Owner::FirstRow();
    const float mean = first ? args.mean[row] : next_mean;
    const float rstd = first ? args.rstd[row] : next_rstd;
    if (const int64_t next = row + Owner::RowStep(); next < args.rows) {
      next_mean = args.mean[next];
      next_rstd = args.rstd[next];
    }
    float sum = 0, along = 0;
#pragma unroll
    for (int i = 0; i < Owner::kVectors; ++i) {  // past the end of the row dy is 0
      Vector<T> d, a, w;
      d.Unpack(ring.Read(stage, 0, i));
      a.Unpack(ring.Read(stage, 1, i));
      w.Unpack(weight[i]);
#pragma unroll
      for (int e = 0; e < kVector<T>; ++e) {
        const float n = (a.value[e] - mean) * rstd, m = d.value[e] * w.value[e];
        sum += m;
        along += m * n;
        dweight[i][e] += d.value[e] * n;
        dbias[i][e] += d.value[e];
      }
    }
    sum = Owner::Sum(sum, shared) / count;
    along = Owner::Sum(along, shared) / count;
    cuda::UnpackAgain(weight);
#pragma unroll
    for (int i = 0; i < Owner::kVectors; ++i) {
      const int v = Owner::Index(i);
      if (v >= vectors) continue;
      Vector<T> d, a, w, out = {};
      d.Unpack(ring.Read(stage, 0, i));
      a.Unpack(ring.Read(stage, 1, i));
      w.Unpack(weight[i]);
      if (args.accumulate) out.Unpack(ring.Read(stage, 2, i));
#pragma unroll
      for (int e = 0; e < kVector<T>; ++e) {
        const float n = (a.value[e] - mean) * rstd;
        out.value[e] += rstd * (d.value[e] * w.value[e] - sum - n * along);
      }
      out.Store(args.dx + row * args.hidden + int64_t{v} * kVector<T>);
      largest.Take(out);
    }
  };
  ring.Walk(args.rows, fetch, use);
  largest.Raise();
  if (args.partials == nullptr) return;
  float* out = args.partials + int64_t{blockIdx.x} * 2 * args.hidden;
  float* sums = reinterpret_cast<float*>(ring_memory);
  cuda::StoreBlockSums<Owner, T>(dweight, vectors, sums, out);
  cuda::StoreBlockSums<Owner, T>(dbias, vectors, sums, out + args.hidden);
}

// Each block has at least one row, which writes its part of dw and db; later rows add to it.
template <typename T, bool kAmax>
__global__ void __launch_bounds__(kLoopThreads)
    LayerNormLoopedBackwardKernel(BackwardRows<T> args) {
  __shared__ float shared[kWarp];
  StoredAmax<T, kAmax> largest(args.amax);
  const float count = static_cast<float>(args.hidden);
  float* dweight =
      args.partials == nullptr ? nullptr : args.partials + int64_t{blockIdx.x} * 2 * args.hidden;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T *dy = args.dy + row * args.hidden, *x = args.x + row * args.hidden;
    T* dx = args.dx + row * args.hidden;
    const float mean = args.mean[row], rstd = args.rstd[row];
    float sum = 0, along = 0;
    for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
      const float m = ToFloat(dy[j]) * ToFloat(args.weight[j]);
      sum += m;
      along += m * ((ToFloat(x[j]) - mean) * rstd);
    }
    sum = cuda::BlockSum(sum, shared) / count;
    along = cuda::BlockSum(along, shared) / count;
    for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
      const float d = ToFloat(dy[j]), n = (ToFloat(x[j]) - mean) * rstd;
      if (dweight != nullptr) {
        const bool first = row < gridDim.x;
        float* dbias = dweight + args.hidden;
        dweight[j] = (first ? 0.0f : dweight[j]) + d * n;
        dbias[j] = (first ? 0.0f : dbias[j]) + d;
      }
      const float gradient = rstd * (d * ToFloat(args.weight[j]) - sum - n * along);
      dx[j] = FromFloat<T>(args.accumulate ? ToFloat(dx[j]) + gradient : gradient);
      largest.Take(dx[j]);
    }
  }
  largest.Raise();
}

cuda::BackwardGrid PlanBackward(const LayerNormSpec& spec, int64_t rows) {
  return cuda::PlanBackward<kMostBackward>(spec.dtype, spec.hidden, rows);
}

template <typename T>
void LaunchForward(const ForwardRows<T>& args, cudaStream_t stream) {
  cuda::ForAmax(args.amax, [&](auto wanted) {
    constexpr bool kAmax = decltype(wanted)::value;
    const auto held = [](auto owner) { return LayerNormForwardKernel<T, decltype(owner), kAmax>; };
    cuda::LaunchForwardRows<T, kMostForward>(args, {args.x, args.y, args.weight, args.bias}, held,
                                             LayerNormLoopedForwardKernel<T, kAmax>, stream);
  });
}

template <typename T>
void LaunchBackward(const BackwardRows<T>& args, const cuda::BackwardGrid& grid,
                    cudaStream_t stream) {
  cuda::ForAmax(args.amax, [&](auto wanted) {
    constexpr bool kAmax = decltype(wanted)::value;
    const auto held = [](auto owner) { return LayerNormBackwardKernel<T, decltype(owner), kAmax>; };
    cuda::LaunchBackwardRows<T, kMostBackward>(args, {args.dy, args.x, args.weight, args.dx}, grid,
                                               held, LayerNormLoopedBackwardKernel<T, kAmax>,
                                               stream);
  });
}

}  // namespace

bool LayerNormSupports(const LayerNormSpec& spec) { return spec.hidden > 0; }

void LayerNormForward(const LayerNormForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(LayerNormSupports(args.spec), "LayerNorm");
  cuda::RequireExtent(args.rows, "LayerNorm", "rows");
  if (args.rows == 0) return;
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const ForwardRows<T> rows{.rows = args.rows,
                              .hidden = args.spec.hidden,
                              .eps = args.spec.eps,
                              .x = static_cast<const T*>(args.x),
                              .weight = static_cast<const T*>(args.weight),
                              .bias = static_cast<const T*>(args.bias),
                              .y = static_cast<T*>(args.y),
                              .mean = args.mean,
                              .rstd = args.rstd,
                              .amax = args.amax};
    LaunchForward(rows, cuda::Handle(stream));
  });
  cuda::CheckLaunch("LayerNorm");
}

int64_t LayerNormBackwardWorkspaceBytes(const LayerNormSpec& spec, int64_t rows) {
  return cuda::AlignUp(PlanBackward(spec, rows).blocks * 2 * spec.hidden * 4);
}

void LayerNormBackward(const LayerNormBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(LayerNormSupports(args.spec), "LayerNorm");
  cuda::RequireExtent(args.rows, "LayerNorm", "rows");
  if (args.rows == 0) return;
  const bool frozen = args.dweight == nullptr && args.dbias == nullptr;
  if (!frozen) {
    cuda::RequireWorkspace(args.workspace, LayerNormBackwardWorkspaceBytes(args.spec, args.rows),
                           "LayerNorm");
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
                               .mean = args.mean,
                               .rstd = args.rstd,
                               .accumulate = args.accumulate_dx,
                               .dx = static_cast<T*>(args.dx),
                               .partials = partials,
                               .amax = args.amax};
    LaunchBackward(rows, grid, cuda::Handle(stream));
  });
  if (!frozen) {
    cuda::AddPartials({.partials = partials,
                       .count = grid.blocks,
                       .columns = args.spec.hidden,
                       .gradients = 2,
                       .gradient = {args.dweight, args.dbias}},
                      args.spec.grad_dtype, cuda::Handle(stream));
  }
  cuda::CheckLaunch("LayerNorm");
}

}  // namespace coxswain::kernels
