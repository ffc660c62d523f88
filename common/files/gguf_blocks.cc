#include "common/files/gguf_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/element_type.h"
#include "common/files/gguf_fit.h"

namespace coxswain {
namespace {

constexpr int kValues = static_cast<int>(kGgufBlock);

void PutHalf(float value, char* out) {
  const uint16_t bits = FloatToHalf(value);
  std::memcpy(out, &bits, sizeof(bits));
}

// The codes of 32 values on `line`, whose scale and base a float16 holds: 20 bytes.
void PutFiveBits(const float* values, const CodeRange& range, const CodeLine& line, char* out) {
  uint8_t codes[kValues];
  EncodeOnLine(values, kValues, range, line, codes);
  uint32_t upper = 0;
  for (int i = 0; i < kValues; ++i) upper |= static_cast<uint32_t>(codes[i] >> 4) << i;
  std::memcpy(out, &upper, sizeof(upper));
  for (int i = 0; i < kValues / 2; ++i) {
    out[4 + i] = static_cast<char>((codes[i] & 15) | (codes[kValues / 2 + i] & 15) << 4);
  }
}

// The line with the least error, in float16; NaN of values that none reaches.
CodeLine LineOf(const float* values, const CodeRange& range, LineBase base) {
  constexpr float kLargest = 0x1p15f;
  if (!AreWithin(values, kValues, kLargest)) {
    return {.scale = std::numeric_limits<float>::quiet_NaN()};
  }
  const CodeLine line = FitLine(values, kValues, range, base);
  // A scale is rounded up, so that tiny ones still reach the values.
  const float scale = HalfToFloat(HalfNotBelow(std::fabs(line.scale)));
  return {.scale = std::copysign(scale, line.scale), .base = HalfToFloat(FloatToHalf(line.base))};
}

}  // namespace

void EncodeQ5_0(const float* values, char* out) {
  constexpr CodeRange kCodes = {.lowest = -16, .highest = 15};
  std::memset(out, 0, 22);
  const CodeLine line = LineOf(values, kCodes, LineBase::kZero);
  PutHalf(line.scale, out);
  if (!std::isnan(line.scale)) PutFiveBits(values, kCodes, line, out + 2);
}

void EncodeQ5_1(const float* values, char* out) {
  constexpr CodeRange kCodes = {.highest = 31};
  std::memset(out, 0, 24);
  const CodeLine line = LineOf(values, kCodes, LineBase::kAny);
  PutHalf(line.scale, out);
  PutHalf(line.base, out + 2);
  if (!std::isnan(line.scale)) PutFiveBits(values, kCodes, line, out + 4);
}

void EncodeQ8_0(const float* values, char* out) {
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < kValues; ++i) {
    finite = finite && std::isfinite(values[i]);
    largest = std::max(largest, std::fabs(values[i]));
  }
  const float scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  const float inverse = scale == 0 || !finite ? 0.0f : 1.0f / scale;
  PutHalf(scale, out);
  for (int i = 0; i < kValues; ++i) {
    // std::round is half away from zero, and at most 127 by the choice of the scale.
    const float quotient = finite ? std::round(values[i] * inverse) : 0.0f;
    out[2 + i] = static_cast<char>(static_cast<int8_t>(quotient));
  }
}

}  // namespace coxswain
