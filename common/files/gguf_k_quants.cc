#include "common/files/gguf_k_quants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/element_type.h"
#include "common/files/gguf_fit.h"

namespace coxswain {
namespace {

constexpr int kValues = static_cast<int>(kKQuantBlock);
constexpr float kLargest = 0x1p15f * 63;

void Put16(uint16_t bits, char* out) { std::memcpy(out, &bits, sizeof(bits)); }
void Put8(int bits, char* out) { *out = static_cast<char>(static_cast<uint8_t>(bits)); }

uint16_t Nan() { return FloatToHalf(std::numeric_limits<float>::quiet_NaN()); }

// The integer n of [least, most] with n * unit nearest to `value`.
int Nearest(float value, float unit, int least, int most) {
  const float quotient = unit == 0 ? 0.0f : value / unit;
  return std::clamp(static_cast<int>(std::nearbyint(quotient)), least, most);
}

// --- Q4_K and Q5_K

constexpr int kSubBlocks = 8, kSubBlock = 32, kMostSixBits = 63;

// What one step of the integers of a sub-block is.
struct Units {
  float scale = 0, minimum = 0;
};

struct Integers {
  int scale = 0, minimum = 0;
};

struct MinimumBlock {
  uint16_t d = 0, dmin = 0;
  Integers integers[kSubBlocks] = {};
  uint8_t codes[kValues] = {};
};

CodeLine LineOf(const Units& units, const Integers& integers) {
  return {.scale = units.scale * static_cast<float>(integers.scale),
          .base = -units.minimum * static_cast<float>(integers.minimum)};
}

// Of those of `line` and the eight beside them.
Integers LeastError(const float* values, const CodeRange& codes, const CodeLine& line,
                    const Units& units) {
  const Integers near = {.scale = Nearest(line.scale, units.scale, 0, kMostSixBits),
                         .minimum = Nearest(-line.base, units.minimum, 0, kMostSixBits)};
  Integers best = near;
  float least = std::numeric_limits<float>::infinity();
  for (const int scale : {near.scale, near.scale - 1, near.scale + 1}) {
    for (const int minimum : {near.minimum, near.minimum - 1, near.minimum + 1}) {
      if (std::min(scale, minimum) < 0 || std::max(scale, minimum) > kMostSixBits) continue;
      const Integers tried = {.scale = scale, .minimum = minimum};
      const float error = LineError(values, kSubBlock, codes, LineOf(units, tried));
      if (error >= least) continue;
      least = error;
      best = tried;
    }
  }
  return best;
}

MinimumBlock Quantise(const float* values, float highest) {
  const CodeRange codes = {.highest = highest};
  MinimumBlock block;
  if (!AreWithin(values, kValues, kLargest)) {
    block.d = Nan();
    return block;
  }
  CodeLine lines[kSubBlocks];
  Units largest;
  for (int j = 0; j < kSubBlocks; ++j) {
    lines[j] = FitLine(values + j * kSubBlock, kSubBlock, codes, LineBase::kNotPositive);
    largest.scale = std::max(largest.scale, lines[j].scale);
    largest.minimum = std::max(largest.minimum, -lines[j].base);
  }
  block.d = HalfNotBelow(largest.scale / kMostSixBits);
  block.dmin = HalfNotBelow(largest.minimum / kMostSixBits);
  const Units units = {.scale = HalfToFloat(block.d), .minimum = HalfToFloat(block.dmin)};
  for (int j = 0; j < kSubBlocks; ++j) {
    const float* of_block = values + j * kSubBlock;
    block.integers[j] = LeastError(of_block, codes, lines[j], units);
    EncodeOnLine(of_block, kSubBlock, codes, LineOf(units, block.integers[j]),
                 block.codes + j * kSubBlock);
  }
  return block;
}

// 16 bytes: d, dmin, scales and minima.
void PutScales(const MinimumBlock& block, char* out) {
  Put16(block.d, out);
  Put16(block.dmin, out + 2);
  for (int j = 0; j < 4; ++j) {
    const Integers& first = block.integers[j];
    const Integers& second = block.integers[4 + j];
    Put8(first.scale | (second.scale >> 4) << 6, out + 4 + j);
    Put8(first.minimum | (second.minimum >> 4) << 6, out + 8 + j);
    Put8((second.scale & 15) | (second.minimum & 15) << 4, out + 12 + j);
  }
}

// 128 bytes.
void PutLowerBits(const MinimumBlock& block, char* out) {
  for (int pair = 0; pair < kSubBlocks / 2; ++pair) {
    const uint8_t* codes = block.codes + pair * 2 * kSubBlock;
    for (int i = 0; i < kSubBlock; ++i) {
      Put8((codes[i] & 15) | (codes[kSubBlock + i] & 15) << 4, out + pair * kSubBlock + i);
    }
  }
}

// --- Q6_K

constexpr int kSixBlocks = 16, kSixBlock = 16, kLeastScale = -128, kMostScale = 127;
constexpr CodeRange kSixBits = {.lowest = -32, .highest = 31};

int ChooseScale(const float* values, float scale, float d) {
  const int near = Nearest(scale, d, kLeastScale, kMostScale);
  int chosen = near;
  float least = std::numeric_limits<float>::infinity();
  for (const int tried : {near, near - 1, near + 1}) {
    if (tried < kLeastScale || tried > kMostScale) continue;
    const CodeLine line = {.scale = d * static_cast<float>(tried)};
    const float error = LineError(values, kSixBlock, kSixBits, line);
    if (error >= least) continue;
    least = error;
    chosen = tried;
  }
  return chosen;
}

// The largest scale becomes -128, which reaches further than 127.
uint16_t ScaleOfScales(const float (&scales)[kSixBlocks]) {
  const float largest = *std::max_element(
      scales, scales + kSixBlocks, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const uint16_t magnitude = HalfNotBelow(std::fabs(largest) / -kLeastScale);
  return largest > 0 ? static_cast<uint16_t>(magnitude | 0x8000) : magnitude;
}

// 192 bytes.
void PutSixBits(const uint8_t* codes, char* out) {
  constexpr int kRun = 32;
  for (int half = 0; half < 2; ++half) {
    const uint8_t* first = codes + half * 4 * kRun;
    char* lower = out + half * 2 * kRun;
    char* upper = out + 4 * kRun + half * kRun;
    for (int i = 0; i < kRun; ++i) {
      const int a = first[i], b = first[kRun + i], c = first[2 * kRun + i], d = first[3 * kRun + i];
      Put8((a & 15) | (c & 15) << 4, lower + i);
      Put8((b & 15) | (d & 15) << 4, lower + kRun + i);
      Put8(a >> 4 | (b >> 4) << 2 | (c >> 4) << 4 | (d >> 4) << 6, upper + i);
    }
  }
}

}  // namespace

void EncodeQ4K(const float* values, char* out) {
  const MinimumBlock block = Quantise(values, 15);
  PutScales(block, out);
  PutLowerBits(block, out + 16);
}

void EncodeQ5K(const float* values, char* out) {
  const MinimumBlock block = Quantise(values, 31);
  PutScales(block, out);
  for (int i = 0; i < kSubBlock; ++i) {
    int bits = 0;
    for (int j = 0; j < kSubBlocks; ++j) bits |= (block.codes[j * kSubBlock + i] >> 4) << j;
    Put8(bits, out + 16 + i);
  }
  PutLowerBits(block, out + 16 + kSubBlock);
}

void EncodeQ6K(const float* values, char* out) {
  std::memset(out, 0, 210);
  if (!AreWithin(values, kValues, kLargest)) return Put16(Nan(), out + 208);
  float scales[kSixBlocks];
  for (int j = 0; j < kSixBlocks; ++j) {
    scales[j] = FitLine(values + j * kSixBlock, kSixBlock, kSixBits, LineBase::kZero).scale;
  }
  const uint16_t d_bits = ScaleOfScales(scales);
  const float d = HalfToFloat(d_bits);
  uint8_t codes[kValues];
  for (int j = 0; j < kSixBlocks; ++j) {
    const float* of_block = values + j * kSixBlock;
    const int scale = ChooseScale(of_block, scales[j], d);
    EncodeOnLine(of_block, kSixBlock, kSixBits, {.scale = d * static_cast<float>(scale)},
                 codes + j * kSixBlock);
    Put8(scale, out + 192 + j);
  }
  PutSixBits(codes, out);
  Put16(d_bits, out + 208);
}

}  // namespace coxswain
