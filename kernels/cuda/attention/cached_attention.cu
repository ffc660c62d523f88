// Keys in parts of kPartKeys positions; one warp per (row, query head, part), so that one sequence
// fills the GPU. A lane takes the whole dot product of one key, then the warp adds up P V with a
// lane for every 32nd element of a row. Each part leaves its maximum m, sum l = sum exp(S - m) and
// unnormalised O; a warp per (row, head) joins them:
//   M = max m_i;  O = sum exp(m_i - M) O_i / sum exp(m_i - M) l_i
// A sink joins as a part of m = sink, l = 1 and O = 0.
// Parts that a row does not see end at once: lengths lie in device memory, and one captured graph
// serves every step. All in float32; (hd + vd) sizeof(T) bytes per visible key and head, of which a
// group shares what the cache holds. Every sum has one warp and a fixed order: bitwise
// deterministic.
#include "kernels/attention/cached_attention.h"

#include <algorithm>

#include "kernels/attention/attention_contract.h"
#include "kernels/cuda/attention/sinks.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

using cuda::kWarp;

constexpr int kThreads = 128, kWarps = kThreads / kWarp;
constexpr int kPartKeys = 64;
constexpr int kMostHeadDim = 256, kPerLane = kMostHeadDim / kWarp;

template <typename T>
struct Params {
  int64_t rows = 0, length = 0;
  int heads = 0, kv_heads = 0, dim = 0, value_dim = 0, window = 0, parts = 0;
  float scale = 0, softcap = 0;
  cuda::Sinks sinks = {};
  const int32_t* sequences = nullptr;
  const int32_t* positions = nullptr;
  const T* qkv = nullptr;
  T* keys = nullptr;
  T* values = nullptr;
  T* out = nullptr;
  float* partial = nullptr;  // [rows, heads, parts, value_dim + 2]: O, m, l

  __device__ __forceinline__ int64_t row_width() const {
    return int64_t{heads + kv_heads} * dim + int64_t{kv_heads} * value_dim;
  }
  __device__ __forceinline__ int first_key(int position) const {
    return window == 0 ? 0 : max(0, position + 1 - window);
  }
  // Of a kv head, in heads of the cache.
  __device__ __forceinline__ int64_t place(int64_t sequence, int64_t position, int g) const {
    return (sequence * length + position) * kv_heads + g;
  }
  __device__ __forceinline__ float* part(int64_t row, int head, int i) const {
    return partial + ((row * heads + head) * parts + i) * (value_dim + 2);
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) AppendKernel(const Params<T> p) {
  const int64_t row = blockIdx.x;
  const int64_t sequence = p.sequences[row];
  if (sequence < 0) return;
  const int k_width = p.kv_heads * p.dim, v_width = p.kv_heads * p.value_dim;
  const T* k = p.qkv + row * p.row_width() + int64_t{p.heads} * p.dim;
  const int64_t place = p.place(sequence, p.positions[row], 0);
  for (int c = threadIdx.x; c < k_width; c += kThreads) p.keys[place * p.dim + c] = k[c];
  for (int c = threadIdx.x; c < v_width; c += kThreads) {
    p.values[place * p.value_dim + c] = k[k_width + c];
  }
}

// q in `q`, one key per lane.
template <typename V>
__device__ __forceinline__ float Dot(const float* q, const typename V::Element* key, int dim) {
  float sum = 0.0f;
  for (int c = 0; c < dim; c += V::kSize) {
    V k;
    k.Load(key + c);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) sum += q[c + i] * k.value[i];
  }
  return sum;
}

template <typename T>
struct PartSums {
  float maximum = -INFINITY, total = 0.0f;
  float sums[kPerLane] = {};

  __device__ __forceinline__ void Rescale(float higher) {
    const float kept = maximum == higher ? 1.0f : __expf(maximum - higher);
    maximum = higher;
    total *= kept;
#pragma unroll
    for (float& sum : sums) sum *= kept;
  }
  // The value of a key that has probability weight `p`.
  __device__ __forceinline__ void Add(float p, const T* value, int dim) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int at = threadIdx.x % kWarp + i * kWarp;
      if (at < dim) sums[i] += p * cuda::ToFloat(value[at]);
    }
  }
};

// `base` is the place of the row's kv head at position 0, `first` the first key of a tile of up to
// 32, `end` behind the last that is seen.
template <typename V>
__device__ __forceinline__ void AddTile(const Params<typename V::Element>& p, const float* q,
                                        int64_t base, int first, int end,
                                        PartSums<typename V::Element>* part) {
  const int64_t heads = p.kv_heads;
  const int key = first + threadIdx.x % kWarp;
  float score = -INFINITY;
  if (key < end) {
    score = Dot<V>(q, p.keys + (base + key * heads) * p.dim, p.dim) * p.scale;
    if (p.softcap != 0.0f) score = p.softcap * tanhf(score / p.softcap);
  }
  part->Rescale(fmaxf(part->maximum, cuda::WarpMax(score)));
  const float weight = key < end ? __expf(score - part->maximum) : 0.0f;
  part->total += cuda::WarpSum(weight);
  const int keys = min(kWarp, end - first);
  for (int j = 0; j < keys; ++j) {
    part->Add(__shfl_sync(~0u, weight, j), p.values + (base + (first + j) * heads) * p.value_dim,
              p.value_dim);
  }
}

template <typename V>
__global__ void __launch_bounds__(kThreads) PartKernel(const Params<typename V::Element> p) {
  using T = typename V::Element;
  __shared__ float queries[kWarps][kMostHeadDim];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int head = blockIdx.x * kWarps + warp, part_index = blockIdx.y;
  const int64_t row = blockIdx.z, sequence = p.sequences[row];
  if (head >= p.heads || sequence < 0) return;
  const int position = p.positions[row];
  const int first = max(p.first_key(position), part_index * kPartKeys);
  const int end = min(position + 1, (part_index + 1) * kPartKeys);
  if (first >= end) return;
  float* q = queries[warp];
  const T* from = p.qkv + row * p.row_width() + int64_t{head} * p.dim;
  for (int c = lane; c < p.dim; c += kWarp) q[c] = cuda::ToFloat(from[c]);
  __syncwarp();
  const int64_t base = p.place(sequence, 0, head / (p.heads / p.kv_heads));
  PartSums<T> part;
  for (int tile = first; tile < end; tile += kWarp) AddTile<V>(p, q, base, tile, end, &part);
  float* out = p.part(row, head, part_index);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    if (lane + i * kWarp < p.value_dim) out[lane + i * kWarp] = part.sums[i];
  }
  if (lane == 0) {
    out[p.value_dim] = part.maximum;
    out[p.value_dim + 1] = part.total;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) JoinKernel(const Params<T> p) {
  const int lane = threadIdx.x % kWarp, head = blockIdx.x * kWarps + threadIdx.x / kWarp;
  const int64_t row = blockIdx.y;
  if (head >= p.heads) return;
  const bool seen = p.sequences[row] >= 0;
  const int position = seen ? p.positions[row] : 0;
  const int begin = p.first_key(position) / kPartKeys;
  const int end = seen ? position / kPartKeys + 1 : begin;
  float maximum = -INFINITY, total = 0.0f, sums[kPerLane] = {};
  for (int i = begin; i < end; ++i) maximum = fmaxf(maximum, p.part(row, head, i)[p.value_dim]);
  if (p.sinks.any()) {
    const float sink = p.sinks.of(head);
    maximum = fmaxf(maximum, sink);
    total = __expf(sink - maximum);
  }
  for (int i = begin; i < end; ++i) {
    const float* part = p.part(row, head, i);
    const float weight = __expf(part[p.value_dim] - maximum);
    total += weight * part[p.value_dim + 1];
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) {
      if (lane + c * kWarp < p.value_dim) sums[c] += weight * part[lane + c * kWarp];
    }
  }
  T* out = p.out + (row * p.heads + head) * p.value_dim;
#pragma unroll
  for (int c = 0; c < kPerLane; ++c) {
    const float value = seen ? sums[c] / total : 0.0f;
    if (lane + c * kWarp < p.value_dim) out[lane + c * kWarp] = cuda::FromFloat<T>(value);
  }
}

template <typename T>
Params<T> MakeParams(const CachedAttentionSpec& spec, const CacheRows& rows, const void* qkv,
                     const KeyValueCache& cache) {
  const AttentionSpec& attention = spec.attention;
  Params<T> p;
  p.rows = rows.count;
  p.length = spec.length;
  p.heads = static_cast<int>(attention.num_heads);
  p.kv_heads = static_cast<int>(attention.num_kv_heads);
  p.dim = static_cast<int>(attention.head_dim);
  p.value_dim = static_cast<int>(ValueDim(attention));
  p.window = static_cast<int>(std::min(attention.window, spec.length));
  p.parts = static_cast<int>(cuda::CeilDiv(spec.length, kPartKeys));
  p.scale = attention.scale;
  p.softcap = attention.softcap;
  p.sequences = rows.sequences;
  p.positions = rows.positions;
  p.qkv = static_cast<const T*>(qkv);
  p.keys = static_cast<T*>(cache.keys);
  p.values = static_cast<T*>(cache.values);
  return p;
}

// blockIdx.y and .z.
constexpr int64_t kMostParts = 65535, kMostRows = 65535;

}  // namespace

bool CachedAttentionSupports(const CachedAttentionSpec& spec) {
  const AttentionSpec& attention = spec.attention;
  return AttentionSupports(attention) && attention.head_dim <= kMostHeadDim &&
         ValueDim(attention) <= kMostHeadDim && attention.q_row == 0 && attention.kv_row == 0 &&
         attention.v_row == 0 && spec.length > 0 && spec.length <= kMostParts * kPartKeys;
}

void CacheAppend(const CacheAppendArgs& args, Stream* stream) {
  cuda::RequireSupported(CachedAttentionSupports(args.spec), "CacheAppend");
  cuda::RequireExtent(args.rows.count, "CacheAppend", "rows");
  if (args.rows.count == 0) return;
  cuda::ForDType(args.spec.attention.dtype, [&](auto zero) {
    using T = decltype(zero);
    AppendKernel<T><<<static_cast<unsigned>(args.rows.count), kThreads, 0, cuda::Handle(stream)>>>(
        MakeParams<T>(args.spec, args.rows, args.qkv, args.cache));
  });
  cuda::CheckLaunch("CacheAppend");
}

int64_t CachedAttentionWorkspaceBytes(const CachedAttentionSpec& spec, int64_t rows) {
  const int64_t parts = cuda::CeilDiv(spec.length, kPartKeys);
  return rows * spec.attention.num_heads * parts * (ValueDim(spec.attention) + 2) *
         static_cast<int64_t>(sizeof(float));
}

void CachedAttention(const CachedAttentionArgs& args, Stream* stream) {
  cuda::RequireSupported(CachedAttentionSupports(args.spec) && args.rows.count <= kMostRows,
                         "CachedAttention");
  RequireSinks(args.spec.attention, args.sinks, "CachedAttention");
  cuda::RequireWorkspace(args.workspace, CachedAttentionWorkspaceBytes(args.spec, args.rows.count),
                         "CachedAttention");
  if (args.rows.count == 0) return;
  const AttentionSpec& spec = args.spec.attention;
  cuda::ForVectorOf(spec.dtype, spec.head_dim, {args.cache.keys}, [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    Params<T> p = MakeParams<T>(args.spec, args.rows, args.qkv, args.cache);
    p.sinks = cuda::MakeSinks(spec, args.sinks);
    p.out = static_cast<T*>(args.out);
    p.partial = static_cast<float*>(args.workspace.data);
    const auto heads = static_cast<unsigned>(cuda::CeilDiv(spec.num_heads, kWarps));
    const auto rows = static_cast<unsigned>(args.rows.count);
    PartKernel<V>
        <<<dim3(heads, static_cast<unsigned>(p.parts), rows), kThreads, 0, cuda::Handle(stream)>>>(
            p);
    JoinKernel<T><<<dim3(heads, rows), kThreads, 0, cuda::Handle(stream)>>>(p);
  });
  cuda::CheckLaunch("CachedAttention");
}

}  // namespace coxswain::kernels
