// Marks in a text that must survive tokenization.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TEXT_MARKS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TEXT_MARKS_H_

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

// True when one of `ranges`, ascending and disjoint, has a byte of [begin, end).
bool Touches(std::span<const ByteRange> ranges, size_t begin, size_t end);

// The marks of the text's bytes [begin, end), counted from `begin`. Seams at either end are left
// out.
TextMarks MarksWithin(const TextMarks& marks, size_t begin, size_t end);

// True when a text of `size` bytes is wanted as a whole or not at all, and has no seam.
bool IsUniform(const TextMarks& marks, size_t size);

// The marks with every position mapped by `place`. Ranges that become empty are left out.
TextMarks Moved(const TextMarks& marks, const std::function<size_t(size_t)>& place);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TEXT_MARKS_H_
