// RMSNorm of every q and k head in place on packed rows, and its gradient.
//   r = 1/sqrt(mean(x^2) + eps);  y = x r (o + w)
//   m = dy (o + w);  dx = r m - x r^3 sum(m x)/hd;  dw = sum over tokens and heads of dy x r
// Saved for backward: x and r. Source: kernels/attention/heads.h. Norms over all heads:
// qk_norm_whole.cu.
//
// A head belongs to 1, 2, 4, .. 32 neighbouring lanes, each with up to kHeld vectors of 16 bytes
// (single elements where a head is not made of them), so that a warp has several short heads.
// Backward runs the blocks that fit at once over all tokens: a lane keeps its part of both weight
// gradients in registers, the block leaves their sum in the workspace, and a second kernel adds
// those up. Bytes moved per element of q and k: 3 sizeof(T) either way. Bitwise deterministic on
// one model of GPU.
#include "kernels/attention/heads.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/cuda/attention/qk_norm_whole.h"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

using cuda::kWarp;

constexpr int kThreads = 256;
constexpr int kMaxHeadDim = 256;
constexpr int64_t kBlocksPerMultiprocessor = 3;

// Vectors of a head that a lane holds, by what 32 lanes must hold of the longest head.
template <class V>
inline constexpr int kHeld = kMaxHeadDim / (kWarp * V::kSize) > 0 ? kMaxHeadDim / (kWarp * V::kSize)
                                                                  : 1;

// How heads and tokens lie on a block: threadIdx.x: lanes and heads of a token, a whole number of
// warps; threadIdx.y: tokens.
struct Heads {
  int64_t tokens;
  int heads, normed, dim;  // heads: of q; normed: of q and k
  int64_t row;             // elements of a packed row
  int lanes;               // of a head, a power of 2
};

__device__ __forceinline__ float HeadSum(float x, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// First element of this lane's vector i.
template <class V>
__device__ __forceinline__ int Element(const Heads& heads, int i) {
  return (static_cast<int>(threadIdx.x) % heads.lanes + i * heads.lanes) * V::kSize;
}

template <class V, typename T = typename V::Element>
__device__ __forceinline__ void LoadHead(const Heads& heads, const T* head, bool valid,
                                         V (&values)[kHeld<V>]) {
#pragma unroll
  for (int i = 0; i < kHeld<V>; ++i) {
    const int j = Element<V>(heads, i);
    typename V::Raw raw = {};
    if (valid && j < heads.dim) raw = V::Fetch(head + j);
    values[i].Unpack(raw);
  }
}

template <class V, typename T = typename V::Element>
__device__ __forceinline__ void StoreHead(const Heads& heads, const V (&values)[kHeld<V>],
                                          T* head) {
#pragma unroll
  for (int i = 0; i < kHeld<V>; ++i) {
    const int j = Element<V>(heads, i);
    if (j < heads.dim) values[i].Store(head + j);
  }
}

template <typename T>
struct Forward {
  Heads heads;
  float eps, offset;
  T* qkv;
  const T *q_weight, *k_weight;
  T* saved;
  float* rstd;
};

template <class V, typename T = typename V::Element>
__global__ void __launch_bounds__(kThreads) QkNormForwardKernel(Forward<T> args) {
  const Heads& heads = args.heads;
  const int64_t token = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (token >= heads.tokens) return;  // a warp has one token
  const int step = blockDim.x / heads.lanes;
  for (int base = 0; base < heads.normed; base += step) {
    const int head = base + static_cast<int>(threadIdx.x) / heads.lanes;
    const bool valid = head < heads.normed;
    T* at = args.qkv + token * heads.row + int64_t{head} * heads.dim;
    V x[kHeld<V>], weight[kHeld<V>];
    LoadHead<V>(heads, at, valid, x);
    LoadHead<V>(heads, head < heads.heads ? args.q_weight : args.k_weight, valid, weight);
    float squares = 0;
#pragma unroll
    for (const V& v : x) {
#pragma unroll
      for (const float value : v.value) squares += value * value;
    }
    squares = HeadSum(squares, heads.lanes);
    if (!valid) continue;
    const float rstd = 1.0f / sqrtf(squares / static_cast<float>(heads.dim) + args.eps);
    const int64_t index = token * heads.normed + head;
    StoreHead<V>(heads, x, args.saved + index * heads.dim);
    if (threadIdx.x % heads.lanes == 0) args.rstd[index] = rstd;
#pragma unroll
    for (int i = 0; i < kHeld<V>; ++i) {
#pragma unroll
      for (int e = 0; e < V::kSize; ++e) x[i].value[e] *= rstd * (args.offset + weight[i].value[e]);
    }
    StoreHead<V>(heads, x, at);
  }
}

template <typename T>
struct Backward {
  Heads heads;
  T* dqkv;
  const T* saved;
  const float* rstd;
  const T *q_weight, *k_weight;
  float offset;
  float* partials;  // [blocks, 2, hd]: of q and of k; null: frozen
};

// The sums over the block's lanes that have the same elements, in the order of its warps, to
// out [hd].
template <class V>
__device__ __forceinline__ void StoreBlockSums(const Heads& heads, V (&sums)[kHeld<V>],
                                               float* out) {
  __shared__ float shared[kThreads / kWarp][kMaxHeadDim];
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  __syncthreads();  // an earlier call may still be reading
#pragma unroll
  for (int i = 0; i < kHeld<V>; ++i) {
    const int j = Element<V>(heads, i);
#pragma unroll
    for (int e = 0; e < V::kSize; ++e) {
      float sum = sums[i].value[e];
      for (int offset = heads.lanes; offset < kWarp; offset *= 2) {
        sum += __shfl_xor_sync(~0u, sum, offset);
      }
      if (thread % kWarp < heads.lanes && j < heads.dim) shared[thread / kWarp][j + e] = sum;
    }
  }
  __syncthreads();
  for (int j = thread; j < heads.dim; j += threads) {
    float sum = 0;
    for (int warp = 0; warp < threads / kWarp; ++warp) sum += shared[warp][j];
    out[j] = sum;
  }
}

template <class V, typename T = typename V::Element>
__global__ void __launch_bounds__(kThreads, V::kSize > 1 ? kBlocksPerMultiprocessor : 2)
    QkNormBackwardKernel(Backward<T> args) {
  cuda::LetNextStart();
  const Heads& heads = args.heads;
  const int step = blockDim.x / heads.lanes;
  V dweight[2][kHeld<V>] = {};
  for (int64_t token = int64_t{blockIdx.x} * blockDim.y + threadIdx.y; token < heads.tokens;
       token += int64_t{gridDim.x} * blockDim.y) {
    for (int base = 0; base < heads.normed; base += step) {
      const int head = base + static_cast<int>(threadIdx.x) / heads.lanes;
      const bool valid = head < heads.normed, is_q = head < heads.heads;
      const int64_t index = token * heads.normed + head;
      T* at = args.dqkv + token * heads.row + int64_t{head} * heads.dim;
      V dy[kHeld<V>], x[kHeld<V>], weight[kHeld<V>];
      LoadHead<V>(heads, at, valid, dy);
      LoadHead<V>(heads, args.saved + index * heads.dim, valid, x);
      LoadHead<V>(heads, is_q ? args.q_weight : args.k_weight, valid, weight);
      const float rstd = valid ? args.rstd[index] : 0.0f;
      float along = 0;
#pragma unroll
      for (int i = 0; i < kHeld<V>; ++i) {
#pragma unroll
        for (int e = 0; e < V::kSize; ++e) {
          const float d = dy[i].value[e], a = x[i].value[e];
          const float part = d * (a * rstd);
          if (is_q) {
            dweight[0][i].value[e] += part;
          } else {
            dweight[1][i].value[e] += part;
          }
          dy[i].value[e] = d * (args.offset + weight[i].value[e]);
          along += dy[i].value[e] * a;
        }
      }
      along = HeadSum(along, heads.lanes) / static_cast<float>(heads.dim) * rstd * rstd * rstd;
      if (!valid) continue;
#pragma unroll
      for (int i = 0; i < kHeld<V>; ++i) {
#pragma unroll
        for (int e = 0; e < V::kSize; ++e) {
          dy[i].value[e] = rstd * dy[i].value[e] - along * x[i].value[e];
        }
      }
      StoreHead<V>(heads, dy, at);
    }
  }
  if (args.partials == nullptr) return;
  float* out = args.partials + int64_t{blockIdx.x} * 2 * heads.dim;
  StoreBlockSums<V>(heads, dweight[0], out);
  StoreBlockSums<V>(heads, dweight[1], out + heads.dim);
}

Heads PlanHeads(const QkNormSpec& spec, int64_t tokens, int vector) {
  const int64_t normed = spec.num_heads + spec.num_kv_heads;
  Heads heads{.tokens = tokens,
              .heads = static_cast<int>(spec.num_heads),
              .normed = static_cast<int>(normed),
              .dim = static_cast<int>(spec.head_dim),
              .row = (normed + spec.num_kv_heads) * spec.head_dim,
              .lanes = 1};
  while (heads.lanes < kWarp && heads.lanes * vector < heads.dim) heads.lanes *= 2;
  return heads;
}

dim3 Block(const Heads& heads) {
  const int64_t lanes = cuda::CeilDiv(int64_t{heads.normed} * heads.lanes, kWarp) * kWarp;
  const auto x = static_cast<unsigned>(std::min<int64_t>(lanes, kThreads));
  return dim3(x, kThreads / x);
}

// Of the spec and the tokens alone, because the workspace is sized by it.
int64_t BackwardBlocks(int64_t tokens) {
  return std::min({tokens, cuda::kMaxPartials, kBlocksPerMultiprocessor * cuda::Multiprocessors()});
}

}  // namespace

bool QkNormSupports(const QkNormSpec& spec) {
  return spec.num_heads > 0 && spec.num_kv_heads > 0 && spec.head_dim > 0 &&
         (spec.whole || spec.head_dim <= kMaxHeadDim);
}

void QkNormForward(const QkNormForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(QkNormSupports(args.spec), "QkNorm");
  cuda::RequireExtent(args.tokens, "QkNorm", "tokens");
  if (args.tokens == 0) return;
  if (args.spec.whole) return cuda::QkNormWholeForward(args, stream);
  const auto launch = [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    const Heads heads = PlanHeads(args.spec, args.tokens, V::kSize);
    const dim3 block = Block(heads);
    const auto blocks = static_cast<unsigned>(cuda::CeilDiv(args.tokens, block.y));
    QkNormForwardKernel<V><<<blocks, block, 0, cuda::Handle(stream)>>>(
        Forward<T>{.heads = heads,
                   .eps = args.spec.eps,
                   .offset = args.spec.weight_offset,
                   .qkv = static_cast<T*>(args.qkv),
                   .q_weight = static_cast<const T*>(args.q_weight),
                   .k_weight = static_cast<const T*>(args.k_weight),
                   .saved = static_cast<T*>(args.saved_qk),
                   .rstd = args.rstd});
  };
  cuda::ForVectorOf(args.spec.dtype, args.spec.head_dim,
                    {args.qkv, args.saved_qk, args.q_weight, args.k_weight}, launch);
  cuda::CheckLaunch("QkNorm");
}

int64_t QkNormBackwardWorkspaceBytes(const QkNormSpec& spec, int64_t tokens) {
  if (spec.whole) return cuda::QkNormWholeBackwardWorkspaceBytes(spec, tokens);
  return cuda::AlignUp(BackwardBlocks(tokens) * 2 * spec.head_dim * 4);
}

void QkNormBackward(const QkNormBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(QkNormSupports(args.spec), "QkNorm");
  cuda::RequireExtent(args.tokens, "QkNorm", "tokens");
  if ((args.dq_weight == nullptr) != (args.dk_weight == nullptr)) {
    throw std::invalid_argument("QkNorm: one of dq_weight and dk_weight is null, the other not");
  }
  if (args.tokens == 0) return;
  const bool frozen = args.dq_weight == nullptr;
  if (!frozen) {
    cuda::RequireWorkspace(args.workspace, QkNormBackwardWorkspaceBytes(args.spec, args.tokens),
                           "QkNorm");
  }
  if (args.spec.whole) return cuda::QkNormWholeBackward(args, stream);
  float* partials = frozen ? nullptr : static_cast<float*>(args.workspace.data);
  const int64_t blocks = BackwardBlocks(args.tokens);
  const auto launch = [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    const Heads heads = PlanHeads(args.spec, args.tokens, V::kSize);
    QkNormBackwardKernel<V>
        <<<static_cast<unsigned>(blocks), Block(heads), 0, cuda::Handle(stream)>>>(
            Backward<T>{.heads = heads,
                        .dqkv = static_cast<T*>(args.dqkv),
                        .saved = static_cast<const T*>(args.saved_qk),
                        .rstd = args.rstd,
                        .q_weight = static_cast<const T*>(args.q_weight),
                        .k_weight = static_cast<const T*>(args.k_weight),
                        .offset = args.spec.weight_offset,
                        .partials = partials});
  };
  cuda::ForVectorOf(args.spec.dtype, args.spec.head_dim,
                    {args.dqkv, args.saved_qk, args.q_weight, args.k_weight}, launch);
  if (!frozen) {
    cuda::AddPartials({.partials = partials,
                       .count = blocks,
                       .columns = args.spec.head_dim,
                       .gradients = 2,
                       .gradient = {args.dq_weight, args.dk_weight}},
                      args.spec.grad_dtype, cuda::Handle(stream));
  }
  cuda::CheckLaunch("QkNorm");
}

}  // namespace coxswain::kernels
