// out[t] = s weight[ids[t]]; dweight[ids[t]] += s dout[t], added in token order.
//
// Forward: GatherRows, then a pass over out where s is not 1. Backward: a stable radix sort of (id,
// token) brings the tokens of an id together in token order. A block sums the runs of equal ids
// inside a chunk of kChunk sorted positions, each thread over its own columns, kUnroll rows and
// gradients in flight. A run inside one chunk is added to its row of dweight at once. A run that
// crosses chunks leaves one partial sum per chunk: `tail` of the chunk where it begins, `head` of
// those where it goes on; a second kernel adds them in chunk order to dweight. So the order of a
// sum depends on the ids alone and a frequent id is spread over many blocks: bitwise deterministic.
// Tokens whose row lies outside of the range that is added to get the key V, which sorts behind all
// ids, and are not read.
//
// A row's sum of a micro-step is one term of its gradient (gradient_sum.h): other rows stay as they
// are under each of its modes.
//
// Bytes: sizeof(T) per element of dout, 2 sizeof(gradient) per element of the rows of dweight that
// occur, 2 more of each companion; the sort moves about 60 bytes per token.
#include "kernels/tensors/rows.h"

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensors/gradient_sum.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kChunk = 128;  // sorted positions; one per thread when they are fetched
constexpr int kColumns = 4;  // of a thread
constexpr int kUnroll = 8;

// The parts of a workspace. A run crosses from a chunk to the next at most once per boundary, so
// that chunk c has its tail in row 2 c of `partial` and its head in row 2 c - 1.
struct BackwardMemory {
  uint32_t* tokens = nullptr;  // [T], 0, 1, ...
  uint32_t* keys = nullptr;    // [T], ids or V
  uint32_t* ids = nullptr;     // [T], sorted
  uint32_t* order = nullptr;   // [T], the token of each sorted id
  float* partial = nullptr;    // [max(0, 2 chunks - 2), H]
  void* sort = nullptr;
  size_t sort_bytes = 0;
  int64_t bytes = 0;
};

cudaError_t Sort(const EmbeddingSpec& spec, int64_t tokens, BackwardMemory* memory,
                 cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(memory->sort, memory->sort_bytes,
                                         static_cast<const uint32_t*>(memory->keys), memory->ids,
                                         memory->tokens, memory->order, static_cast<int>(tokens), 0,
                                         std::bit_width(static_cast<uint64_t>(spec.vocab)), stream);
}

// The parts within `data`, which may be null when only `bytes` is asked for.
BackwardMemory Partition(const EmbeddingSpec& spec, int64_t tokens, void* data) {
  BackwardMemory memory;
  cuda::CheckCuda(Sort(spec, tokens, &memory, nullptr), "EmbeddingBackward: sort");
  const auto take = [&](int64_t bytes) {
    char* part = data == nullptr ? nullptr : static_cast<char*>(data) + memory.bytes;
    memory.bytes += cuda::AlignUp(bytes);
    return static_cast<void*>(part);
  };
  const int64_t chunks = cuda::CeilDiv(tokens, kChunk);
  memory.tokens = static_cast<uint32_t*>(take(4 * tokens));
  memory.keys = static_cast<uint32_t*>(take(4 * tokens));
  memory.ids = static_cast<uint32_t*>(take(4 * tokens));
  memory.order = static_cast<uint32_t*>(take(4 * tokens));
  memory.partial =
      static_cast<float*>(take(4 * spec.hidden * std::max<int64_t>(0, 2 * chunks - 2)));
  memory.sort = take(static_cast<int64_t>(memory.sort_bytes));
  return memory;
}

// Elements of dweight that are added to, and the rows that they lie in.
struct Target {
  int64_t begin, end;
  uint32_t first_row, end_row;
  uint32_t none;  // key of a token whose row is not among them
  __device__ __forceinline__ bool Has(int64_t element) const {
    return element >= begin && element < end;
  }
};

__global__ void __launch_bounds__(kThreads)
    EmbeddingMakeKeysKernel(int64_t count, const int32_t* ids, Target target,
                            BackwardMemory memory) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const uint32_t id = static_cast<uint32_t>(ids[i]);
  memory.tokens[i] = static_cast<uint32_t>(i);
  memory.keys[i] = id >= target.first_row && id < target.end_row ? id : target.none;
}

constexpr uint32_t kNoId = ~0u;

// One chunk's sorted ids and tokens; id[0] and id[count + 1] are its neighbours'.
struct Chunk {
  uint32_t id[kChunk + 2];
  uint32_t token[kChunk];
};

__device__ __forceinline__ int LoadChunk(int64_t begin, int64_t tokens, const uint32_t* ids,
                                         const uint32_t* order, Chunk* chunk) {
  const int count = static_cast<int>(min(int64_t{kChunk}, tokens - begin));
  const int i = threadIdx.x;
  if (i < count) {
    chunk->id[i + 1] = ids[begin + i];
    chunk->token[i] = order[begin + i];
  }
  if (i == 0) chunk->id[0] = begin > 0 ? ids[begin - 1] : kNoId;
  if (i == 1) chunk->id[count + 1] = begin + count < tokens ? ids[begin + count] : kNoId;
  __syncthreads();
  return count;
}

template <typename G, int W>
__device__ __forceinline__ void AddToRow(const cuda::SumParameter& how, int64_t element,
                                         const float (&term)[W], cuda::Vector<G, W>* gradient) {
  if constexpr (sizeof(G) == sizeof(cuda::bf16)) {
    cuda::AddTerms(how, element, true, term, gradient);
  } else {
#pragma unroll
    for (int j = 0; j < W; ++j) gradient->value[j] += term[j];
  }
}

// Block (x, y): chunk x, columns from y kThreads W on.
template <typename T, typename G, int W>
__global__ void __launch_bounds__(kThreads)
    EmbeddingSumRunsKernel(int64_t tokens, int64_t hidden, Target target, const uint32_t* ids,
                           const uint32_t* order, const T* dout, float scale, float* partial,
                           cuda::SumParameter how, G* dweight) {
  using Input = cuda::Vector<T, W>;
  using Gradient = cuda::Vector<G, W>;
  __shared__ Chunk chunk;
  const int64_t c = blockIdx.x;
  const int count = LoadChunk(c * kChunk, tokens, ids, order, &chunk);
  const int64_t column = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * W;
  if (column >= hidden || chunk.id[1] == target.none) return;
  const uint32_t before = chunk.id[0], after = chunk.id[count + 1];
  cuda::Vector<float, W> sum = {};
  for (int first = 0; first < count; first += kUnroll) {
    typename Input::Raw raw[kUnroll] = {};
    typename Gradient::Raw held[kUnroll] = {};
    bool ends[kUnroll], whole[kUnroll];  // whether a run ends here, and began and ends in the chunk
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const int i = first + k;
      ends[k] = whole[k] = false;
      if (i >= count || chunk.id[i + 1] == target.none) continue;
      const uint32_t id = chunk.id[i + 1];
      const bool last = i + 1 == count;
      ends[k] = last || chunk.id[i + 2] != id;
      whole[k] = ends[k] && id != before && !(last && id == after);
      raw[k] = Input::FetchStreaming(dout + chunk.token[i] * hidden + column);
      const int64_t element = id * hidden + column;
      if (whole[k] && target.Has(element)) held[k] = Gradient::Fetch(dweight + element);
    }
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const int i = first + k;
      if (i >= count) continue;
      Input x;
      x.Unpack(raw[k]);
#pragma unroll
      for (int j = 0; j < W; ++j) sum.value[j] = fmaf(scale, x.value[j], sum.value[j]);
      if (!ends[k]) continue;
      const uint32_t id = chunk.id[i + 1];
      const int64_t element = id * hidden + column;
      if (whole[k] && target.Has(element)) {
        Gradient gradient;
        gradient.Unpack(held[k]);
        AddToRow(how, element, sum.value, &gradient);
        gradient.Store(dweight + element);
      } else if (!whole[k]) {
        sum.Store(partial + (id == before ? 2 * c - 1 : 2 * c) * hidden + column);
      }
      sum = {};
    }
  }
}

template <typename V>
__global__ void __launch_bounds__(kThreads)
    EmbeddingScaleKernel(int64_t vectors, float scale, typename V::Element* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= vectors) return;
  V x;
  x.Load(out + i * V::kSize);
#pragma unroll
  for (int j = 0; j < V::kSize; ++j) x.value[j] *= scale;
  x.Store(out + i * V::kSize);
}

// The first chunk after `first` that does not begin with `id`.
__device__ __forceinline__ int64_t EndOfRun(int64_t first, int64_t chunks, const uint32_t* ids,
                                            uint32_t id) {
  int64_t low = first + 1, high = chunks;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (ids[middle * kChunk] == id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Block (x, y): the run that begins in chunk x and goes on in the next one, if there is one.
template <typename G, int W>
__global__ void __launch_bounds__(kThreads)
    EmbeddingAddPartialsKernel(int64_t tokens, int64_t hidden, Target target, const uint32_t* ids,
                               const float* partial, cuda::SumParameter how, G* dweight) {
  const int64_t c = blockIdx.x, begin = c * kChunk, end = begin + kChunk;
  const int64_t column = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * W;
  if (end >= tokens || column >= hidden) return;
  const uint32_t id = ids[end - 1];
  if (ids[end] != id || (begin > 0 && ids[begin - 1] == id)) return;
  const int64_t element = id * hidden + column;
  if (id == target.none || !target.Has(element)) return;
  const int64_t last = EndOfRun(c, (tokens + kChunk - 1) / kChunk, ids, id);
  cuda::Vector<float, W> sum;
  sum.Load(partial + 2 * c * hidden + column);
#pragma unroll 8
  for (int64_t next = c + 1; next < last; ++next) {
    cuda::Vector<float, W> head;
    head.Load(partial + (2 * next - 1) * hidden + column);
#pragma unroll
    for (int j = 0; j < W; ++j) sum.value[j] += head.value[j];
  }
  cuda::Vector<G, W> gradient;
  gradient.Load(dweight + element);
  AddToRow(how, element, sum.value, &gradient);
  gradient.Store(dweight + element);
}

Target TargetOf(const EmbeddingBackwardArgs& args) {
  const int64_t hidden = args.spec.hidden, all = args.spec.vocab * hidden;
  const int64_t end = args.end < 0 ? all : args.end;
  if (args.begin < 0 || args.begin > end || end > all) {
    throw std::invalid_argument("EmbeddingBackward: elements [" + std::to_string(args.begin) +
                                ", " + std::to_string(end) + ") of a gradient of " +
                                std::to_string(all));
  }
  return {.begin = args.begin,
          .end = end,
          .first_row = static_cast<uint32_t>(args.begin / hidden),
          .end_row = static_cast<uint32_t>(cuda::CeilDiv(end, hidden)),
          .none = static_cast<uint32_t>(args.spec.vocab)};
}

template <typename T, typename G, int W>
void SumRuns(const EmbeddingBackwardArgs& args, const Target& target, const BackwardMemory& memory,
             cudaStream_t stream) {
  const int64_t hidden = args.spec.hidden;
  const dim3 grid(static_cast<unsigned>(cuda::CeilDiv(args.tokens, kChunk)),
                  static_cast<unsigned>(cuda::CeilDiv(hidden, kThreads * W)));
  G* dweight = static_cast<G*>(args.dweight);
  const cuda::SumParameter how = cuda::MakeSum(args.sum);
  EmbeddingSumRunsKernel<T, G, W><<<grid, kThreads, 0, stream>>>(
      args.tokens, hidden, target, memory.ids, memory.order, static_cast<const T*>(args.dout),
      args.spec.scale, memory.partial, how, dweight);
  EmbeddingAddPartialsKernel<G, W><<<grid, kThreads, 0, stream>>>(
      args.tokens, hidden, target, memory.ids, memory.partial, how, dweight);
}

}  // namespace

bool EmbeddingSupports(const EmbeddingSpec& spec) {
  return spec.vocab > 0 && spec.vocab <= std::numeric_limits<int32_t>::max() && spec.hidden > 0;
}

void EmbeddingForward(const EmbeddingForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(EmbeddingSupports(args.spec), "EmbeddingForward");
  GatherRows({.spec = {.dtype = args.spec.dtype, .columns = args.spec.hidden},
              .rows = args.tokens,
              .index = args.ids,
              .in = args.weight,
              .out = args.out},
             stream);
  const int64_t elements = args.tokens * args.spec.hidden;
  if (args.spec.scale == 1.0f || elements == 0) return;
  cuda::ForVectorOf(args.spec.dtype, args.spec.hidden, {args.out}, [&](auto vector) {
    using V = decltype(vector);
    const int64_t vectors = elements / V::kSize;
    EmbeddingScaleKernel<V><<<static_cast<unsigned>(cuda::CeilDiv(vectors, kThreads)), kThreads, 0,
                              cuda::Handle(stream)>>>(vectors, args.spec.scale,
                                                      static_cast<typename V::Element*>(args.out));
  });
  cuda::CheckLaunch("EmbeddingForward");
}

int64_t EmbeddingBackwardWorkspaceBytes(const EmbeddingSpec& spec, int64_t tokens) {
  return tokens == 0 ? 0 : Partition(spec, tokens, nullptr).bytes;
}

void EmbeddingBackward(const EmbeddingBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(
      EmbeddingSupports(args.spec) && args.tokens <= std::numeric_limits<int32_t>::max(),
      "EmbeddingBackward");
  cuda::RequireExtent(args.tokens, "EmbeddingBackward", "tokens");
  if (args.tokens == 0) return;
  BackwardMemory memory = Partition(args.spec, args.tokens, args.workspace.data);
  cuda::RequireWorkspace(args.workspace, memory.bytes, "EmbeddingBackward");
  const cudaStream_t handle = cuda::Handle(stream);
  const Target target = TargetOf(args);
  EmbeddingMakeKeysKernel<<<static_cast<unsigned>(cuda::CeilDiv(args.tokens, kThreads)), kThreads,
                            0, handle>>>(args.tokens, args.ids, target, memory);
  cuda::CheckCuda(Sort(args.spec, args.tokens, &memory, handle), "EmbeddingBackward: sort");
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    cuda::ForDType(args.spec.grad_dtype, [&](auto gradient_zero) {
      using T = decltype(zero);
      using G = decltype(gradient_zero);
      const bool aligned = cuda::Aligned<float>(args.dout, args.spec.hidden) &&
                           cuda::Aligned<float>(args.dweight, args.spec.hidden) &&
                           cuda::Aligned<float>(args.sum.companion, args.spec.hidden) &&
                           target.begin % kColumns == 0 && target.end % kColumns == 0;
      if (aligned) {
        SumRuns<T, G, kColumns>(args, target, memory, handle);
      } else {
        SumRuns<T, G, 1>(args, target, memory, handle);
      }
    });
  });
  cuda::CheckLaunch("EmbeddingBackward");
}

}  // namespace coxswain::kernels
