// Operands in FP8. Both are written alike: tiles of 128 x 128 are copied beside each other, turned
// where the operand is, so that its k is always contiguous; then a row of a tile at a time gives a
// maximum or codes. Each operand reads x once, twice where a scale is of more than a tile; once
// more where its amax is observed. A maximum is of the bits of |x| as integers: of numbers it is
// the largest, infinity is above all of them and NaN above infinity.
#include "kernels/quantize/fp8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/amax.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/quantize/fp8_values.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/quantize/fp8_history.h"

namespace coxswain::kernels {
namespace {

// [outer, k]: x, or x turned.
struct Operand {
  Fp8Format format;
  Fp8Scaling scaling;
  const float* x;
  int64_t ldx;
  bool turned;
  int64_t outer, k;
  uint8_t* codes;
  float* scales;
};

Operand StraightOf(const Fp8QuantizeArgs& args) {
  return {args.format,
          args.scaling,
          static_cast<const float*>(args.x),
          args.ldx,
          false,
          args.rows,
          args.cols,
          args.straight.codes,
          args.straight.scales};
}
Operand TurnedOf(const Fp8QuantizeArgs& args) {
  return {args.format,
          args.scaling,
          static_cast<const float*>(args.x),
          args.ldx,
          true,
          args.cols,
          args.rows,
          args.turned.codes,
          args.turned.scales};
}

struct Tile {
  int64_t first_outer, first_k;
  int64_t outer, k;  // extents, at most kFp8Block
  float values[kFp8Block][kFp8Block];
};

void Load(const Operand& operand, int64_t outer_block, int64_t k_block, Tile* tile) {
  tile->first_outer = outer_block * kFp8Block;
  tile->first_k = k_block * kFp8Block;
  tile->outer = std::min(kFp8Block, operand.outer - tile->first_outer);
  tile->k = std::min(kFp8Block, operand.k - tile->first_k);
  if (!operand.turned) {
    for (int64_t i = 0; i < tile->outer; ++i) {
      std::memcpy(tile->values[i],
                  operand.x + (tile->first_outer + i) * operand.ldx + tile->first_k,
                  static_cast<size_t>(tile->k) * sizeof(float));
    }
    return;
  }
  for (int64_t j = 0; j < tile->k; ++j) {
    const float* const row = operand.x + (tile->first_k + j) * operand.ldx + tile->first_outer;
    for (int64_t i = 0; i < tile->outer; ++i) tile->values[i][j] = row[i];
  }
}

COXSWAIN_VECTORIZE void EncodeE4m3(const float* x, float inverse, uint8_t* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) codes[i] = cpu::Fp8Code<Fp8Format::kE4M3>(x[i] * inverse);
}
COXSWAIN_VECTORIZE void EncodeE5m2(const float* x, float inverse, uint8_t* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) codes[i] = cpu::Fp8Code<Fp8Format::kE5M2>(x[i] * inverse);
}

float ScaleOf(uint32_t largest_bits, Fp8Format format) {
  if (largest_bits == 0) return 1.0f;
  const float scale = std::bit_cast<float>(largest_bits) / Fp8Largest(format);
  return scale < kFp8SmallestScale ? kFp8SmallestScale : scale;  // NaN stays
}

// Codes of row i of a tile, and the zeros behind the last of k.
void EncodeRow(const Operand& operand, const Tile& tile, int64_t i, float scale) {
  uint8_t* const row = operand.codes + (tile.first_outer + i) * Fp8Stride(operand.k);
  const auto encode = operand.format == Fp8Format::kE4M3 ? EncodeE4m3 : EncodeE5m2;
  encode(tile.values[i], 1.0f / scale, row + tile.first_k, tile.k);
  const int64_t end = tile.first_k + tile.k;
  if (end == operand.k) std::memset(row + end, 0, static_cast<size_t>(Fp8Stride(end) - end));
}

void EncodeAll(const Operand& operand, int64_t outer_block, float scale, Tile* tile) {
  for (int64_t block = 0; block < Fp8Blocks(operand.k); ++block) {
    Load(operand, outer_block, block, tile);
    for (int64_t i = 0; i < tile->outer; ++i) EncodeRow(operand, *tile, i, scale);
  }
}

void EncodeByRow(const Operand& operand, int64_t outer_block, Tile* tile) {
  uint32_t largest[kFp8Block] = {};
  for (int64_t block = 0; block < Fp8Blocks(operand.k); ++block) {
    Load(operand, outer_block, block, tile);
    for (int64_t i = 0; i < tile->outer; ++i) {
      largest[i] = std::max(largest[i], cpu::LargestBits(tile->values[i], tile->k));
    }
  }
  for (int64_t block = 0; block < Fp8Blocks(operand.k); ++block) {
    Load(operand, outer_block, block, tile);
    for (int64_t i = 0; i < tile->outer; ++i) {
      const float scale = ScaleOf(largest[i], operand.format);
      operand.scales[tile->first_outer + i] = scale;
      EncodeRow(operand, *tile, i, scale);
    }
  }
}

void EncodeByTile(const Operand& operand, int64_t outer_block, Tile* tile) {
  const bool whole = operand.scaling == Fp8Scaling::kBlock;
  for (int64_t block = 0; block < Fp8Blocks(operand.k); ++block) {
    Load(operand, outer_block, block, tile);
    uint32_t largest[kFp8Block] = {}, of_all = 0;
    for (int64_t i = 0; i < tile->outer; ++i) {
      largest[i] = cpu::LargestBits(tile->values[i], tile->k);
      of_all = std::max(of_all, largest[i]);
    }
    float* const scales =
        whole ? operand.scales + outer_block * Fp8PaddedScales(Fp8Blocks(operand.k)) + block
              : operand.scales + block * Fp8PaddedScales(operand.outer) + tile->first_outer;
    for (int64_t i = 0; i < tile->outer; ++i) {
      const float scale = ScaleOf(whole ? of_all : largest[i], operand.format);
      scales[whole ? 0 : i] = scale;
      EncodeRow(operand, *tile, i, scale);
    }
  }
}

uint32_t LargestOfAll(const Fp8QuantizeArgs& args) {
  const int64_t blocks = Fp8Blocks(args.rows);
  auto* const largest = static_cast<uint32_t*>(args.workspace.data);
  cpu::ParallelFor(blocks, kFp8Block * args.cols, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      largest[block] = 0;
      const int64_t last = std::min((block + 1) * kFp8Block, args.rows);
      for (int64_t row = block * kFp8Block; row < last; ++row) {
        const float* const x = static_cast<const float*>(args.x) + row * args.ldx;
        largest[block] = std::max(largest[block], cpu::LargestBits(x, args.cols));
      }
    }
  });
  return blocks == 0 ? 0 : *std::max_element(largest, largest + blocks);
}

uint32_t SizeBits(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }

// Bits of the amax whose scale a tensor has.
uint32_t TakenAmax(const Fp8QuantizeArgs& args) {
  uint32_t known = args.amax == nullptr ? 0 : std::bit_cast<uint32_t>(*args.amax);
  if (args.expected != nullptr) known = SizeBits(*args.expected);
  const bool finds = args.amax == nullptr && known == 0;
  if (!finds && args.observed == nullptr) return known;
  const uint32_t largest = LargestOfAll(args);
  if (args.observed != nullptr) {
    *args.observed = std::bit_cast<float>(std::max(SizeBits(*args.observed), largest));
  }
  return finds ? largest : known;
}

void Quantize(const Operand& operand, float tensor_scale) {
  if (operand.codes == nullptr) return;
  if (operand.scaling == Fp8Scaling::kTensor) operand.scales[0] = tensor_scale;
  if (operand.k == 0) return;
  const int64_t blocks = Fp8Blocks(operand.outer);
  cpu::ParallelFor(blocks, kFp8Block * operand.k, [&](int64_t begin, int64_t end) {
    Tile tile;
    for (int64_t block = begin; block < end; ++block) {
      if (operand.scaling == Fp8Scaling::kTensor) {
        EncodeAll(operand, block, tensor_scale, &tile);
      } else if (operand.scaling == Fp8Scaling::kRow) {
        EncodeByRow(operand, block, &tile);
      } else {
        EncodeByTile(operand, block, &tile);
      }
    }
  });
}

// Reads and clears what all ranks observed of operand i.
float TakeObserved(const Fp8MoveHistoryArgs& args, int64_t i) {
  float largest = 0.0f;
  for (int64_t rank = 0; rank < args.ranks; ++rank) {
    float& observed = args.observed[rank * args.stride + i];
    largest = std::max(largest, observed);
    observed = 0.0f;
  }
  return largest;
}

}  // namespace

bool Fp8QuantizeSupports(const Fp8QuantizeArgs& args) { return args.dtype == DType::kFloat32; }

int64_t Fp8QuantizeWorkspaceBytes(Fp8Scaling scaling, int64_t rows, int64_t cols) {
  return scaling == Fp8Scaling::kTensor ? cpu::AlignedFloatBytes(Fp8Blocks(rows)) : 0;
}

namespace {

// Matrix i alone.
Fp8QuantizeArgs MatrixOf(const Fp8QuantizeArgs& args, int64_t i) {
  Fp8QuantizeArgs one = args;
  one.matrices = 1;
  one.x = static_cast<const float*>(args.x) + i * args.rows * args.cols;
  if (args.straight.codes != nullptr) {
    one.straight = {args.straight.codes + i * args.rows * Fp8Stride(args.cols),
                    args.straight.scales + i};
  }
  if (args.turned.codes != nullptr) {
    one.turned = {args.turned.codes + i * args.cols * Fp8Stride(args.rows), args.turned.scales + i};
  }
  return one;
}

}  // namespace

void Fp8Quantize(const Fp8QuantizeArgs& args, Stream* stream) {
  if (args.matrices != 1) {
    cpu::RequireExtent(args.matrices, "Fp8Quantize", "matrices");
    CheckFp8Amax(args);
    for (int64_t i = 0; i < args.matrices; ++i) Fp8Quantize(MatrixOf(args, i), stream);
    return;
  }
  cpu::RequireSupported(Fp8QuantizeSupports(args), "Fp8Quantize");
  cpu::RequireExtent(args.rows, "Fp8Quantize", "rows");
  cpu::RequireExtent(args.cols, "Fp8Quantize", "cols");
  if (args.ldx < args.cols) {
    throw std::invalid_argument("Fp8Quantize: ldx is " + std::to_string(args.ldx) + ", a row has " +
                                std::to_string(args.cols));
  }
  CheckFp8Amax(args);
  float scale = 1.0f;
  if (args.scaling == Fp8Scaling::kTensor) {
    if (args.amax == nullptr || args.observed != nullptr) {
      const int64_t bytes = Fp8QuantizeWorkspaceBytes(args.scaling, args.rows, args.cols);
      cpu::RequireWorkspace(args.workspace, bytes, "Fp8Quantize");
    }
    scale = ScaleOf(TakenAmax(args), args.format);
  }
  Quantize(StraightOf(args), scale);
  Quantize(TurnedOf(args), scale);
}

void Fp8JudgeObserved(const Fp8JudgeObservedArgs& args, Stream* stream) {
  cpu::RequireExtent(args.ranks, "Fp8JudgeObserved", "ranks");
  cpu::RequireExtent(args.operands, "Fp8JudgeObserved", "operands");
  int64_t nonfinite = 0;
  for (int64_t rank = 0; rank < args.ranks; ++rank) {
    const float* const observed = args.observed + rank * args.stride;
    nonfinite += std::count_if(observed, observed + args.operands,
                               [](float amax) { return !std::isfinite(amax); });
  }
  if (nonfinite == 0) return;
  args.sums->nonfinite += static_cast<double>(nonfinite);
  args.sums->sum_squares = std::numeric_limits<double>::quiet_NaN();
}

void Fp8MoveHistory(const Fp8MoveHistoryArgs& args, Stream* stream) {
  cpu::RequireExtent(args.ranks, "Fp8MoveHistory", "ranks");
  cpu::RequireExtent(args.operands, "Fp8MoveHistory", "operands");
  for (int64_t i = 0; i < args.operands; ++i) {
    float* const history = args.history + i * kFp8History;
    if (args.observed != nullptr) {
      const float observed = TakeObserved(args, i);
      if (*args.skip == 0) history[*args.updates % kFp8History] = observed;
    }
    const float largest = *std::max_element(history, history + kFp8History);
    args.expected[i] = std::min(kFp8Margin * largest, std::numeric_limits<float>::max());
  }
}

}  // namespace coxswain::kernels
