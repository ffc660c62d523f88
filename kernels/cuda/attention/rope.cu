// Rotary position embedding in place on the q and k heads of packed rows, forward and backward.
//   a' = a c - b s;  b' = b c + a s;  backward: s -> -s;  then q heads times their scale, if any
// (a, b) are halves of what turns of a head, or neighbours in it. Source: kernels/rope.h.
//
// A thread has the same pairs of several heads of one token, so that it reads their cosines and
// sines once; every element that turns is read and written once, by one thread, with one rounding.
// Vectors of 16 bytes, single elements where heads or halves are not made of them. Bytes moved per
// element that turns or is scaled: 2 sizeof(T); the tables stay in the cache. Bitwise
// deterministic.
#include "kernels/rope.h"

#include <algorithm>

#include "kernels/cuda/attention/turn_pairs.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kHeadsPerThread = 4;

struct Rotation {
  int64_t tokens, row;  // row: elements of a packed row
  int heads, half;      // heads: of q and k; half: pairs of a head that turn
  float sign;
  const float *cos, *sin;
  const int32_t* positions;
  int dim, queries;          // dim: elements of a head; queries: heads of q
  const float* query_scale;  // null: none
};

// kPlain: all of a head turns and nothing is scaled. That its length is not a number of its own
// saves registers.
template <bool kPlain>
__device__ __forceinline__ int64_t HeadOffset(const Rotation& args, int head) {
  return kPlain ? int64_t{head} * 2 * args.half : int64_t{head} * args.dim;
}

// The elements of q heads behind those that turn, times the scale.
template <class V>
__device__ __forceinline__ void ScaleRest(const Rotation& args, float scale,
                                          typename V::Element* row) {
  const int rest = (args.dim - 2 * args.half) / V::kSize;
  for (int item = threadIdx.x; item < rest * args.queries; item += blockDim.x) {
    const int head = item / rest, j = 2 * args.half + (item - head * rest) * V::kSize;
    typename V::Element* at = row + int64_t{head} * args.dim + j;
    V x;
    x.Load(at);
#pragma unroll
    for (float& value : x.value) value *= scale;
    x.Store(at);
  }
}

// threadIdx.x: pairs and heads of a token; threadIdx.y: tokens.
template <class V, bool kInterleaved, bool kPlain>
__global__ void __launch_bounds__(kThreads)
    RopeKernel(Rotation args, typename V::Element* __restrict__ qkv) {
  constexpr int kSize = V::kSize;
  const int64_t token = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (token >= args.tokens) return;
  const int64_t table = int64_t{args.positions[token]} * args.half;
  float scale = 1.0f;
  if constexpr (!kPlain) {
    if (args.query_scale != nullptr) {
      scale = args.query_scale[args.positions[token]];
      ScaleRest<V>(args, scale, qkv + token * args.row);
    }
  }
  const int pairs = args.half / kSize;
  const int groups = (args.heads + kHeadsPerThread - 1) / kHeadsPerThread;
  for (int item = threadIdx.x; item < pairs * groups; item += blockDim.x) {
    const int group = item / pairs, j = (item - group * pairs) * kSize;
    typename V::Element* first = qkv + token * args.row + (kInterleaved ? 2 * j : j);
    const int apart = kInterleaved ? kSize : args.half;
    typename V::Raw a[kHeadsPerThread] = {}, b[kHeadsPerThread] = {};
#pragma unroll
    for (int u = 0; u < kHeadsPerThread; ++u) {
      const int head = group + u * groups;
      if (head >= args.heads) continue;
      a[u] = V::Fetch(first + HeadOffset<kPlain>(args, head));
      b[u] = V::Fetch(first + HeadOffset<kPlain>(args, head) + apart);
    }
    float cos[kSize], sin[kSize];
    constexpr int kPart = kSize > 4 ? 4 : kSize;
#pragma unroll
    for (int i = 0; i < kSize; i += kPart) {
      cuda::Vector<float, kPart> c, s;
      c.Load(args.cos + table + j + i);
      s.Load(args.sin + table + j + i);
#pragma unroll
      for (int e = 0; e < kPart; ++e) cos[i + e] = c.value[e];
#pragma unroll
      for (int e = 0; e < kPart; ++e) sin[i + e] = args.sign * s.value[e];
    }
#pragma unroll
    for (int u = 0; u < kHeadsPerThread; ++u) {
      const int head = group + u * groups;
      if (head >= args.heads) continue;
      V x, y;
      x.Unpack(a[u]);
      y.Unpack(b[u]);
      cuda::TurnPairs<kInterleaved>(cos, sin, &x, &y);
      if constexpr (!kPlain) {
        const float factor = head < args.queries ? scale : 1.0f;
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
          x.value[i] *= factor;
          y.value[i] *= factor;
        }
      }
      x.Store(first + HeadOffset<kPlain>(args, head));
      y.Store(first + HeadOffset<kPlain>(args, head) + apart);
    }
  }
}

template <class V>
void LaunchOver(const Rotation& rotation, bool interleaved, void* qkv, cudaStream_t stream) {
  const int64_t items =
      int64_t{rotation.half} / V::kSize * cuda::CeilDiv(rotation.heads, kHeadsPerThread);
  const auto x = static_cast<unsigned>(std::min<int64_t>(items, kThreads));
  const dim3 block(x, kThreads / x);
  const auto blocks = static_cast<unsigned>(cuda::CeilDiv(rotation.tokens, block.y));
  auto* data = static_cast<typename V::Element*>(qkv);
  const bool plain = rotation.dim == 2 * rotation.half && rotation.query_scale == nullptr;
  const auto kernel = interleaved ? (plain ? RopeKernel<V, true, true> : RopeKernel<V, true, false>)
                      : plain     ? RopeKernel<V, false, true>
                                  : RopeKernel<V, false, false>;
  kernel<<<blocks, block, 0, stream>>>(rotation, data);
}

void Launch(const RopeArgs& args, float sign, Stream* stream) {
  cuda::RequireSupported(RopeSupports(args.spec), "Rope");
  cuda::RequireExtent(args.tokens, "Rope", "tokens");
  if (args.tokens == 0) return;
  const int64_t heads = args.spec.num_heads + args.spec.num_kv_heads, dim = args.spec.head_dim;
  const int64_t half = RotatedElements(args.spec) / 2;
  const Rotation rotation{.tokens = args.tokens,
                          .row = (heads + args.spec.num_kv_heads) * dim,
                          .heads = static_cast<int>(heads),
                          .half = static_cast<int>(half),
                          .sign = sign,
                          .cos = args.cos,
                          .sin = args.sin,
                          .positions = args.positions,
                          .dim = static_cast<int>(dim),
                          .queries = static_cast<int>(args.spec.num_heads),
                          .query_scale = args.query_scale};
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = cuda::Aligned<T>(args.qkv, half) && cuda::Aligned<T>(args.qkv, dim) &&
                         cuda::Aligned<float>(args.cos, half) &&
                         cuda::Aligned<float>(args.sin, half);
    cuda::ForVector<T>(aligned, [&](auto vector) {
      LaunchOver<decltype(vector)>(rotation, args.spec.interleaved, args.qkv, cuda::Handle(stream));
    });
  });
  cuda::CheckLaunch("Rope");
}

}  // namespace

bool RopeSupports(const RopeSpec& spec) {
  const int64_t rotated = RotatedElements(spec);
  return spec.num_heads > 0 && spec.num_kv_heads > 0 && rotated > 0 && rotated % 2 == 0 &&
         rotated <= spec.head_dim;
}

void RopeForward(const RopeArgs& args, Stream* stream) { Launch(args, 1.0f, stream); }
void RopeBackward(const RopeArgs& args, Stream* stream) { Launch(args, -1.0f, stream); }

}  // namespace coxswain::kernels
