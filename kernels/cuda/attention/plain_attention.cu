// Attention straight from the formulas of kernels/attention/attention.h, in float32 whatever the
// dtype.
//   forward: softmax kept online (Milakov and Gimelshein, "Online normalizer calculation for
//            softmax", 2018): maximum m, sum l and O are rescaled when m grows; lse = m + log l.
//            A sink is m and l = 1 before the first key
//   backward: P = exp(S - lse), D = rowsum(dO O), dS = P (dO V^T - D), with softcap c times
//             1 - (S / c)^2; dQ_i sums over keys, dK_j and dV_j over the group's heads and rows;
//             those of sinks: sink_gradient.cu
//
// One warp per (row, head): query heads forward and for dQ, kv heads for dK and dV. A lane holds
// the elements lane, lane + 32, ... of a row; one dot product is a warp sum. K and V (or Q and dO)
// come from the cache: (hd + vd) sizeof(T) bytes per visible pair. Deterministic: every sum has one
// warp and a fixed order.
#include "kernels/cuda/attention/plain_attention.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/attention/documents.cuh"
#include "kernels/cuda/attention/sinks.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
struct PlainParams {
  int64_t tokens = 0;
  int heads = 0, kv_heads = 0, dim = 0, value_dim = 0, window = 0, documents = 0;
  float scale = 0, softcap = 0;
  const int32_t* cu_seqlens = nullptr;
  int64_t q_row = 0, k_row = 0, v_row = 0;
  Sinks sinks = {};
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* out = nullptr;
  const T* dout = nullptr;
  const float* lse = nullptr;  // [heads, tokens]
  float* delta = nullptr;      // [heads, tokens]: rowsum(dO O)

  __device__ int group() const { return heads / kv_heads; }
  __device__ int64_t query(int64_t row, int h) const { return row * q_row + h * dim; }
  __device__ int64_t key(int64_t row, int g) const { return row * k_row + g * dim; }
  __device__ int64_t value(int64_t row, int g) const { return row * v_row + g * value_dim; }
  __device__ int64_t o(int64_t row, int h) const { return (row * heads + h) * value_dim; }
};

// A row of up to 32 kPerLane elements, spread over a warp; 0 past its end.
template <int kPerLane>
struct Row {
  float value[kPerLane];

  __device__ __forceinline__ void Zero() {
#pragma unroll
    for (float& x : value) x = 0.0f;
  }
  template <typename T>
  __device__ __forceinline__ void Load(const T* p, int dim) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int at = threadIdx.x % kWarp + i * kWarp;
      value[i] = at < dim ? ToFloat(p[at]) : 0.0f;
    }
  }
  template <typename T>
  __device__ __forceinline__ void Store(T* p, int dim, float scale) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int at = threadIdx.x % kWarp + i * kWarp;
      if (at < dim) p[at] = FromFloat<T>(value[i] * scale);
    }
  }
  __device__ __forceinline__ void Add(float factor, const Row& x) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) value[i] += factor * x.value[i];
  }
  __device__ __forceinline__ float Dot(const Row& x) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sum += value[i] * x.value[i];
    return WarpSum(sum);
  }
};

// The score of a dot product, and its derivative by the scaled dot product.
struct Score {
  float value, slope;
};
__device__ __forceinline__ Score MakeScore(float dot, float scale, float softcap) {
  if (softcap == 0.0f) return {dot * scale, 1.0f};
  const float t = tanhf(dot * scale / softcap);
  return {softcap * t, 1.0f - t * t};
}

// The (row, head) of this warp, of `heads` heads; false past the last.
__device__ __forceinline__ bool WarpRow(int64_t tokens, int heads, int64_t* row, int* head) {
  const int64_t warp = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  *row = warp / heads;
  *head = static_cast<int>(warp % heads);
  return *row < tokens;
}

template <typename T>
__device__ __forceinline__ int64_t FirstKey(const PlainParams<T>& p, int64_t row) {
  const int64_t begin = DocumentOfRow(p.cu_seqlens, p.documents, static_cast<int>(row)).begin;
  return p.window == 0 ? begin : max(begin, row - p.window + 1);
}

template <typename T, int kPerLane>
__global__ void __launch_bounds__(kThreads)
    PlainAttentionForwardKernel(PlainParams<T> p, T* out, float* lse) {
  int64_t row;
  int h;
  if (!WarpRow(p.tokens, p.heads, &row, &h)) return;
  const int g = h / p.group();
  Row<kPerLane> q, k, v, sum;
  q.Load(p.q + p.query(row, h), p.dim);
  sum.Zero();
  float maximum = -INFINITY, total = 0.0f;
  if (p.sinks.any()) {
    maximum = p.sinks.of(h);
    total = 1.0f;
  }
  for (int64_t j = FirstKey(p, row); j <= row; ++j) {
    k.Load(p.k + p.key(j, g), p.dim);
    v.Load(p.v + p.value(j, g), p.value_dim);
    const float s = MakeScore(q.Dot(k), p.scale, p.softcap).value;
    if (s > maximum) {
      const float shrink = expf(maximum - s);
#pragma unroll
      for (float& x : sum.value) x *= shrink;
      total *= shrink;
      maximum = s;
    }
    const float e = expf(s - maximum);
    total += e;
    sum.Add(e, v);
  }
  sum.Store(out + p.o(row, h), p.value_dim, 1.0f / total);
  if (threadIdx.x % kWarp == 0) lse[h * p.tokens + row] = maximum + logf(total);
}

template <typename T, int kPerLane>
__global__ void __launch_bounds__(kThreads)
    PlainAttentionQueryGradientKernel(PlainParams<T> p, T* gradient) {
  int64_t row;
  int h;
  if (!WarpRow(p.tokens, p.heads, &row, &h)) return;
  const int g = h / p.group();
  Row<kPerLane> q, dout, k, v, dq;
  dout.Load(p.dout + p.o(row, h), p.value_dim);
  v.Load(p.out + p.o(row, h), p.value_dim);
  const float delta = dout.Dot(v), lse = p.lse[h * p.tokens + row];
  if (threadIdx.x % kWarp == 0) p.delta[h * p.tokens + row] = delta;
  q.Load(p.q + p.query(row, h), p.dim);
  dq.Zero();
  for (int64_t j = FirstKey(p, row); j <= row; ++j) {
    k.Load(p.k + p.key(j, g), p.dim);
    v.Load(p.v + p.value(j, g), p.value_dim);
    const Score s = MakeScore(q.Dot(k), p.scale, p.softcap);
    dq.Add(expf(s.value - lse) * (dout.Dot(v) - delta) * s.slope, k);
  }
  dq.Store(gradient + p.query(row, h), p.dim, p.scale);
}

// After PlainAttentionQueryGradientKernel, which writes delta.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(kThreads)
    PlainAttentionKeyGradientKernel(PlainParams<T> p, T* k_gradient, T* v_gradient) {
  int64_t row;
  int g;
  if (!WarpRow(p.tokens, p.kv_heads, &row, &g)) return;
  int64_t end = DocumentOfRow(p.cu_seqlens, p.documents, static_cast<int>(row)).end;
  if (p.window != 0) end = min(end, row + p.window);
  Row<kPerLane> k, v, q, dout, dk, dv;
  k.Load(p.k + p.key(row, g), p.dim);
  v.Load(p.v + p.value(row, g), p.value_dim);
  dk.Zero();
  dv.Zero();
  for (int h = g * p.group(); h < (g + 1) * p.group(); ++h) {
    for (int64_t i = row; i < end; ++i) {
      q.Load(p.q + p.query(i, h), p.dim);
      dout.Load(p.dout + p.o(i, h), p.value_dim);
      const Score s = MakeScore(q.Dot(k), p.scale, p.softcap);
      const float probability = expf(s.value - p.lse[h * p.tokens + i]);
      dv.Add(probability, dout);
      dk.Add(probability * (dout.Dot(v) - p.delta[h * p.tokens + i]) * s.slope, q);
    }
  }
  dk.Store(k_gradient + p.key(row, g), p.dim, p.scale);
  dv.Store(v_gradient + p.value(row, g), p.value_dim, 1.0f);
}

template <typename T, typename Args>
PlainParams<T> MakeParams(const Args& args) {
  return {.tokens = args.tokens,
          .heads = static_cast<int>(args.spec.num_heads),
          .kv_heads = static_cast<int>(args.spec.num_kv_heads),
          .dim = static_cast<int>(args.spec.head_dim),
          .value_dim = static_cast<int>(ValueDim(args.spec)),
          .window = static_cast<int>(std::min(args.spec.window, args.tokens)),
          .documents = static_cast<int>(args.documents.count),
          .scale = args.spec.scale,
          .softcap = args.spec.softcap,
          .cu_seqlens = args.documents.cu_seqlens,
          .q_row = QueryRow(args.spec),
          .k_row = KeyRow(args.spec),
          .v_row = ValueRow(args.spec),
          .sinks = MakeSinks(args.spec, args.sinks),
          .q = static_cast<const T*>(args.in.q),
          .k = static_cast<const T*>(args.in.k),
          .v = static_cast<const T*>(args.in.v)};
}

unsigned Blocks(int64_t rows) {
  return static_cast<unsigned>(CeilDiv(rows, int64_t{kThreads / kWarp}));
}

// Calls fn(zero of the element type, elements of a row per lane).
template <typename Fn>
void ForShape(const AttentionSpec& spec, const Fn& fn) {
  const int64_t widest = std::max(spec.head_dim, ValueDim(spec));
  ForDType(spec.dtype, [&](auto zero) {
    if (widest <= 64) {
      fn(zero, std::integral_constant<int, 2>{});
    } else if (widest <= 128) {
      fn(zero, std::integral_constant<int, 4>{});
    } else {
      fn(zero, std::integral_constant<int, kPlainLargestHeadDim / kWarp>{});
    }
  });
}

}  // namespace

int64_t PlainAttentionBackwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens) {
  return static_cast<int64_t>(sizeof(float)) * spec.num_heads * tokens;
}

void PlainAttentionForward(const AttentionForwardArgs& args, Stream* stream) {
  ForShape(args.spec, [&](auto zero, auto per_lane) {
    using T = decltype(zero);
    PlainAttentionForwardKernel<T, per_lane.value>
        <<<Blocks(args.tokens * args.spec.num_heads), kThreads, 0, Handle(stream)>>>(
            MakeParams<T>(args), static_cast<T*>(args.out), args.lse);
  });
  CheckLaunch("AttentionForward");
}

void PlainAttentionBackward(const AttentionBackwardArgs& args, Stream* stream) {
  ForShape(args.spec, [&](auto zero, auto per_lane) {
    using T = decltype(zero);
    PlainParams<T> p = MakeParams<T>(args);
    p.out = static_cast<const T*>(args.out);
    p.dout = static_cast<const T*>(args.dout);
    p.lse = args.lse;
    p.delta = static_cast<float*>(args.workspace.data);
    PlainAttentionQueryGradientKernel<T, per_lane.value>
        <<<Blocks(args.tokens * args.spec.num_heads), kThreads, 0, Handle(stream)>>>(
            p, static_cast<T*>(args.gradients.q));
    PlainAttentionKeyGradientKernel<T, per_lane.value>
        <<<Blocks(args.tokens * args.spec.num_kv_heads), kThreads, 0, Handle(stream)>>>(
            p, static_cast<T*>(args.gradients.k), static_cast<T*>(args.gradients.v));
  });
  CheckLaunch("AttentionBackward");
  LaunchSinkGradient({.tokens = args.tokens,
                      .heads = static_cast<int>(args.spec.num_heads),
                      .lse = args.lse,
                      .delta = static_cast<const float*>(args.workspace.data)},
                     MakeSinks(args.spec, args.sinks), args.sink_gradient, stream);
}

}  // namespace coxswain::kernels::cuda
