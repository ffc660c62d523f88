// What the writer of a text knows of it and a tokenizer must not lose.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_TEXT_MARKS_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_TEXT_MARKS_H_

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace coxswain::data {

struct ByteRange {
  size_t begin = 0, end = 0;
};

struct TextMarks {
  std::vector<size_t> seams;      // ascending; no added token is recognised across one
  std::vector<ByteRange> ranges;  // ascending, disjoint: bytes whose tokens are wanted
};

// Whether one of `ranges`, ascending and disjoint, has a byte of [begin, end).
bool Touches(std::span<const ByteRange> ranges, size_t begin, size_t end);

// The marks of the text's bytes [begin, end), counted from `begin`. A seam at either end is none.
TextMarks MarksWithin(const TextMarks& marks, size_t begin, size_t end);

// Whether a text of `size` bytes is all wanted or not at all, and has no seam.
bool IsUniform(const TextMarks& marks, size_t size);

// The marks with every place put where `place` says; ranges that become empty are left out.
TextMarks Moved(const TextMarks& marks, const std::function<size_t(size_t)>& place);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_TEXT_MARKS_H_
