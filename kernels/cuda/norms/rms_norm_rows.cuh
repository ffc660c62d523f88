// The bodies of the kernels of RMSNorm over rows, wherever the rows lie: rms_norm.cu, and
// qk_norm_whole.cu. Formulas: kernels/norms/norms.h; which threads have a row: norm_rows.cuh.
//
// A Layout has Activation(row, hidden), where row begins in x and y (backward: dy and dx),
// Saved(row, hidden), where it begins in what is saved, and Rstd(row), the index of its r. kAmax:
// the largest size of y, or of dx, is found.
#ifndef COXSWAIN_KERNELS_CUDA_NORMS_RMS_NORM_ROWS_CUH_
#define COXSWAIN_KERNELS_CUDA_NORMS_RMS_NORM_ROWS_CUH_

#include <cstdint>

#include "kernels/cuda/norms/norm_rows.cuh"
#include "kernels/cuda/stored_amax.cuh"

namespace coxswain::kernels::cuda {

// What a forward writes beside y, to `saved`: nothing, x + residual, which y is the norm of, or x,
// which y may overwrite.
enum class Stored { kNothing, kSum, kInput };

template <typename T, class Layout>
struct RmsForwardRows {
  int64_t rows, hidden;
  float eps, offset;
  const T *x, *residual, *weight;  // residual: of kSum
  T *saved, *y;                    // saved: null for kNothing
  float* rstd;
  Layout layout;
  float* amax = nullptr;  // of y; of kAmax
};

// x += residual, rounded to T, and stored.
template <class Owner, typename T>
__device__ __forceinline__ void AddResidual(const T* residual, T* sum, int vectors,
                                            uint4 (&x)[Owner::kVectors]) {
  uint4 other[Owner::kVectors];
  LoadRow<Owner>(residual, vectors, other);
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

template <class Owner, typename T>
__device__ __forceinline__ void StoreRow(const uint4 (&raw)[Owner::kVectors], int vectors, T* row) {
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    const int v = Owner::Index(i);
    if (v < vectors) reinterpret_cast<uint4*>(row)[v] = raw[i];
  }
}

template <class Owner, Stored kStored, bool kAmax = false, typename T, class Layout>
__device__ __forceinline__ void RmsForwardRow(const RmsForwardRows<T, Layout>& args) {
  __shared__ float shared[kWarp];
  const int64_t row = Owner::FirstRow();
  if (Owner::kWarpPerRow && row >= args.rows) return;
  StoredAmax<T, kAmax> largest(args.amax);
  const int64_t at = args.layout.Activation(row, args.hidden);
  const int64_t saved = args.layout.Saved(row, args.hidden);
  const int vectors = static_cast<int>(args.hidden / kVector<T>);
  uint4 x[Owner::kVectors], weight[Owner::kVectors];
  LoadRow<Owner>(args.x + at, vectors, x);
  if constexpr (kStored == Stored::kSum) {
    AddResidual<Owner>(args.residual + at, args.saved + saved, vectors, x);
  }
  if constexpr (kStored == Stored::kInput) StoreRow<Owner>(x, vectors, args.saved + saved);
  LoadWeight<Owner>(args.weight, vectors, weight);
  float squares = 0;
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    Vector<T> a;
    a.Unpack(x[i]);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) squares += a.value[e] * a.value[e];
  }
  const float rstd = Rstd(Owner::Sum(squares, shared), args.hidden, args.eps);
  if (Owner::Index(0) == 0) args.rstd[args.layout.Rstd(row)] = rstd;
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
    largest.Take(a);
  }
  largest.Raise();
}

// A block of kLoopThreads walks the row. What it stored is what it reads again.
template <Stored kStored, bool kAmax = false, typename T, class Layout>
__device__ __forceinline__ void RmsLoopedForwardRow(const RmsForwardRows<T, Layout>& args) {
  __shared__ float shared[kWarp];
  StoredAmax<T, kAmax> largest(args.amax);
  const int64_t at = args.layout.Activation(blockIdx.x, args.hidden);
  const int64_t saved = args.layout.Saved(blockIdx.x, args.hidden);
  const T* x = args.x + at;
  float squares = 0;
  for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
    float value = ToFloat(x[j]);
    if constexpr (kStored == Stored::kSum) {
      const T sum = FromFloat<T>(value + ToFloat(args.residual[at + j]));
      args.saved[saved + j] = sum;
      value = ToFloat(sum);
    }
    if constexpr (kStored == Stored::kInput) args.saved[saved + j] = x[j];
    squares += value * value;
  }
  const float rstd = Rstd(BlockSum(squares, shared), args.hidden, args.eps);
  if (threadIdx.x == 0) args.rstd[args.layout.Rstd(blockIdx.x)] = rstd;
  if constexpr (kStored != Stored::kNothing) x = args.saved + saved;
  for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
    const T y = FromFloat<T>(ToFloat(x[j]) * rstd * (args.offset + ToFloat(args.weight[j])));
    args.y[at + j] = y;
    largest.Take(y);
  }
  largest.Raise();
}

template <typename T, class Layout>
struct RmsBackwardRows {
  int64_t rows, hidden;
  const T *dy, *x, *weight;
  float offset;
  const float* rstd;
  bool accumulate;
  T* dx;            // may be dy unless accumulated
  float* partials;  // [blocks, hidden]; null: frozen weight
  Layout layout;
  float* amax = nullptr;  // of dx; of kAmax
};

// `stages` of a ring of dy, x and, where it is added to, dx.
template <class Owner, bool kAmax = false, typename T, class Layout>
__device__ __forceinline__ void RmsBackwardRow(const RmsBackwardRows<T, Layout>& args, int stages) {
  extern __shared__ uint4 ring_memory[];
  __shared__ float shared[kWarp];
  StoredAmax<T, kAmax> largest(args.amax);
  const int vectors = static_cast<int>(args.hidden / kVector<T>);
  const RowRing<Owner> ring{ring_memory, stages, args.accumulate ? 3 : 2, vectors};
  uint4 weight[Owner::kVectors];
  LoadWeight<Owner>(args.weight, vectors, weight);
  float dweight[Owner::kVectors][kVector<T>] = {};
  float next_rstd = 0.0f;
  const auto fetch = [&](int64_t row, int stage) {
    const int64_t at = args.layout.Activation(row, args.hidden);
    ring.Fetch(stage, 0, args.dy + at);
    ring.Fetch(stage, 1, args.x + args.layout.Saved(row, args.hidden));
    if (args.accumulate) ring.Fetch(stage, 2, args.dx + at);
  };
  const auto use = [&](int64_t row, int stage) {
    const float rstd = row == Owner::FirstRow() ? args.rstd[args.layout.Rstd(row)] : next_rstd;
    const int64_t next = row + Owner::RowStep();
    if (next < args.rows) next_rstd = args.rstd[args.layout.Rstd(next)];
    float along = 0;
#pragma unroll
    for (int i = 0; i < Owner::kVectors; ++i) {
      Vector<T> d, a, w;
      d.Unpack(ring.Read(stage, 0, i));
      a.Unpack(ring.Read(stage, 1, i));
      w.Unpack(weight[i]);
#pragma unroll
      for (int e = 0; e < kVector<T>; ++e) {
        along += d.value[e] * (args.offset + w.value[e]) * a.value[e];
        dweight[i][e] += d.value[e] * (a.value[e] * rstd);
      }
    }
    along = Owner::Sum(along, shared) / static_cast<float>(args.hidden) * rstd * rstd * rstd;
    UnpackAgain(weight);
    T* dx = args.dx + args.layout.Activation(row, args.hidden);
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
        out.value[e] += rstd * (d.value[e] * (args.offset + w.value[e])) - along * a.value[e];
      }
      out.Store(dx + int64_t{v} * kVector<T>);
      largest.Take(out);
    }
  };
  ring.Walk(args.rows, fetch, use);
  largest.Raise();
  if (args.partials == nullptr) return;
  StoreBlockSums<Owner, T>(dweight, vectors, reinterpret_cast<float*>(ring_memory),
                           args.partials + int64_t{blockIdx.x} * args.hidden);
}

// Each block has at least one row, which writes its part of dw; later rows add to it.
template <bool kAmax = false, typename T, class Layout>
__device__ __forceinline__ void RmsLoopedBackwardRow(const RmsBackwardRows<T, Layout>& args) {
  __shared__ float shared[kWarp];
  StoredAmax<T, kAmax> largest(args.amax);
  float* dweight =
      args.partials == nullptr ? nullptr : args.partials + int64_t{blockIdx.x} * args.hidden;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const int64_t at = args.layout.Activation(row, args.hidden);
    const T *dy = args.dy + at, *x = args.x + args.layout.Saved(row, args.hidden);
    T* dx = args.dx + at;
    const float rstd = args.rstd[args.layout.Rstd(row)];
    float along = 0;
    for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
      along += ToFloat(dy[j]) * (args.offset + ToFloat(args.weight[j])) * ToFloat(x[j]);
    }
    along = BlockSum(along, shared) / static_cast<float>(args.hidden) * rstd * rstd * rstd;
    for (int64_t j = threadIdx.x; j < args.hidden; j += kLoopThreads) {
      const float d = ToFloat(dy[j]), a = ToFloat(x[j]);
      if (dweight != nullptr) {
        dweight[j] = (row < gridDim.x ? 0.0f : dweight[j]) + d * (a * rstd);
      }
      const float gradient = rstd * (d * (args.offset + ToFloat(args.weight[j]))) - along * a;
      dx[j] = FromFloat<T>(args.accumulate ? ToFloat(dx[j]) + gradient : gradient);
      largest.Take(dx[j]);
    }
  }
  largest.Raise();
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_NORMS_RMS_NORM_ROWS_CUH_
