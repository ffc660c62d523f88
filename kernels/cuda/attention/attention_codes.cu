// Codes of q, k and v for attention in FP8, and their scales.
//
// A thread has 8 x 8 elements in registers. A block has 192 keys of a document and a kv head, of k
// or of v: its maximum is its scale's. Values are turned through shared memory. Rows of query heads
// have 16 lanes each, in a launch of their own. Keys behind a document's end, up to a multiple of
// 16, become values of 0; what lies behind them is not written. Bytes: 2 + 1 an element. Bitwise
// deterministic: maxima of integers, no atomics.
#include <cuda_fp8.h>

#include "kernels/cuda/attention/documents.cuh"
#include "kernels/cuda/attention/fp8_attention.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kSide = 8;             // rows, and columns, of a thread
constexpr int kLanes = 128 / kSide;  // threads beside each other
constexpr int kThreads = kFp8AttentionKeys / kSide * kLanes;
constexpr int kQueryThreads = 256;
constexpr int kQueryPieces = 4;  // of 8 elements, of a thread
constexpr int kQueryRows = kQueryThreads / kLanes * kQueryPieces;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// 128 columns of 24 pieces of 8 keys on their way from rows. Of 8 pieces in order, the order
// changes with every 8 columns, so that writes and reads of a warp are spread over the banks.
constexpr int kPieces = kFp8AttentionKeys / kSide;
using TurnedTile = uint2[128][kPieces];
__device__ __forceinline__ uint2& PieceOf(TurnedTile& tile, int column, int piece) {
  return tile[column][(piece & ~7) | ((piece ^ column / kSide) & 7)];
}

// The largest of the sizes of pairs of bfloat16, in both halves.
__device__ __forceinline__ uint32_t LargerSizes(uint32_t largest, const uint4& piece) {
  constexpr uint32_t kSizes = 0x7fff7fffu;
  largest = __vmaxu2(largest, __vmaxu2(piece.x & kSizes, piece.y & kSizes));
  return __vmaxu2(largest, __vmaxu2(piece.z & kSizes, piece.w & kSizes));
}
// As the bits of a float32.
__device__ __forceinline__ uint32_t LargestSize(uint32_t pair) {
  return max(pair << 16, pair & 0xffff0000u);
}

__device__ __forceinline__ uint32_t CodePair(uint32_t values, float inverse) {
  const float2 scaled = make_float2(__uint_as_float(values << 16) * inverse,
                                    __uint_as_float(values & 0xffff0000u) * inverse);
  return __nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, __NV_E4M3);
}
__device__ __forceinline__ uint2 CodesOf(const uint4& piece, float inverse) {
  return {CodePair(piece.x, inverse) | CodePair(piece.y, inverse) << 16,
          CodePair(piece.z, inverse) | CodePair(piece.w, inverse) << 16};
}

// Row i of the block's queries: a head of a token.
struct QueryRow {
  int token, head;
};
__device__ __forceinline__ QueryRow QueryRowOf(const HopperParams& p, int first_token,
                                               int first_head, int i) {
  const auto heads = static_cast<unsigned>(p.heads);
  const unsigned head = static_cast<unsigned>(first_head + i), tokens = head / heads;
  return {first_token + static_cast<int>(tokens), static_cast<int>(head - tokens * heads)};
}

__device__ __forceinline__ void EncodeQueries(const HopperParams& p, const AttentionCodes& codes,
                                              int64_t block) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, column = lane * 8;
  const int64_t first = block * kQueryRows;
  const auto first_token = static_cast<int>(first / p.heads);
  const int first_head = static_cast<int>(first - int64_t{first_token} * p.heads);
  QueryRow rows[kQueryPieces];
  uint4 pieces[kQueryPieces];
#pragma unroll
  for (int i = 0; i < kQueryPieces; ++i) {
    rows[i] = QueryRowOf(p, first_token, first_head,
                         (static_cast<int>(threadIdx.x) + i * kQueryThreads) / kLanes);
    pieces[i] = {};
    if (rows[i].token < p.tokens && column < p.dim) {
      const bf16* from = p.q + p.query(rows[i].token, rows[i].head) + column;
      pieces[i] = __ldg(reinterpret_cast<const uint4*>(from));
    }
  }
#pragma unroll
  for (int i = 0; i < kQueryPieces; ++i) {
    const auto [token, head] = rows[i];
    uint32_t largest = LargestSize(LargerSizes(0, pieces[i]));
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      largest = max(largest, __shfl_xor_sync(~0u, largest, offset));
    }
    if (token >= p.tokens) continue;
    const float scale = Fp8AttentionScale(largest);
    if (column < p.dim) {
      uint8_t* to = codes.q + (int64_t{token} * p.heads + head) * p.dim + column;
      *reinterpret_cast<uint2*>(to) = CodesOf(pieces[i], ReciprocalOfPower(scale));
    }
    if (lane == 0) {
      const int kv_head = head / p.group_heads;
      codes.q_scales[PackedIndex(p, kv_head, token) + head - kv_head * p.group_heads] = scale;
    }
  }
}

// 192 keys of a document from `first` on, of which `keys` exist.
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

// The thread's 8 rows of 8 elements; 0 outside the tile and the head.
__device__ __forceinline__ void LoadSquare(const bf16* from, int64_t stride, int keys, int columns,
                                           uint4 (&pieces)[kSide]) {
  const int down = static_cast<int>(threadIdx.x) / kLanes * kSide;
  const int column = static_cast<int>(threadIdx.x) % kLanes * 8;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    pieces[i] = {};
    if (down + i < keys && column < columns) {
      pieces[i] = __ldg(reinterpret_cast<const uint4*>(from + (down + i) * stride + column));
    }
  }
}
// In every thread.
__device__ __forceinline__ float ScaleOfBlock(const uint4 (&pieces)[kSide], uint32_t* shared) {
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

__device__ __forceinline__ void WriteKeys(const HopperParams& p, const KeyTile& tile, int head,
                                          const uint4 (&pieces)[kSide], float inverse,
                                          uint8_t* codes) {
  const int down = static_cast<int>(threadIdx.x) / kLanes * kSide;
  const int column = static_cast<int>(threadIdx.x) % kLanes * 8;
  if (column >= p.dim) return;
  const int64_t row = int64_t{p.kv_heads} * p.dim;
  uint8_t* to = codes + tile.first * row + head * p.dim + column;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    if (down + i >= tile.keys) break;
    *reinterpret_cast<uint2*>(to + (down + i) * row) = CodesOf(pieces[i], inverse);
  }
}

// The thread's columns into shared memory: 8 keys of a column are 8 bytes.
__device__ __forceinline__ void TurnSquare(const uint4 (&pieces)[kSide], float inverse,
                                           TurnedTile& turned) {
  const int across = static_cast<int>(threadIdx.x) % kLanes * kSide;
  const int down = static_cast<int>(threadIdx.x) / kLanes;
  uint2 rows[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) rows[i] = CodesOf(pieces[i], inverse);
#pragma unroll
  for (int column = 0; column < kSide; ++column) {
    const unsigned selector = (column % 4) | (column % 4 + 4) << 4;
    const auto word = [&](int i) { return column < 4 ? rows[i].x : rows[i].y; };
    const auto pair = [&](int i) { return __byte_perm(word(i), word(i + 1), selector) & 0xffffu; };
    PieceOf(turned, across + column, down) = {pair(0) | pair(2) << 16, pair(4) | pair(6) << 16};
  }
}
// 16 keys in the order of the product's left operand (fp8_attention.cuh), of two pieces of 8.
__device__ __forceinline__ uint4 InOrderOfProbabilities(const uint2& low, const uint2& high) {
  return {__byte_perm(low.x, high.x, 0x5410), __byte_perm(low.x, high.x, 0x7632),
          __byte_perm(low.y, high.y, 0x5410), __byte_perm(low.y, high.y, 0x7632)};
}
__device__ __forceinline__ void WriteValues(const HopperParams& p, const AttentionCodes& codes,
                                            const KeyTile& tile, int head, TurnedTile& turned) {
  constexpr int kChunks = kPieces / 2;  // of 16 keys
  const int key = FirstValueKey(tile.begin, tile.document) + tile.first - tile.begin;
  uint8_t* to = codes.v + int64_t{head} * p.value_dim * codes.value_keys + key;
#pragma unroll
  for (int step = 0; step < 128 * kChunks / kThreads; ++step) {
    const int at = step * kThreads + static_cast<int>(threadIdx.x);
    const int row = at / kChunks, chunk = at % kChunks;
    if (row >= p.value_dim || 16 * chunk >= tile.keys) continue;
    *reinterpret_cast<uint4*>(to + int64_t{row} * codes.value_keys + 16 * chunk) =
        InOrderOfProbabilities(PieceOf(turned, row, 2 * chunk),
                               PieceOf(turned, row, 2 * chunk + 1));
  }
}

#endif

__global__ void __launch_bounds__(kQueryThreads)
    AttentionQueryCodesKernel(HopperParams p, AttentionCodes codes) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  EncodeQueries(p, codes, blockIdx.x);
#endif
}

__global__ void __launch_bounds__(kThreads, 2)
    AttentionKeyCodesKernel(HopperParams p, AttentionCodes codes) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ TurnedTile turned;
  __shared__ uint32_t maxima[kThreads / kWarp];
  const int slot = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const KeyTile tile = TileOfSlot(p, slot);
  if (tile.keys <= 0) return;
  uint4 pieces[kSide];
  if (blockIdx.z == 0) {
    LoadSquare(p.k + p.key(tile.first, head), p.k_row, tile.keys, p.dim, pieces);
    const float scale = ScaleOfBlock(pieces, maxima);
    WriteKeys(p, tile, head, pieces, ReciprocalOfPower(scale), codes.k);
    if (threadIdx.x == 0) codes.k_scales[head * codes.tiles + slot] = scale;
  } else {
    LoadSquare(p.v + p.value(tile.first, head), p.v_row, tile.keys, p.value_dim, pieces);
    const float scale = ScaleOfBlock(pieces, maxima);
    TurnSquare(pieces, ReciprocalOfPower(scale), turned);
    __syncthreads();
    WriteValues(p, codes, tile, head, turned);
    if (threadIdx.x == 0) codes.v_scales[head * codes.tiles + slot] = scale;
  }
#endif
}

}  // namespace

void LaunchAttentionCodes(const HopperParams& p, const AttentionCodes& codes, Stream* stream) {
  const int64_t query_blocks = CeilDiv(int64_t{p.tokens} * p.heads, int64_t{kQueryRows});
  AttentionQueryCodesKernel<<<static_cast<unsigned>(query_blocks), kQueryThreads, 0,
                              Handle(stream)>>>(p, codes);
  const dim3 tiles(static_cast<unsigned>(codes.tiles), static_cast<unsigned>(p.kv_heads), 2);
  AttentionKeyCodesKernel<<<tiles, kThreads, 0, Handle(stream)>>>(p, codes);
}

}  // namespace coxswain::kernels::cuda
