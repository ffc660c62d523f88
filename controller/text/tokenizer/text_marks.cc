#include "controller/text/tokenizer/text_marks.h"

#include <algorithm>

namespace coxswain::data {
namespace {

std::span<const ByteRange>::iterator FirstBehind(std::span<const ByteRange> ranges, size_t place) {
  return std::upper_bound(ranges.begin(), ranges.end(), place,
                          [](size_t at, const ByteRange& range) { return at < range.end; });
}

}  // namespace

bool Touches(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  const auto range = FirstBehind(ranges, begin);
  return range != ranges.end() && range->begin < end && begin < end;
}

TextMarks MarksWithin(const TextMarks& marks, size_t begin, size_t end) {
  TextMarks within;
  const auto& seams = marks.seams;
  for (auto seam = std::upper_bound(seams.begin(), seams.end(), begin);
       seam != seams.end() && *seam < end; ++seam) {
    within.seams.push_back(*seam - begin);
  }
  const std::span<const ByteRange> ranges = marks.ranges;
  for (auto range = FirstBehind(ranges, begin); range != ranges.end() && range->begin < end;
       ++range) {
    within.ranges.push_back(
        {std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  }
  return within;
}

bool IsUniform(const TextMarks& marks, size_t size) {
  if (!marks.seams.empty() || marks.ranges.size() > 1) return false;
  return marks.ranges.empty() || (marks.ranges[0].begin == 0 && marks.ranges[0].end == size);
}

TextMarks Moved(const TextMarks& marks, const std::function<size_t(size_t)>& place) {
  TextMarks moved;
  for (const size_t seam : marks.seams) moved.seams.push_back(place(seam));
  for (const ByteRange& range : marks.ranges) {
    const ByteRange other{place(range.begin), place(range.end)};
    if (other.begin < other.end) moved.ranges.push_back(other);
  }
  return moved;
}

}  // namespace coxswain::data
