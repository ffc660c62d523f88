#include "kernels/quantize/fp8_turn.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"

namespace coxswain::kernels {

namespace {

// Rows [first, last) of the turned matrix. Tiles, so that both the rows that are read and those
// that are written stay in the cache.
void TurnBlock(const Fp8TurnArgs& args, int64_t first, int64_t last) {
  const int64_t stride = Fp8Stride(args.rows);
  for (int64_t row = 0; row < args.rows; row += kFp8Block) {
    const int64_t end = std::min(row + kFp8Block, args.rows);
    for (int64_t j = first; j < last; ++j) {
      uint8_t* const to = args.turned + j * stride;
      for (int64_t i = row; i < end; ++i) to[i] = args.codes[i * args.cols + j];
    }
  }
  for (int64_t j = first; j < last; ++j) {
    std::memset(args.turned + j * stride + args.rows, 0, static_cast<size_t>(stride - args.rows));
  }
}

}  // namespace

void Fp8Turn(const Fp8TurnArgs& args, Stream* stream) {
  cpu::RequireExtent(args.rows, "Fp8Turn", "rows");
  cpu::RequireExtent(args.cols, "Fp8Turn", "cols");
  if (args.rows == 0) return;
  cpu::ParallelFor(Fp8Blocks(args.cols), kFp8Block * args.rows, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      TurnBlock(args, block * kFp8Block, std::min((block + 1) * kFp8Block, args.cols));
    }
  });
}

}  // namespace coxswain::kernels
