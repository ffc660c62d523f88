// Cross-entropy of logits and its gradient in their place (kernels/cross_entropy.h has the
// formulas).
//
// Exponentials are taken in base 2 against a reference c = round(max z log2 e):
//   e_v = 2^(z_v log2 e - c), one fused product whose rounding is that of a small number however
//   large the logits;  S = sum e_v;  p_v = e_v / S;  lse = c / log2 e + log S, in double.
// Partial results are (c, S, sum z); two of them merge by S = S1 2^(c1 - c) + S2 2^(c2 - c).
//
// Row in registers (compute capability 9.0, 16-byte rows that fit): a cluster of 1, 2, 4 or 8
// blocks holds a row of up to 8 x 512 x kVectors vectors; the blocks push their partials into each
// other's shared memory. One read and one write: 2 sizeof(T) bytes per element. Otherwise: one
// block per row, which reads it twice (3 sizeof(T)). An ignored row is not read. Bitwise
// deterministic: every sum has an order fixed by the launch shape. Source: Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018.
#include "kernels/cross_entropy.h"

#include <limits>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / cuda::kWarp;
constexpr int kMaxCluster = 8;  // more is not portable
constexpr float kLog2E = 1.44269504f;
// Below any reference of a row that has a usable logit, and finite when multiplied.
constexpr float kLowest = -1e30f;

struct Partial {
  float reference = kLowest;  // c
  float exponentials = 0.0f;  // S
  float logits = 0.0f;        // sum z, for label smoothing
};

__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The same in every lane.
__device__ __forceinline__ Partial WarpMerge(const Partial& mine) {
  const float c = cuda::WarpMax(mine.reference);
  return {c, cuda::WarpSum(mine.exponentials * Exp2(mine.reference - c)),
          cuda::WarpSum(mine.logits)};
}

// The merge of the block's threads, in the first warp only.
__device__ __forceinline__ Partial BlockMerge(const Partial& mine, Partial* warps) {
  const Partial warp = WarpMerge(mine);
  const int lane = threadIdx.x % cuda::kWarp;
  if (lane == 0) warps[threadIdx.x / cuda::kWarp] = warp;
  __syncthreads();
  if (threadIdx.x >= cuda::kWarp) return {};
  return WarpMerge(lane < kWarps ? warps[lane] : Partial{});
}

template <bool kSoftcap>
__device__ __forceinline__ float Cap(float logit, float softcap) {
  if constexpr (kSoftcap) return softcap * tanhf(logit / softcap);
  return logit;
}

template <bool kSoftcap, int kSize>
__device__ __forceinline__ void CapAll(float (&z)[kSize], float softcap) {
  if constexpr (kSoftcap) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) z[i] = Cap<true>(z[i], softcap);
  }
}

template <int kSize>
__device__ __forceinline__ float MaxOf(const float (&z)[kSize]) {
  float maximum = z[0];
#pragma unroll
  for (int i = 1; i < kSize; ++i) maximum = fmaxf(maximum, z[i]);
  return maximum;
}

// Adds logits whose reference is at most that of `sums`.
template <bool kSmoothing, int kSize>
__device__ __forceinline__ void AddLogits(const float (&z)[kSize], Partial* sums) {
  float exponentials = 0.0f, logits = 0.0f;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    exponentials += Exp2(fmaf(z[i], kLog2E, -sums->reference));
    if constexpr (kSmoothing) logits += z[i];
  }
  sums->exponentials += exponentials;
  if constexpr (kSmoothing) sums->logits += logits;
}

// dz = e factor - shift, and what the target's own element adds to that.
struct Gradient {
  float reference, factor, shift, at_target, softcap;

  __device__ Gradient(const CrossEntropyArgs& args, const Partial& row) {
    const float scale = *args.gradient_scale, smoothing = args.spec.label_smoothing;
    const float lse = (row.reference + log2f(row.exponentials)) * (1.0f / kLog2E);
    reference = row.reference;
    factor = scale * (1.0f + 2.0f * args.spec.z_loss * lse) / row.exponentials;
    shift = scale * smoothing / static_cast<float>(args.spec.vocab);
    at_target = scale * (1.0f - smoothing);
    softcap = args.spec.softcap;
  }

  __device__ __forceinline__ float Exponential(float z) const {
    return Exp2(fmaf(z, kLog2E, -reference));
  }
  template <bool kSoftcap>
  __device__ __forceinline__ float Slope(float z) const {
    if constexpr (kSoftcap) return 1.0f - (z / softcap) * (z / softcap);
    return 1.0f;
  }
  template <bool kSoftcap, int kSize>
  __device__ __forceinline__ void Apply(float (&logit)[kSize]) const {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float z = Cap<kSoftcap>(logit[i], softcap);
      logit[i] = fmaf(Exponential(z), factor, -shift) * Slope<kSoftcap>(z);
    }
  }
  // p_y - 1 cancels: before the rounding to the type of the logits, and with one rounding here.
  template <bool kSoftcap>
  __device__ __forceinline__ float AtTarget(float z) const {
    const double dz = static_cast<double>(factor) * Exponential(z) - shift - at_target;
    return static_cast<float>(dz) * Slope<kSoftcap>(z);
  }
};

__device__ void WriteLosses(const CrossEntropyArgs& args, int64_t row, const Partial& sums,
                            float z_target) {
  const double lse = static_cast<double>(sums.reference) / static_cast<double>(kLog2E) +
                     log(static_cast<double>(sums.exponentials));
  const double nll = lse - z_target;
  double loss = nll + args.spec.z_loss * lse * lse;
  if (args.spec.label_smoothing > 0.0f) {
    const double mean = static_cast<double>(sums.logits) / static_cast<double>(args.spec.vocab);
    loss += args.spec.label_smoothing * (z_target - mean);
  }
  args.loss[row] = static_cast<float>(loss);
  if (args.nll != nullptr) args.nll[row] = static_cast<float>(nll);
}

__device__ __forceinline__ bool InVocabulary(const CrossEntropyArgs& args, int32_t target) {
  return target >= 0 && target < args.spec.vocab;
}

// A target outside the vocabulary shows as a NaN loss.
template <typename T, bool kSoftcap>
__device__ __forceinline__ float TargetLogit(const CrossEntropyArgs& args, const T* z,
                                             int32_t target) {
  if (!InVocabulary(args, target)) return nanf("");
  return Cap<kSoftcap>(cuda::ToFloat(z[target]), args.spec.softcap);
}

__device__ __forceinline__ void WriteIgnored(const CrossEntropyArgs& args, int64_t row) {
  args.loss[row] = 0.0f;
  if (args.nll != nullptr) args.nll[row] = 0.0f;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The compiler must not keep what it unpacked from `raw` before: the row fits in registers as it is
// stored, not as floats.
__device__ __forceinline__ void ForgetUnpacked(uint4* raw) {
  asm volatile("" : "+r"(raw->x), "+r"(raw->y), "+r"(raw->z), "+r"(raw->w));
}

// NaN is passed over. bfloat16 is compared in pairs as it is stored.
template <typename T>
__device__ __forceinline__ float MaxOfStored(const uint4& raw) {
  if constexpr (sizeof(T) == 2) {
    const __nv_bfloat162* z = reinterpret_cast<const __nv_bfloat162*>(&raw);
    const __nv_bfloat162 pair = __hmax2(__hmax2(z[0], z[1]), __hmax2(z[2], z[3]));
    return fmaxf(__low2float(pair), __high2float(pair));
  } else {
    cuda::Vector<T> x;
    x.Unpack(raw);
    return MaxOf(x.value);
  }
}

__device__ __forceinline__ Partial Merge(const Partial& a, const Partial& b) {
  const float c = fmaxf(a.reference, b.reference);
  return {c, a.exponentials * Exp2(a.reference - c) + b.exponentials * Exp2(b.reference - c),
          a.logits + b.logits};
}

__device__ __forceinline__ unsigned ClusterRank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ unsigned ClusterSize() {
  unsigned size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
__device__ __forceinline__ void ClusterArrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void ClusterWait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// *local of the block `rank` of this cluster becomes `value`.
__device__ __forceinline__ void StoreRemote(float* local, unsigned rank, float value) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(local));
  asm volatile(
      "{ .reg .u32 remote;\n"
      "  mapa.shared::cluster.u32 remote, %0, %1;\n"
      "  st.shared::cluster.f32 [remote], %2; }" ::"r"(address),
      "r"(rank), "f"(value)
      : "memory");
}

// The merge of the cluster's blocks, the same in every thread. The barrier that the caller arrived
// at says that all blocks have started; a block waits here until all have pushed, so that none
// leaves before it is written to.
__device__ __forceinline__ Partial ClusterMerge(const Partial& mine, Partial* warps,
                                                Partial* blocks) {
  const Partial block = BlockMerge(mine, warps);
  const unsigned size = ClusterSize();
  ClusterWait();
  if (threadIdx.x < size) {
    Partial* slot = &blocks[ClusterRank()];
    StoreRemote(&slot->reference, threadIdx.x, block.reference);
    StoreRemote(&slot->exponentials, threadIdx.x, block.exponentials);
    StoreRemote(&slot->logits, threadIdx.x, block.logits);
  }
  __syncwarp();
  ClusterArrive();
  ClusterWait();
  Partial all = blocks[0];
  for (unsigned i = 1; i < size; ++i) all = Merge(all, blocks[i]);
  return all;
}

#endif

// Vector v of a row belongs to thread v % 512 of block v / 512 % cluster.
template <typename T, int kVectors, bool kSmoothing, bool kSoftcap>
__global__ void __launch_bounds__(kThreads, kVectors <= 5 && !kSoftcap ? 3 : 2)
    RegisterKernel(const CrossEntropyArgs args) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Vector = cuda::Vector<T>;
  __shared__ Partial warps[kWarps], blocks[kMaxCluster];
  const int cluster = static_cast<int>(ClusterSize()), rank = static_cast<int>(ClusterRank());
  const int64_t row = blockIdx.x / static_cast<unsigned>(cluster);
  const int vectors = static_cast<int>(args.spec.vocab) / Vector::kSize;
  const int first = rank * kThreads + static_cast<int>(threadIdx.x), step = cluster * kThreads;
  T* z = static_cast<T*>(args.logits) + row * args.spec.vocab;
  const int32_t target = args.targets[row];
  if (target == kIgnoreTarget) {
    if (first == 0) WriteIgnored(args, row);
    for (int v = first; args.gradient_scale != nullptr && v < vectors; v += step) {
      __stcs(reinterpret_cast<uint4*>(z) + v, uint4{0, 0, 0, 0});
    }
    return;
  }
  ClusterArrive();
  uint4 raw[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int v = first + j * step;
    if (v < vectors) raw[j] = __ldcs(reinterpret_cast<const uint4*>(z) + v);
  }
  const bool owns_target = InVocabulary(args, target) && target / Vector::kSize % step == first;
  float z_target = 0.0f;
  if (owns_target || first == 0) z_target = TargetLogit<T, kSoftcap>(args, z, target);

  Vector x;
  float maximum = kLowest;
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    if (first + j * step >= vectors) continue;
    maximum = fmaxf(maximum, MaxOfStored<T>(raw[j]));
  }
  Partial sums;
  sums.reference = fmaxf(kLowest, Cap<kSoftcap>(maximum, args.spec.softcap) * kLog2E);
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    if (first + j * step >= vectors) continue;
    ForgetUnpacked(&raw[j]);
    x.Unpack(raw[j]);
    CapAll<kSoftcap>(x.value, args.spec.softcap);
    AddLogits<kSmoothing>(x.value, &sums);
  }
  sums = ClusterMerge(sums, warps, blocks);
  if (args.gradient_scale != nullptr) {
    const Gradient gradient(args, sums);
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int v = first + j * step;
      if (v >= vectors) continue;
      ForgetUnpacked(&raw[j]);
      x.Unpack(raw[j]);
      gradient.Apply<kSoftcap>(x.value);
      x.StoreStreaming(z + int64_t{v} * Vector::kSize);
    }
    // Behind this thread's own store of the vector.
    if (owns_target) z[target] = cuda::FromFloat<T>(gradient.AtTarget<kSoftcap>(z_target));
  }
  if (first == 0) WriteLosses(args, row, sums, z_target);
#endif
}

template <typename V, bool kSmoothing, bool kSoftcap>
__device__ __forceinline__ Partial ReadRow(const typename V::Element* z, int64_t vocab,
                                           float softcap) {
  Partial sums;
  for (int64_t v = int64_t{threadIdx.x} * V::kSize; v < vocab; v += kThreads * V::kSize) {
    V x;
    x.Load(z + v);
    CapAll<kSoftcap>(x.value, softcap);
    const float reference = fmaxf(sums.reference, MaxOf(x.value) * kLog2E);
    sums.exponentials *= Exp2(sums.reference - reference);
    sums.reference = reference;
    AddLogits<kSmoothing>(x.value, &sums);
  }
  return sums;
}

// V: vectors, or single elements where rows are not aligned.
template <typename V, bool kSmoothing, bool kSoftcap>
__global__ void __launch_bounds__(kThreads, 2) TwoReadsKernel(const CrossEntropyArgs args) {
  using T = typename V::Element;
  __shared__ Partial warps[kWarps], block;
  const int64_t row = blockIdx.x, vocab = args.spec.vocab;
  const int64_t begin = int64_t{threadIdx.x} * V::kSize, step = kThreads * V::kSize;
  T* z = static_cast<T*>(args.logits) + row * vocab;
  const int32_t target = args.targets[row];
  if (target == kIgnoreTarget) {
    if (threadIdx.x == 0) WriteIgnored(args, row);
    const V zero{};
    for (int64_t v = begin; args.gradient_scale != nullptr && v < vocab; v += step) {
      zero.StoreStreaming(z + v);
    }
    return;
  }
  float z_target = 0.0f;
  const bool owns_target =
      InVocabulary(args, target) && target / V::kSize % kThreads == static_cast<int>(threadIdx.x);
  if (owns_target || threadIdx.x == 0) z_target = TargetLogit<T, kSoftcap>(args, z, target);
  const Partial merged =
      BlockMerge(ReadRow<V, kSmoothing, kSoftcap>(z, vocab, args.spec.softcap), warps);
  if (threadIdx.x == 0) block = merged;
  __syncthreads();
  const Partial sums = block;
  if (args.gradient_scale != nullptr) {
    const Gradient gradient(args, sums);
    for (int64_t v = begin; v < vocab; v += step) {
      V x;
      x.Load(z + v);
      gradient.Apply<kSoftcap>(x.value);
      x.StoreStreaming(z + v);
    }
    if (owns_target) z[target] = cuda::FromFloat<T>(gradient.AtTarget<kSoftcap>(z_target));
  }
  if (threadIdx.x == 0) WriteLosses(args, row, sums, z_target);
}

// Blocks of the smallest cluster that holds `vectors`; 0: none does.
int ClusterFor(int64_t vectors, int per_thread) {
  for (int cluster = 1; cluster <= kMaxCluster; cluster *= 2) {
    if (vectors <= int64_t{cluster} * kThreads * per_thread) return cluster;
  }
  return 0;
}

template <typename Kernel>
void LaunchClusters(Kernel kernel, int cluster, const CrossEntropyArgs& args, Stream* stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(args.rows * cluster));
  config.blockDim = dim3(kThreads);
  config.stream = cuda::Handle(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  cuda::CheckCuda(cudaLaunchKernelEx(&config, kernel, args), "CrossEntropy");
}

template <typename T, bool kSmoothing, bool kSoftcap>
void Launch(const CrossEntropyArgs& args, Stream* stream) {
  const bool aligned = cuda::Aligned<T>(args.logits, args.spec.vocab);
  const int64_t vectors = args.spec.vocab / cuda::kVector<T>;
  if (aligned && cuda::Capability() >= 90) {
    if (const int cluster = ClusterFor(vectors, 5); cluster > 0) {
      return LaunchClusters(RegisterKernel<T, 5, kSmoothing, kSoftcap>, cluster, args, stream);
    }
    if (const int cluster = ClusterFor(vectors, 10); cluster > 0) {
      return LaunchClusters(RegisterKernel<T, 10, kSmoothing, kSoftcap>, cluster, args, stream);
    }
  }
  cuda::ForVector<T>(aligned, [&](auto vector) {
    TwoReadsKernel<decltype(vector), kSmoothing, kSoftcap>
        <<<static_cast<unsigned>(args.rows), kThreads, 0, cuda::Handle(stream)>>>(args);
  });
}

}  // namespace

bool CrossEntropySupports(const CrossEntropySpec& spec) {
  return spec.vocab > 0 && spec.vocab <= std::numeric_limits<int32_t>::max() &&
         spec.label_smoothing >= 0.0f && spec.label_smoothing < 1.0f && spec.z_loss >= 0.0f &&
         spec.softcap >= 0.0f;
}

void CrossEntropy(const CrossEntropyArgs& args, Stream* stream) {
  cuda::RequireSupported(CrossEntropySupports(args.spec), "CrossEntropy");
  cuda::RequireExtent(args.rows, "CrossEntropy", "rows");
  if (args.rows == 0) return;
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool smoothing = args.spec.label_smoothing > 0.0f, softcap = args.spec.softcap > 0.0f;
    if (smoothing) {
      softcap ? Launch<T, true, true>(args, stream) : Launch<T, true, false>(args, stream);
    } else {
      softcap ? Launch<T, false, true>(args, stream) : Launch<T, false, false>(args, stream);
    }
  });
  cuda::CheckLaunch("CrossEntropy");
}

}  // namespace coxswain::kernels
