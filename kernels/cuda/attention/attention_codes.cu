// Codes of k and v for attention in FP8, and their scales.
//
// A block has 128 keys of a document and a kv head, of k or of v, a thread 8 x 8 elements of them
// in registers: the largest is the scale's. Values are turned through shared memory. What the codes
// stand for is stored as well. Keys behind a document's end, up to a multiple of 16, become values
// of 0; what lies behind them is not written.
// Bytes: 2 + 1 + 2 an element. Bitwise deterministic: maxima of integers, no atomics.
#include "kernels/cuda/attention/code_pieces.cuh"
#include "kernels/cuda/attention/documents.cuh"
#include "kernels/cuda/attention/fp8_attention.cuh"
#include "kernels/cuda/quantize/fp8_turned_tile.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = kTurnThreads;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kLanes = kTurnAcross;  // of a row
constexpr int kPieces = kTurnSide;   // of 8 elements: rows of a thread
static_assert(kTurnExtent == kFp8AttentionKeys);

// 128 keys of a document from `first` on, of which `keys` exist.
struct KeyTile {
  int document, begin, first, keys;
};
__device__ __forceinline__ KeyTile TileOfSlot(const HopperParams& p, int slot) {
  const int i =
      WarpLastAtMost(p.documents, slot, [&](int d) { return FirstCodeTile(p.cu_seqlens[d], d); });
  const int begin = p.cu_seqlens[i], end = p.cu_seqlens[i + 1];
  const int first = begin + (slot - FirstCodeTile(begin, i)) * kFp8AttentionKeys;
  return {i, begin, first, min(end - first, kFp8AttentionKeys)};
}

// The thread's place in a tile: its first row and column.
__device__ __forceinline__ int Down() { return static_cast<int>(threadIdx.x) / kLanes * kPieces; }
__device__ __forceinline__ int Across() { return static_cast<int>(threadIdx.x) % kLanes * 8; }

// The thread's 8 rows of 8 elements; 0 outside the tile and the head.
__device__ __forceinline__ void LoadSquare(const bf16* from, int64_t stride, int keys, int columns,
                                           uint4 (&pieces)[kPieces]) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    pieces[i] = {};
    if (Down() + i < keys && Across() < columns) {
      pieces[i] = __ldg(reinterpret_cast<const uint4*>(from + (Down() + i) * stride + Across()));
    }
  }
}
// In every thread.
__device__ __forceinline__ float ScaleOfBlock(const uint4 (&pieces)[kPieces], uint32_t* shared) {
  uint32_t pair = 0;
#pragma unroll
  for (const uint4& piece : pieces) pair = LargerSizes(pair, piece);
  const uint32_t largest = __reduce_max_sync(~0u, LargestSize(pair));
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = largest;
  __syncthreads();
  uint32_t of_block = 0;
#pragma unroll
  for (int warp = 0; warp < kThreads / kWarp; ++warp) of_block = max(of_block, shared[warp]);
  return Fp8AttentionScale(of_block);
}
// Stores what the codes stand for where the square came from.
__device__ __forceinline__ void StoreSquare(const uint2 (&codes)[kPieces], float scale,
                                            int64_t stride, int keys, int columns, bf16* to) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (Down() + i >= keys || Across() >= columns) continue;
    *reinterpret_cast<uint4*>(to + (Down() + i) * stride + Across()) = ValuesOf(codes[i], scale);
  }
}

__device__ __forceinline__ void WriteKeys(const HopperParams& p, const KeyTile& tile, int head,
                                          const uint2 (&codes)[kPieces], uint8_t* to) {
  if (Across() >= p.dim) return;
  const int64_t row = int64_t{p.kv_heads} * p.dim;
  to += tile.first * row + head * p.dim + Across();
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (Down() + i >= tile.keys) break;
    *reinterpret_cast<uint2*>(to + (Down() + i) * row) = codes[i];
  }
}

// The thread's columns into shared memory: 8 keys of a column are 8 bytes.
__device__ __forceinline__ void TurnSquare(const uint2 (&codes)[kPieces], TurnedTile& turned) {
#pragma unroll
  for (int column = 0; column < kTurnSide; ++column) {
    const unsigned selector = (column % 4) | (column % 4 + 4) << 4;
    const auto word = [&](int i) { return column < 4 ? codes[i].x : codes[i].y; };
    const auto pair = [&](int i) { return __byte_perm(word(i), word(i + 1), selector) & 0xffffu; };
    TurnedPiece(turned, column) = {pair(0) | pair(2) << 16, pair(4) | pair(6) << 16};
  }
}
// 16 keys in the order of the product's left operand (fp8_attention.cuh), of two pieces of 8.
__device__ __forceinline__ uint4 InOrderOfProbabilities(const uint2& low, const uint2& high) {
  return {__byte_perm(low.x, high.x, 0x5410), __byte_perm(low.x, high.x, 0x7632),
          __byte_perm(low.y, high.y, 0x5410), __byte_perm(low.y, high.y, 0x7632)};
}
__device__ __forceinline__ void WriteValues(const HopperParams& p, const AttentionCodes& codes,
                                            const KeyTile& tile, int head,
                                            const TurnedTile& turned) {
  constexpr int kChunks = kTurnAcross / 2;  // of 16 keys
  const int key = FirstValueKey(tile.begin, tile.document) + tile.first - tile.begin;
  uint8_t* to = codes.v + int64_t{head} * p.value_dim * codes.value_keys + key;
#pragma unroll
  for (int step = 0; step < kTurnExtent * kChunks / kThreads; ++step) {
    const int at = step * kThreads + static_cast<int>(threadIdx.x);
    const int row = at / kChunks, chunk = at % kChunks, turn = row / kTurnSide;
    if (row >= p.value_dim || 16 * chunk >= tile.keys) continue;
    *reinterpret_cast<uint4*>(to + int64_t{row} * codes.value_keys + 16 * chunk) =
        InOrderOfProbabilities(turned[row][(2 * chunk) ^ turn],
                               turned[row][(2 * chunk + 1) ^ turn]);
  }
}

#endif

__global__ void __launch_bounds__(kThreads)
    AttentionCodesKernel(HopperParams p, AttentionCodes codes) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ TurnedTile turned;
  __shared__ uint32_t maxima[kThreads / kWarp];
  const int slot = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const bool of_keys = blockIdx.z == 0;
  const KeyTile tile = TileOfSlot(p, slot);
  if (tile.keys <= 0) return;
  const int columns = of_keys ? p.dim : p.value_dim;
  const int64_t stride = of_keys ? p.k_row : p.v_row;
  const int64_t first = of_keys ? p.key(tile.first, head) : p.value(tile.first, head);
  uint4 pieces[kPieces];
  LoadSquare((of_keys ? p.k : p.v) + first, stride, tile.keys, columns, pieces);
  const float scale = ScaleOfBlock(pieces, maxima), inverse = ReciprocalOfPower(scale);
  uint2 made[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) made[i] = CodesOf(pieces[i], inverse);
  StoreSquare(made, scale, stride, tile.keys, columns,
              (of_keys ? codes.rounded_k : codes.rounded_v) + first);
  if (of_keys) {
    WriteKeys(p, tile, head, made, codes.k);
  } else {
    TurnSquare(made, turned);
    __syncthreads();
    WriteValues(p, codes, tile, head, turned);
  }
  float* scales = of_keys ? codes.k_scales : codes.v_scales;
  if (threadIdx.x == 0) scales[head * codes.tiles + slot] = scale;
#endif
}

}  // namespace

void LaunchAttentionCodes(const HopperParams& p, const AttentionCodes& codes, Stream* stream) {
  const dim3 tiles(static_cast<unsigned>(codes.tiles), static_cast<unsigned>(p.kv_heads), 2);
  AttentionCodesKernel<<<tiles, kThreads, 0, Handle(stream)>>>(p, codes);
}

}  // namespace coxswain::kernels::cuda
