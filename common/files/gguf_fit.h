// The scale of a block of values, and their base, with which integer codes stand for them best:
// what the quantised types of GGUF files are made of.
#ifndef COXSWAIN_COMMON_FILES_GGUF_FIT_H_
#define COXSWAIN_COMMON_FILES_GGUF_FIT_H_

#include <cstdint>

namespace coxswain {

// A code is an integer of [lowest, highest].
struct CodeRange {
  float lowest = 0;
  float highest = 0;
};

// Code q stands for base + scale q.
struct CodeLine {
  float scale = 0;
  float base = 0;
};

enum class LineBase { kZero, kNotPositive, kAny };

// The line with the least sum of squared errors that is found for `count` values, a multiple of 4
// and at most 32. Two steps alternate: each value gets the nearest code of a line, and those codes
// get the line of least squares. They begin with four lines of several widths, of which the narrow
// ones cut the outermost values. Magnitudes are below 1e9, so that sums of squares are finite.
// Scale 0: values are the base.
// Source: Lloyd, "Least squares quantization in PCM", 1982.
CodeLine FitLine(const float* values, int count, const CodeRange& codes, LineBase base);

// The sum of squared errors of the nearest codes of `line`.
float LineError(const float* values, int count, const CodeRange& codes, const CodeLine& line);

// The nearest codes of `line`, less codes.lowest. Of scale 0 that of zero.
void EncodeOnLine(const float* values, int count, const CodeRange& codes, const CodeLine& line,
                  uint8_t* out);

// No value is NaN, or has a magnitude above `largest`.
bool AreWithin(const float* values, int count, float largest);

// The least float16 that is not below `value` >= 0; infinity behind the largest.
uint16_t HalfNotBelow(float value);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_GGUF_FIT_H_
