#include "controller/text/tokenizer/unicode/charsmap.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace coxswain::data {
namespace {

uint32_t UnitOffset(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }
uint32_t UnitLabel(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
bool UnitHasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t LeafValue(uint32_t unit) { return unit & 0x7FFFFFFF; }

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Parse(std::string_view blob) {
  uint32_t size = 0;
  if (blob.size() > sizeof(size)) std::memcpy(&size, blob.data(), sizeof(size));
  if (size == 0 || size % sizeof(uint32_t) != 0 || size >= blob.size() - sizeof(size) ||
      blob.back() != '\0') {
    return absl::InvalidArgumentError(
        absl::StrCat("the normalizer's precompiled_charsmap is damaged: ", blob.size(),
                     " bytes, of which it says ", size, " are its index"));
  }
  Charsmap map;
  map.units_.resize(size / sizeof(uint32_t));
  std::memcpy(map.units_.data(), blob.data() + sizeof(size), size);
  map.strings_ = std::string(blob.substr(sizeof(size) + size));
  return map;
}

Charsmap::Prefix Charsmap::LongestPrefix(std::string_view text) const {
  Prefix longest{0, {}};
  uint32_t position = UnitOffset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    position ^= byte;
    if (position >= units_.size() || UnitLabel(units_[position]) != byte) break;
    const bool has_leaf = UnitHasLeaf(units_[position]);
    position ^= UnitOffset(units_[position]);
    if (position >= units_.size()) break;
    if (!has_leaf) continue;
    const uint32_t at = LeafValue(units_[position]);
    if (at < strings_.size()) longest = {i + 1, strings_.data() + at};
  }
  return longest;
}

}  // namespace coxswain::data
