// Cross-entropy of logits and its gradient, in their place or not (kernels/loss/cross_entropy.h has
// the formulas).
//
// Rows that start at multiples of 16 bytes are read by vectors of 16; the elements behind the last
// whole one, fewer than a vector has, by a thread each.
//
// Row in shared memory (compute capability 9.0, such rows that fit): a cluster of 1, 2, 4 or 8
// blocks holds a row, in slices that bulk copies bring in. A cluster walks the rows; a block has
// two slices, so that the next row arrives while this one is reduced, and up to three blocks share
// a multiprocessor. The blocks push their partials into each other's shared memory, where an
// mbarrier counts the bytes. One read and one write: 2 sizeof(T) bytes per element, losses alone
// sizeof(T). Otherwise: one block per row, which reads it twice (3 sizeof(T)). An ignored row is
// not read. Bitwise deterministic: every sum has an order fixed by the row length. Source: Milakov
// and Gimelshein, "Online normalizer calculation for softmax", 2018.
#include "kernels/loss/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/loss/cross_entropy_row.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tiles/cluster.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace cuda::cross_entropy {
namespace {

constexpr int kMaxCluster = 8;  // more is not portable

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// NaN is passed over. bfloat16 is compared in pairs as it is stored.
template <typename T>
__device__ __forceinline__ float MaxOfStored(const uint4& raw) {
  if constexpr (sizeof(T) == 2) {
    const __nv_bfloat162* z = reinterpret_cast<const __nv_bfloat162*>(&raw);
    const __nv_bfloat162 pair = __hmax2(__hmax2(z[0], z[1]), __hmax2(z[2], z[3]));
    return fmaxf(__low2float(pair), __high2float(pair));
  } else {
    Vector<T> x;
    x.Unpack(raw);
    return MaxOf(x.value);
  }
}

// Merges the partials of the cluster's blocks. Two sets of slots take turns: a block can push those
// of the turn after next only when all have pushed those of the next, which they do after reading
// this one's.
struct ClusterMerger {
  Partial warps[kWarps];
  Partial slots[2][kMaxCluster];
  uint64_t pushed[2];

  // By all threads; the cluster meets before the first merge.
  __device__ __forceinline__ void Init() {
    if (threadIdx.x < 2 * kMaxCluster) {
      slots[threadIdx.x / kMaxCluster][threadIdx.x % kMaxCluster] = Empty();
    }
    if (threadIdx.x != 0) return;
    for (uint64_t& barrier : pushed) InitBarrier(&barrier);
    PublishBarriers();
    for (uint64_t& barrier : pushed) ExpectBytes(&barrier, ClusterSize() * sizeof(Partial));
  }

  // The same in every thread of the cluster. `turn` counts the merges.
  __device__ __forceinline__ Partial Merge(const Partial& mine, unsigned turn) {
    const Partial block = BlockMerge(mine, warps);
    const unsigned set = turn % 2, parity = turn / 2 % 2;
    if (ClusterSize() == 1) {  // pushes are for clusters of two blocks or more
      if (threadIdx.x == 0) slots[set][0] = block;
      __syncthreads();
      return LaneMerge<kMaxCluster>(slots[set][threadIdx.x % kMaxCluster]);
    }
    if (threadIdx.x < ClusterSize()) {
      const float4 value{block.reference, block.exponentials, block.logits, 0.0f};
      Push(&slots[set][ClusterRank()], &pushed[set], threadIdx.x, value);
    }
    WaitForPhase(&pushed[set], parity);
    // Before this block's next push, which the turn after next waits for.
    if (threadIdx.x == 0) ExpectBytes(&pushed[set], ClusterSize() * sizeof(Partial));
    __syncwarp();
    return LaneMerge<kMaxCluster>(slots[set][threadIdx.x % kMaxCluster]);
  }
};

// Vectors [begin, begin + count) of every row are this block's, and of the last block the `tail`
// elements behind them; vector i of them belongs to thread i % 512, element i of the tail to thread
// i.
template <typename T>
struct Slice {
  static constexpr int kSize = kVector<T>;
  int begin, count, tail;
  bool last;  // of the row's

  // Of a matrix with the rows of the logits.
  __device__ __forceinline__ T* Of(void* matrix, int64_t ld, int64_t row) const {
    return static_cast<T*>(matrix) + row * ld + int64_t{begin} * kSize;
  }
  // Index in the slice of an element of the row; -1 where it is another block's.
  __device__ __forceinline__ int Find(int element) const {
    const int own = element - begin * kSize;
    return own >= 0 && own < whole() + tail ? own : -1;
  }
  __device__ __forceinline__ int whole() const { return count * kSize; }
  __device__ __forceinline__ int OwnerOf(int own) const {
    return own < whole() ? own / kSize % kThreads : own - whole();
  }
  __device__ __forceinline__ unsigned bytes() const {
    return static_cast<unsigned>((count + (tail > 0)) * sizeof(uint4));
  }
};

// In one access: the compiler would split it along the elements that are unpacked from it.
__device__ __forceinline__ uint4 LoadWhole(const uint4* p) {
  uint4 raw = *p;
  asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
  return raw;
}

template <typename T, bool kSmoothing, bool kSoftcap>
__device__ __forceinline__ Partial SumSlice(const uint4* slice, const Slice<T>& mine,
                                            const Softcap& softcap) {
  float maximum = kLowest;
  for (int v = threadIdx.x; v < mine.count; v += kThreads) {
    maximum = fmaxf(maximum, MaxOfStored<T>(LoadWhole(slice + v)));
  }
  const bool has_tail = static_cast<int>(threadIdx.x) < mine.tail;
  const T* tail = reinterpret_cast<const T*>(slice + mine.count) + threadIdx.x;
  if (has_tail) maximum = fmaxf(maximum, ToFloat(*tail));
  if constexpr (kSoftcap) maximum = softcap.Of(maximum);
  Partial sums = Empty();
  sums.reference = fmaxf(kLowest, maximum * kLog2E);
  for (int v = threadIdx.x; v < mine.count; v += kThreads) {
    Vector<T> x;
    x.Unpack(LoadWhole(slice + v));
    CapAll<kSoftcap>(x.value, softcap);
    AddLogits<kSmoothing>(x.value, &sums);
  }
  if (has_tail) {
    Vector<T, 1> x;
    x.Load(tail);
    CapAll<kSoftcap>(x.value, softcap);
    AddLogits<kSmoothing>(x.value, &sums);
  }
  return sums;
}

template <typename T>
__device__ __forceinline__ void WriteIgnoredSlice(const CrossEntropyArgs& args, int64_t row,
                                                  const Slice<T>& mine) {
  if (mine.begin == 0 && threadIdx.x == 0) WriteIgnored(args, row);
  if (args.gradient_scale == nullptr) return;
  uint4* dz = reinterpret_cast<uint4*>(mine.Of(args.gradient, args.ld, row));
  for (int v = threadIdx.x; v < mine.count; v += kThreads) __stcs(dz + v, uint4{0, 0, 0, 0});
  if (mine.last) ZeroFrom<T>(args, row, int64_t{mine.begin + mine.count} * mine.kSize);
}

// Writes the row's losses and, where it is asked for, its gradient. `slice` is in shared memory.
template <typename T, bool kSoftcap>
__device__ __forceinline__ void WriteSlice(const CrossEntropyArgs& args, int64_t row,
                                           const Slice<T>& mine, const uint4* slice, int32_t target,
                                           const Partial& sums, Gradient gradient) {
  const int own = InVocabulary(args, target) ? mine.Find(target) : -1;
  const int writer = own >= 0 ? mine.OwnerOf(own) : 0;
  const bool writes = static_cast<int>(threadIdx.x) == writer &&
                      (InVocabulary(args, target) ? own >= 0 : mine.begin == 0);
  T* dz = mine.Of(args.gradient, args.ld, row);
  if (args.gradient_scale != nullptr) {
    gradient.SetWeight(args, row);
    gradient.SetRow(sums);
    for (int v = threadIdx.x; v < mine.count; v += kThreads) {
      Vector<T> x;
      x.Unpack(LoadWhole(slice + v));
      gradient.Apply<kSoftcap>(x.value);
      x.StoreStreaming(dz + int64_t{v} * mine.kSize);
    }
    if (static_cast<int>(threadIdx.x) < mine.tail) {
      Vector<T, 1> x;
      x.Load(reinterpret_cast<const T*>(slice + mine.count) + threadIdx.x);
      gradient.Apply<kSoftcap>(x.value);
      x.Store(dz + mine.whole() + threadIdx.x);
    }
    if (mine.last) ZeroFrom<T>(args, row, args.spec.vocab);
  }
  if (!writes) return;
  float z_target = nanf("");  // a target outside the vocabulary
  if (own >= 0) {
    z_target = ToFloat(reinterpret_cast<const T*>(slice)[own]);
    if constexpr (kSoftcap) z_target = gradient.softcap.Of(z_target);
    // Behind this thread's own store of the vector or element.
    if (args.gradient_scale != nullptr) {
      dz[own] = FromFloat<T>(gradient.AtTarget<kSoftcap>(z_target));
    }
  }
  WriteLosses(args, row, sums, z_target);
}

#endif

// A cluster takes every (gridDim / cluster)-th row. A slice is `slice` vectors, the last block's
// what remains.
template <typename T, bool kSmoothing, bool kSoftcap>
__global__ void __launch_bounds__(kThreads, 3)
    CrossEntropySliceKernel(const CrossEntropyArgs args, int slice) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ uint4 slices[];  // [2][slice]
  __shared__ ClusterMerger merger;
  __shared__ uint64_t full[2];
  const int begin = static_cast<int>(ClusterRank()) * slice;
  const int vocab = static_cast<int>(args.spec.vocab), vectors = vocab / kVector<T>;
  const bool last = ClusterRank() + 1 == ClusterSize();
  const Slice<T> mine{begin, min(slice, vectors - begin), last ? vocab % kVector<T> : 0, last};
  const int64_t step = gridDim.x / ClusterSize();
  const Gradient gradient(args);
  const auto target_of = [&](int64_t row) {
    return row < args.rows ? args.targets[row] : kIgnoreTarget;
  };
  const auto fetch = [&](int64_t row, int32_t target, int stage) {
    if (threadIdx.x != 0 || target == kIgnoreTarget) return;
    CopyToShared(slices + stage * slice, mine.Of(args.logits, args.ld, row), mine.bytes(),
                 &full[stage]);
  };
  if (threadIdx.x == 0) {
    InitBarrier(&full[0]);
    InitBarrier(&full[1]);
  }
  merger.Init();
  ClusterBarrier();
  int64_t row = blockIdx.x / ClusterSize();
  int32_t target = target_of(row), next = target_of(row + step);
  fetch(row, target, 0);
  fetch(row + step, next, 1);
  unsigned parities = 0, turn = 0;  // a bit for each stage: that of its next phase
  for (int stage = 0; row < args.rows; row += step, stage ^= 1) {
    const int32_t after = target_of(row + 2 * step);
    if (target == kIgnoreTarget) {
      WriteIgnoredSlice(args, row, mine);
    } else {
      const uint4* z = slices + stage * slice;
      WaitForPhase(&full[stage], parities >> stage & 1);
      parities ^= 1u << stage;
      const Partial sums =
          merger.Merge(SumSlice<T, kSmoothing, kSoftcap>(z, mine, gradient.softcap), turn++);
      WriteSlice<T, kSoftcap>(args, row, mine, z, target, sums, gradient);
    }
    __syncthreads();  // the slice has been read
    fetch(row + 2 * step, after, stage);
    target = next;
    next = after;
  }
  ClusterBarrier();  // none leaves while another writes to it
#endif
}

template <typename V, bool kSmoothing, bool kSoftcap>
__device__ __forceinline__ Partial ReadRow(const typename V::Element* z, int64_t vocab,
                                           const Softcap& softcap) {
  Partial sums = Empty();
  const int64_t whole = vocab / V::kSize * V::kSize;
  const auto add = [&](auto x, int64_t column) {
    x.Load(z + column);
    CapAll<kSoftcap>(x.value, softcap);
    const float reference = fmaxf(sums.reference, MaxOf(x.value) * kLog2E);
    sums.exponentials *= Exp2(sums.reference - reference);
    sums.reference = reference;
    AddLogits<kSmoothing>(x.value, &sums);
  };
  for (int64_t v = int64_t{threadIdx.x} * V::kSize; v < whole; v += kThreads * V::kSize) {
    add(V{}, v);
  }
  const int64_t lone = whole + threadIdx.x;
  if (lone < vocab) add(Vector<typename V::Element, 1>{}, lone);
  return sums;
}

// V: vectors, or single elements alone where rows are not aligned.
template <typename V, bool kSmoothing, bool kSoftcap>
__global__ void __launch_bounds__(kThreads, 2)
    CrossEntropyTwoReadsKernel(const CrossEntropyArgs args) {
  using T = typename V::Element;
  __shared__ Partial warps[kWarps], block;
  const int64_t row = blockIdx.x, vocab = args.spec.vocab;
  const int64_t begin = int64_t{threadIdx.x} * V::kSize, step = kThreads * V::kSize;
  const int64_t whole = vocab / V::kSize * V::kSize, lone = whole + threadIdx.x;
  const T* z = static_cast<const T*>(args.logits) + row * args.ld;
  T* dz = static_cast<T*>(args.gradient) + row * args.ld;
  const int32_t target = args.targets[row];
  if (target == kIgnoreTarget) {
    if (threadIdx.x == 0) WriteIgnored(args, row);
    const V zero{};
    for (int64_t v = begin; args.gradient_scale != nullptr && v < whole; v += step) {
      zero.StoreStreaming(dz + v);
    }
    if (args.gradient_scale != nullptr) ZeroFrom<T>(args, row, whole);
    return;
  }
  float z_target = 0.0f;
  const bool owns_target =
      InVocabulary(args, target) &&
      (target < whole ? target / V::kSize % kThreads == static_cast<int>(threadIdx.x)
                      : target == lone);
  if (owns_target || threadIdx.x == 0) z_target = TargetLogit<T, kSoftcap>(args, z, target);
  Gradient gradient(args);
  const Partial merged =
      BlockMerge(ReadRow<V, kSmoothing, kSoftcap>(z, vocab, gradient.softcap), warps);
  if (threadIdx.x == 0) block = merged;
  __syncthreads();
  const Partial sums = block;
  if (args.gradient_scale != nullptr) {
    gradient.SetWeight(args, row);
    gradient.SetRow(sums);
    const auto replace = [&](auto x, int64_t column) {
      x.Load(z + column);
      gradient.Apply<kSoftcap>(x.value);
      x.StoreStreaming(dz + column);
    };
    for (int64_t v = begin; v < whole; v += step) replace(V{}, v);
    if (lone < vocab) replace(Vector<T, 1>{}, lone);
    ZeroFrom<T>(args, row, vocab);
    if (owns_target) dz[target] = FromFloat<T>(gradient.AtTarget<kSoftcap>(z_target));
  }
  if (threadIdx.x == 0) WriteLosses(args, row, sums, z_target);
}

// Blocks of the smallest cluster whose slices let three blocks share a multiprocessor (228 KiB), or
// 8 whose slices fit one; 0: none does.
int ClusterFor(int64_t vectors) {
  constexpr int64_t kShared = 2376, kAlone = 7168;  // vectors of a slice
  for (int cluster = 1; cluster <= kMaxCluster; cluster *= 2) {
    if (vectors <= cluster * kShared) return cluster;
  }
  return vectors <= kMaxCluster * kAlone ? kMaxCluster : 0;
}

// As many clusters as run at once.
template <typename Kernel>
void LaunchClusters(Kernel kernel, int cluster, int slice, const CrossEntropyArgs& args,
                    Stream* stream) {
  const int bytes = 2 * slice * static_cast<int>(sizeof(uint4));
  AllowSharedMemory(kernel, bytes, "CrossEntropy");
  CheckCuda(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared),
            "CrossEntropy");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = Handle(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  const int64_t most = std::min<int64_t>(args.rows, 4 * Multiprocessors());
  config.gridDim = dim3(static_cast<unsigned>(most * cluster));
  int resident = 0;
  CheckCuda(cudaOccupancyMaxActiveClusters(&resident, kernel, &config), "CrossEntropy");
  const int64_t clusters = std::min<int64_t>(most, std::max(resident, 1));
  config.gridDim = dim3(static_cast<unsigned>(clusters * cluster));
  CheckCuda(cudaLaunchKernelEx(&config, kernel, args, slice), "CrossEntropy");
}

template <typename T, bool kSmoothing, bool kSoftcap>
void Launch(const CrossEntropyArgs& args, Stream* stream) {
  const bool aligned = Aligned<T>(args.logits, args.ld) && Aligned<T>(args.gradient, args.ld);
  const int64_t vectors = CeilDiv(args.spec.vocab, kVector<T>);
  if (aligned && Capability() == 90) {
    if (const int cluster = ClusterFor(vectors); cluster > 0) {
      const int slice = static_cast<int>(CeilDiv(vectors, cluster));
      return LaunchClusters(CrossEntropySliceKernel<T, kSmoothing, kSoftcap>, cluster, slice, args,
                            stream);
    }
  }
  ForVector<T>(aligned, [&](auto vector) {
    CrossEntropyTwoReadsKernel<decltype(vector), kSmoothing, kSoftcap>
        <<<static_cast<unsigned>(args.rows), kThreads, 0, Handle(stream)>>>(args);
  });
}

}  // namespace
}  // namespace cuda::cross_entropy

bool CrossEntropySupports(const CrossEntropySpec& spec) {
  return spec.vocab > 0 && spec.vocab <= std::numeric_limits<int32_t>::max() &&
         spec.label_smoothing >= 0.0f && spec.label_smoothing < 1.0f && spec.z_loss >= 0.0f &&
         spec.softcap >= 0.0f;
}

void CrossEntropy(const CrossEntropyArgs& args, Stream* stream) {
  cuda::RequireSupported(CrossEntropySupports(args.spec), "CrossEntropy");
  cuda::RequireExtent(args.rows, "CrossEntropy", "rows");
  if (args.rows == 0) return;
  CrossEntropyArgs strided = args;
  if (args.gradient == nullptr) strided.gradient = args.logits;
  strided.ld = cuda::RowStride(args.ld, args.spec.vocab, "CrossEntropy");
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool smoothing = args.spec.label_smoothing > 0.0f, softcap = args.spec.softcap > 0.0f;
    if (smoothing) {
      softcap ? cuda::cross_entropy::Launch<T, true, true>(strided, stream)
              : cuda::cross_entropy::Launch<T, true, false>(strided, stream);
    } else {
      softcap ? cuda::cross_entropy::Launch<T, false, true>(strided, stream)
              : cuda::cross_entropy::Launch<T, false, false>(strided, stream);
    }
  });
  cuda::CheckLaunch("CrossEntropy");
}

}  // namespace coxswain::kernels
