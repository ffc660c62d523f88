// A tile of 128 x 128 codes of 8 bits on its way from rows to columns, through shared memory.
#ifndef COXSWAIN_KERNELS_CUDA_QUANTIZE_FP8_TURNED_TILE_CUH_
#define COXSWAIN_KERNELS_CUDA_QUANTIZE_FP8_TURNED_TILE_CUH_

#include <cstdint>

#include "kernels/quantize/quantized_formats.h"

namespace coxswain::kernels::cuda {

inline constexpr int kTurnThreads = 256;
inline constexpr int kTurnExtent = static_cast<int>(kFp8Block);
inline constexpr int kTurnSide = 8;                          // rows, and columns, of a thread
inline constexpr int kTurnAcross = kTurnExtent / kTurnSide;  // threads beside each other
static_assert(kTurnAcross * kTurnAcross == kTurnThreads);

// 128 rows of 16 pieces of 8 codes. Piece q of row r lies at q ^ (r / 8), so that the writes of 16
// threads, and the reads of 8, are each of all banks.
using TurnedTile = uint2[kTurnExtent][kTurnAcross];

// Piece of row `side` (0 to 7) of the thread's square. Threads beside each other have columns
// beside each other of the matrix that is turned.
__device__ __forceinline__ uint2& TurnedPiece(TurnedTile& tile, int side) {
  const int across = threadIdx.x % kTurnAcross, down = threadIdx.x / kTurnAcross;
  return tile[across * kTurnSide + side][down ^ across];
}

// Rows of the turned matrix [cols, Fp8Stride(rows)] from the tile that begins at first_row and
// first_column of the matrix [rows, cols], 16 bytes a thread. Codes behind the last row are those
// of the tile.
__device__ __forceinline__ void WriteTurnedTile(const TurnedTile& tile, int64_t rows, int64_t cols,
                                                int64_t first_row, int64_t first_column,
                                                uint8_t* turned) {
  constexpr int kPairs = kTurnAcross / 2;
  const int64_t stride = (rows + 15) / 16 * 16;
#pragma unroll
  for (int step = 0; step < kTurnExtent * kPairs / kTurnThreads; ++step) {
    const int at = step * kTurnThreads + threadIdx.x;
    const int r = at / kPairs, pair = at % kPairs, turn = r / kTurnSide;
    const uint4 raw = *reinterpret_cast<const uint4*>(&tile[r][2 * (pair ^ turn / 2)]);
    const uint4 codes = turn % 2 == 0 ? raw : make_uint4(raw.z, raw.w, raw.x, raw.y);
    const int64_t to_row = first_column + r, to_column = first_row + 16 * pair;
    if (to_row < cols && to_column < stride) {
      *reinterpret_cast<uint4*>(turned + to_row * stride + to_column) = codes;
    }
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_QUANTIZE_FP8_TURNED_TILE_CUH_
