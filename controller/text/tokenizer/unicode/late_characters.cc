#include "controller/text/tokenizer/unicode/late_characters.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

struct LateRange {
  uint32_t low;
  uint32_t high;
};

// Source: printed by make_late_characters.py.
constexpr LateRange kLateRanges[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

bool IsLate(uint32_t c) {
  const LateRange* after =
      std::upper_bound(std::begin(kLateRanges), std::end(kLateRanges), c,
                       [](uint32_t value, const LateRange& range) { return value < range.low; });
  return after != std::begin(kLateRanges) && c <= std::prev(after)->high;
}

// Whether a late character may start with this byte: U+07C0 to U+3FFF, U+A000 to U+AFFF, and those
// above U+FFFF.
bool MayStartLate(uint8_t byte) {
  return (byte >= 0xDF && byte <= 0xE3) || byte == 0xEA || byte >= 0xF0;
}

}  // namespace

size_t FindLateCharacter(std::string_view text, size_t position) {
  for (; position < text.size(); ++position) {
    if (MayStartLate(static_cast<uint8_t>(text[position])) &&
        IsLate(CodePointAt(text, position).value)) {
      return position;
    }
  }
  return text.size();
}

}  // namespace coxswain::data
