// A thread block turns 128 x 128 codes, a thread 8 x 8 of them in registers, and then a tile in
// shared memory, from which 16 bytes a thread go out.
#include "kernels/quantize/fp8_turn.h"

#include "kernels/cuda/quantize/fp8_turned_tile.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

struct Params {
  int64_t rows, cols;
  const uint8_t* codes;
  bool wide;  // rows of codes can be read 8 bytes at a time
  uint8_t* turned;
};

// Eight codes of a row, those from `count` on 0.
__device__ __forceinline__ uint2 LoadCodes(const uint8_t* from, int64_t count, bool wide) {
  if (count <= 0) return {0u, 0u};
  if (wide) return __ldg(reinterpret_cast<const uint2*>(from));
  uint32_t words[2] = {0u, 0u};
#pragma unroll
  for (int i = 0; i < cuda::kTurnSide; ++i) {
    if (i < count) words[i / 4] |= static_cast<uint32_t>(from[i]) << 8 * (i % 4);
  }
  return {words[0], words[1]};
}

// Four rows of four bytes become four columns.
__device__ __forceinline__ void TurnFour(uint32_t (&words)[4]) {
  const uint32_t low = __byte_perm(words[0], words[1], 0x5140);
  const uint32_t high = __byte_perm(words[0], words[1], 0x7362);
  const uint32_t next_low = __byte_perm(words[2], words[3], 0x5140);
  const uint32_t next_high = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low, next_low, 0x5410);
  words[1] = __byte_perm(low, next_low, 0x7632);
  words[2] = __byte_perm(high, next_high, 0x5410);
  words[3] = __byte_perm(high, next_high, 0x7632);
}

__global__ void __launch_bounds__(cuda::kTurnThreads) TurnKernel(Params p) {
  __shared__ alignas(16) cuda::TurnedTile tile;
  const int64_t across = (p.cols + kFp8Block - 1) / kFp8Block;
  const int64_t first_row = blockIdx.x / across * kFp8Block;
  const int64_t first_column = blockIdx.x % across * kFp8Block;
  const int64_t row = first_row + threadIdx.x / cuda::kTurnAcross * cuda::kTurnSide;
  const int64_t column = first_column + threadIdx.x % cuda::kTurnAcross * cuda::kTurnSide;
  uint32_t words[2][2][4];  // of columns 4 a on and rows 4 b on: [a][b][row]
#pragma unroll
  for (int i = 0; i < cuda::kTurnSide; ++i) {
    const int64_t count = row + i < p.rows ? p.cols - column : 0;
    const uint2 codes = LoadCodes(p.codes + (row + i) * p.cols + column, count, p.wide);
    words[0][i / 4][i % 4] = codes.x;
    words[1][i / 4][i % 4] = codes.y;
  }
#pragma unroll
  for (int a = 0; a < 2; ++a) {
    TurnFour(words[a][0]);
    TurnFour(words[a][1]);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      cuda::TurnedPiece(tile, 4 * a + j) = {words[a][0][j], words[a][1][j]};
    }
  }
  __syncthreads();
  cuda::WriteTurnedTile(tile, p.rows, p.cols, first_row, first_column, p.turned);
}

}  // namespace

void Fp8Turn(const Fp8TurnArgs& args, Stream* stream) {
  cuda::RequireExtent(args.rows, "Fp8Turn", "rows");
  cuda::RequireExtent(args.cols, "Fp8Turn", "cols");
  if (args.rows * args.cols == 0) return;
  const bool wide = args.cols % cuda::kTurnSide == 0 &&
                    reinterpret_cast<uintptr_t>(args.codes) % cuda::kTurnSide == 0;
  const int64_t tiles = Fp8Blocks(args.rows) * Fp8Blocks(args.cols);
  TurnKernel<<<static_cast<unsigned>(tiles), cuda::kTurnThreads, 0, cuda::Handle(stream)>>>(
      {args.rows, args.cols, args.codes, wide, args.turned});
  cuda::CheckLaunch("Fp8Turn");
}

}  // namespace coxswain::kernels
