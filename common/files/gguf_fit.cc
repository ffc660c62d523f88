#include "common/files/gguf_fit.h"

#include <algorithm>
#include <cmath>

#include "common/element_type.h"

namespace coxswain {
namespace {

// Sums have a lane for each of four elements, so that the compiler may vectorise them: it keeps
// the order of a sum.
constexpr int kLanes = 4;

float Sum(const float (&lanes)[kLanes]) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }

// Of a value in steps above the base. Beside 1.5 * 2^23 a float32 has no fraction, so adding it
// rounds to the nearest integer, half to even.
float NearestCode(float steps, const CodeRange& codes) {
  constexpr float kNoFraction = 12582912.0f;
  steps = steps < codes.lowest ? codes.lowest : steps;
  steps = steps > codes.highest ? codes.highest : steps;
  return (steps + kNoFraction) - kNoFraction;
}

float Inverse(float scale) { return scale == 0 ? 0.0f : 1.0f / scale; }

// A line, and by how much its squared error is below that of zeros.
struct Fitted {
  CodeLine line;
  float gain = -1;  // below 0: no code is other than zero
};

// The line of least squares of the nearest codes q of `from`. With sums over the block, n values:
//   scale = (n Sum(q x) - Sum(q) Sum(x)) / (n Sum(q q) - Sum(q)^2)
//   base  = (Sum(x) - scale Sum(q)) / n
// or where the base is zero, scale = Sum(q x) / Sum(q q). The residual is orthogonal to the line,
// so the gain, Sum(x x) - Sum((x - base - scale q)^2), is scale Sum(q x) + base Sum(x).
Fitted Refit(const float* values, int count, const CodeRange& codes, const CodeLine& from,
             LineBase kind) {
  const float inverse = Inverse(from.scale);
  float x[kLanes] = {}, q[kLanes] = {}, qq[kLanes] = {}, qx[kLanes] = {};
  for (int i = 0; i < count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      const float code = NearestCode((value - from.base) * inverse, codes);
      x[lane] += value;
      q[lane] += code;
      qq[lane] += code * code;
      qx[lane] += code * value;
    }
  }
  Fitted fitted;
  // Also where quotients by a tiny scale were not finite.
  if (!(Sum(qq) > 0)) return fitted;
  const auto n = static_cast<float>(count);
  const float spread = n * Sum(qq) - Sum(q) * Sum(q);
  if (kind != LineBase::kZero && spread > 0) {
    fitted.line.scale = (n * Sum(qx) - Sum(q) * Sum(x)) / spread;
    fitted.line.base = (Sum(x) - fitted.line.scale * Sum(q)) / n;
  }
  const bool through_zero = kind == LineBase::kZero || !(spread > 0) ||
                            (kind == LineBase::kNotPositive && fitted.line.base > 0);
  if (through_zero) fitted.line = {.scale = Sum(qx) / Sum(qq)};
  fitted.gain = fitted.line.scale * Sum(qx) + fitted.line.base * Sum(x);
  return fitted;
}

// What the codes span: from the least value to the largest, or of lines through zero from 0 to the
// value of the largest magnitude, which gets the code of the largest magnitude.
struct Extent {
  float base = 0;
  float width = 0;
  float codes = 0;
};

Extent ExtentOf(const float* values, int count, const CodeRange& codes, LineBase kind) {
  const auto [least, largest] = std::minmax_element(values, values + count);
  if (kind == LineBase::kZero) {
    return {.width = *largest > -*least ? *largest : *least, .codes = codes.lowest};
  }
  const float base = kind == LineBase::kNotPositive ? std::min(*least, 0.0f) : *least;
  return {.base = base, .width = *largest - base, .codes = codes.highest - codes.lowest};
}

}  // namespace

CodeLine FitLine(const float* values, int count, const CodeRange& codes, LineBase base) {
  constexpr int kRounds = 2;
  const Extent extent = ExtentOf(values, count, codes, base);
  Fitted best{.line = {.base = extent.base}};
  for (const float more : {-0.9f, -0.3f, 0.3f, 0.9f}) {
    CodeLine line = {.scale = extent.width / (extent.codes + more), .base = extent.base};
    for (int round = 0; round < kRounds; ++round) {
      const Fitted fitted = Refit(values, count, codes, line, base);
      if (fitted.gain > best.gain) best = fitted;
      line = fitted.line;
    }
  }
  return best.line;
}

float LineError(const float* values, int count, const CodeRange& codes, const CodeLine& line) {
  const float inverse = Inverse(line.scale);
  float errors[kLanes] = {};
  for (int i = 0; i < count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float above = values[i + lane] - line.base;
      const float error = above - line.scale * NearestCode(above * inverse, codes);
      errors[lane] += error * error;
    }
  }
  return Sum(errors);
}

void EncodeOnLine(const float* values, int count, const CodeRange& codes, const CodeLine& line,
                  uint8_t* out) {
  const float inverse = Inverse(line.scale);
  for (int i = 0; i < count; ++i) {
    const float code = NearestCode((values[i] - line.base) * inverse, codes);
    out[i] = static_cast<uint8_t>(static_cast<int>(code - codes.lowest));
  }
}

bool AreWithin(const float* values, int count, float largest) {
  return std::all_of(values, values + count,
                     [largest](float value) { return std::fabs(value) <= largest; });
}

uint16_t HalfNotBelow(float value) {
  const uint16_t bits = FloatToHalf(value);
  return HalfToFloat(bits) < value ? static_cast<uint16_t>(bits + 1) : bits;
}

}  // namespace coxswain
