// The packed rows of attention from those of latent attention, and back
// (kernels/attention/heads.h).
//
// A block has a token: its threads copy vectors of 16 bytes of what stays, and turn the pairs of a
// vector each of what rotates, with the roundings of every other rotation (rope_pair.cuh). Single
// elements where dn, dv, or what turns of a head are not made of vectors. In backward a thread sums
// the shared part of k over every G-th head, G threads of each pair of vectors, and the first of
// them adds the G sums in their order, all in float32: bitwise deterministic.
//
// Bytes: those of the five rows, each read or written once.
#include "kernels/attention/heads.h"

#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/cuda/attention/turn_pairs.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

// Rows of pieces: item h is `width` elements at h * stride.
template <typename T>
struct Pieces {
  T* data;
  int stride;
};

template <class V>
__device__ __forceinline__ void CopyPieces(Pieces<const typename V::Element> from,
                                           Pieces<typename V::Element> to, int heads, int width) {
  const int vectors = width / V::kSize;
  for (int item = threadIdx.x; item < heads * vectors; item += kThreads) {
    const int head = item / vectors, j = (item - head * vectors) * V::kSize;
    V x;
    x.LoadStreaming(from.data + int64_t{head} * from.stride + j);
    x.Store(to.data + int64_t{head} * to.stride + j);
  }
}

// The angles of kSize pairs.
template <class V>
struct Angles {
  float cos[V::kSize], sin[V::kSize];

  __device__ __forceinline__ void Load(const float* cosines, const float* sines, float sign) {
    constexpr int kPart = V::kSize > 4 ? 4 : V::kSize;
#pragma unroll
    for (int i = 0; i < V::kSize; i += kPart) {
      cuda::Vector<float, kPart> c, s;
      c.Load(cosines + i);
      s.Load(sines + i);
#pragma unroll
      for (int e = 0; e < kPart; ++e) {
        cos[i + e] = c.value[e];
        sin[i + e] = sign * s.value[e];
      }
    }
  }
};

// Where the pairs of a vector begin in what turns of a head, and how far the second vector is.
template <class V, bool kInterleaved>
__device__ __forceinline__ int PairsAt(int pair) {
  return kInterleaved ? 2 * pair * V::kSize : pair * V::kSize;
}
template <class V, bool kInterleaved>
__device__ __forceinline__ int Apart(int half) {
  return kInterleaved ? V::kSize : half;
}

struct Extents {
  int heads, nope, rope, value;
  const float *cos, *sin;
  const int32_t* positions;
};

template <class V, bool kInterleaved>
__device__ __forceinline__ void TurnHeads(const Extents& e, int64_t table, float sign,
                                          Pieces<const typename V::Element> from,
                                          Pieces<typename V::Element> to) {
  const int half = e.rope / 2, pairs = half / V::kSize;
  for (int item = threadIdx.x; item < e.heads * pairs; item += kThreads) {
    const int head = item / pairs, pair = item - head * pairs;
    const int first = PairsAt<V, kInterleaved>(pair), apart = Apart<V, kInterleaved>(half);
    Angles<V> angles;
    angles.Load(e.cos + table + pair * V::kSize, e.sin + table + pair * V::kSize, sign);
    V a, b;
    a.LoadStreaming(from.data + int64_t{head} * from.stride + first);
    b.LoadStreaming(from.data + int64_t{head} * from.stride + first + apart);
    cuda::TurnPairs<kInterleaved>(angles.cos, angles.sin, &a, &b);
    a.Store(to.data + int64_t{head} * to.stride + first);
    b.Store(to.data + int64_t{head} * to.stride + first + apart);
  }
}

template <class V, bool kInterleaved>
__global__ void __launch_bounds__(kThreads)
    LatentHeadsForwardKernel(const Extents e, const typename V::Element* __restrict__ q,
                             const typename V::Element* __restrict__ kv,
                             const typename V::Element* __restrict__ k_rope,
                             typename V::Element* __restrict__ qkv) {
  const int64_t token = blockIdx.x;
  const int width = e.nope + e.rope, pair_row = e.nope + e.value, half = e.rope / 2;
  const int64_t table = int64_t{e.positions[token]} * half;
  q += token * e.heads * width;
  kv += token * e.heads * pair_row;
  k_rope += token * e.rope;
  typename V::Element* out_q = qkv + token * e.heads * (2 * width + e.value);
  typename V::Element* out_k = out_q + int64_t{e.heads} * width;
  typename V::Element* out_v = out_k + int64_t{e.heads} * width;
  CopyPieces<V>({q, width}, {out_q, width}, e.heads, e.nope);
  CopyPieces<V>({kv, pair_row}, {out_k, width}, e.heads, e.nope);
  CopyPieces<V>({kv + e.nope, pair_row}, {out_v, e.value}, e.heads, e.value);
  TurnHeads<V, kInterleaved>(e, table, 1.0f, {q + e.nope, width}, {out_q + e.nope, width});
  // One row for all heads.
  TurnHeads<V, kInterleaved>(e, table, 1.0f, {k_rope, 0}, {out_k + e.nope, width});
}

template <class V>
struct PairSum {
  float first[V::kSize], second[V::kSize];

  __device__ __forceinline__ void Add(const V& a, const V& b) {
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      first[i] += a.value[i];
      second[i] += b.value[i];
    }
  }
};

// G of the head of the file.
__host__ __device__ constexpr int Groups(int pairs) {
  return pairs < kThreads ? kThreads / pairs : 1;
}

// The sum of what turns of k's heads, turned back.
template <class V, bool kInterleaved>
__device__ __forceinline__ void SumHeads(const Extents& e, int64_t table,
                                         Pieces<const typename V::Element> from,
                                         typename V::Element* to) {
  __shared__ PairSum<V> sums[kThreads];
  const int half = e.rope / 2, pairs = half / V::kSize, groups = Groups(pairs);
  // More pairs than threads are summed in rounds, with one group.
  for (int begin = 0; begin < pairs; begin += kThreads) {
    const int pair = begin + threadIdx.x % min(pairs, kThreads);
    const int group = threadIdx.x / min(pairs, kThreads);
    const int first = PairsAt<V, kInterleaved>(pair), apart = Apart<V, kInterleaved>(half);
    const bool works = pair < pairs && group < groups;
    PairSum<V> sum = {};
    for (int head = group; works && head < e.heads; head += groups) {
      V a, b;
      a.LoadStreaming(from.data + int64_t{head} * from.stride + first);
      b.LoadStreaming(from.data + int64_t{head} * from.stride + first + apart);
      sum.Add(a, b);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (works && group == 0) {
      V a, b;
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        a.value[i] = sum.first[i];
        b.value[i] = sum.second[i];
      }
      for (int other = 1; other < groups; ++other) {
        const PairSum<V>& more = sums[threadIdx.x + other * pairs];
#pragma unroll
        for (int i = 0; i < V::kSize; ++i) {
          a.value[i] += more.first[i];
          b.value[i] += more.second[i];
        }
      }
      Angles<V> angles;
      angles.Load(e.cos + table + pair * V::kSize, e.sin + table + pair * V::kSize, -1.0f);
      cuda::TurnPairs<kInterleaved>(angles.cos, angles.sin, &a, &b);
      a.Store(to + first);
      b.Store(to + first + apart);
    }
    __syncthreads();
  }
}

template <class V, bool kInterleaved>
__global__ void __launch_bounds__(kThreads)
    LatentHeadsBackwardKernel(const Extents e, const typename V::Element* __restrict__ dqkv,
                              typename V::Element* __restrict__ dq,
                              typename V::Element* __restrict__ dkv,
                              typename V::Element* __restrict__ dk_rope) {
  const int64_t token = blockIdx.x;
  const int width = e.nope + e.rope, pair_row = e.nope + e.value, half = e.rope / 2;
  const int64_t table = int64_t{e.positions[token]} * half;
  const typename V::Element* in_q = dqkv + token * e.heads * (2 * width + e.value);
  const typename V::Element* in_k = in_q + int64_t{e.heads} * width;
  const typename V::Element* in_v = in_k + int64_t{e.heads} * width;
  dq += token * e.heads * width;
  dkv += token * e.heads * pair_row;
  CopyPieces<V>({in_q, width}, {dq, width}, e.heads, e.nope);
  CopyPieces<V>({in_k, width}, {dkv, pair_row}, e.heads, e.nope);
  CopyPieces<V>({in_v, e.value}, {dkv + e.nope, pair_row}, e.heads, e.value);
  TurnHeads<V, kInterleaved>(e, table, -1.0f, {in_q + e.nope, width}, {dq + e.nope, width});
  SumHeads<V, kInterleaved>(e, table, {in_k + e.nope, width}, dk_rope + token * e.rope);
}

// Blocks of a launch: one a token.
unsigned Blocks(const LatentHeadsSpec& spec, int64_t tokens) {
  cuda::RequireSupported(LatentHeadsSupports(spec), "LatentHeads");
  cuda::RequireExtent(tokens, "LatentHeads", "tokens");
  if (tokens > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("LatentHeads: " + std::to_string(tokens) +
                                " tokens, must be below 2147483648");
  }
  return static_cast<unsigned>(tokens);
}

Extents ExtentsOf(const LatentHeadsSpec& spec, const LatentPlaces& places) {
  return {.heads = static_cast<int>(spec.heads),
          .nope = static_cast<int>(spec.nope),
          .rope = static_cast<int>(spec.rope),
          .value = static_cast<int>(spec.value),
          .cos = places.cos,
          .sin = places.sin,
          .positions = places.positions};
}

// Calls fn with the vector of the rows and whether pairs are neighbours, as constants.
template <typename Fn>
void ForKernel(const LatentHeadsSpec& spec, const LatentPlaces& places,
               std::initializer_list<const void*> rows, const Fn& fn) {
  cuda::ForDType(spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t half = spec.rope / 2;
    const bool aligned = cuda::AllAligned<T>(rows, spec.nope) &&
                         cuda::AllAligned<T>(rows, spec.value) && cuda::AllAligned<T>(rows, half) &&
                         cuda::Aligned<float>(places.cos, half) &&
                         cuda::Aligned<float>(places.sin, half);
    cuda::ForVector<T>(aligned, [&](auto vector) {
      if (spec.interleaved) {
        fn(vector, std::true_type{});
      } else {
        fn(vector, std::false_type{});
      }
    });
  });
}

}  // namespace

bool LatentHeadsSupports(const LatentHeadsSpec& spec) {
  return spec.heads > 0 && spec.nope > 0 && spec.rope > 0 && spec.rope % 2 == 0 && spec.value > 0 &&
         LatentPackedRow(spec) <= std::numeric_limits<int32_t>::max();
}

void LatentHeadsForward(const LatentHeadsForwardArgs& args, Stream* stream) {
  const unsigned blocks = Blocks(args.spec, args.tokens);
  if (blocks == 0) return;
  ForKernel(args.spec, args.places, {args.q, args.kv, args.k_rope, args.qkv},
            [&](auto vector, auto interleaved) {
              using V = decltype(vector);
              using T = typename V::Element;
              LatentHeadsForwardKernel<V, decltype(interleaved)::value>
                  <<<blocks, kThreads, 0, cuda::Handle(stream)>>>(
                      ExtentsOf(args.spec, args.places), static_cast<const T*>(args.q),
                      static_cast<const T*>(args.kv), static_cast<const T*>(args.k_rope),
                      static_cast<T*>(args.qkv));
            });
  cuda::CheckLaunch("LatentHeadsForward");
}

void LatentHeadsBackward(const LatentHeadsBackwardArgs& args, Stream* stream) {
  const unsigned blocks = Blocks(args.spec, args.tokens);
  if (blocks == 0) return;
  ForKernel(args.spec, args.places, {args.dqkv, args.dq, args.dkv, args.dk_rope},
            [&](auto vector, auto interleaved) {
              using V = decltype(vector);
              using T = typename V::Element;
              LatentHeadsBackwardKernel<V, decltype(interleaved)::value>
                  <<<blocks, kThreads, 0, cuda::Handle(stream)>>>(
                      ExtentsOf(args.spec, args.places), static_cast<const T*>(args.dqkv),
                      static_cast<T*>(args.dq), static_cast<T*>(args.dkv),
                      static_cast<T*>(args.dk_rope));
            });
  cuda::CheckLaunch("LatentHeadsBackward");
}

}  // namespace coxswain::kernels
