#include "controller/text/tokenizer/unicode/unicode_additions.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

struct Range {
  uint32_t low;
  uint32_t high;
  char category;  // first letter of the general category
};

// Source: printed by make_unicode_additions.py (Unicode 14 -> 16).
// clang-format off
constexpr Range kAdditions[] = {
    {0x897, 0x897, 'M'}, {0xCF3, 0xCF3, 'M'}, {0xECE, 0xECE, 'M'}, {0x1B4E, 0x1B4F, 'P'},
    {0x1B7F, 0x1B7F, 'P'}, {0x1C89, 0x1C8A, 'L'}, {0x2427, 0x2429, 'S'}, {0x2FFC, 0x2FFF, 'S'},
    {0x31E4, 0x31E5, 'S'}, {0x31EF, 0x31EF, 'S'}, {0xA7CB, 0xA7CD, 'L'}, {0xA7DA, 0xA7DC, 'L'},
    {0x105C0, 0x105F3, 'L'}, {0x10D40, 0x10D49, 'N'}, {0x10D4A, 0x10D65, 'L'},
    {0x10D69, 0x10D6D, 'M'}, {0x10D6E, 0x10D6E, 'P'}, {0x10D6F, 0x10D85, 'L'},
    {0x10D8E, 0x10D8F, 'S'}, {0x10EC2, 0x10EC4, 'L'}, {0x10EFC, 0x10EFF, 'M'},
    {0x1123F, 0x11240, 'L'}, {0x11241, 0x11241, 'M'}, {0x11380, 0x11389, 'L'},
    {0x1138B, 0x1138B, 'L'}, {0x1138E, 0x1138E, 'L'}, {0x11390, 0x113B5, 'L'},
    {0x113B7, 0x113B7, 'L'}, {0x113B8, 0x113C0, 'M'}, {0x113C2, 0x113C2, 'M'},
    {0x113C5, 0x113C5, 'M'}, {0x113C7, 0x113CA, 'M'}, {0x113CC, 0x113D0, 'M'},
    {0x113D1, 0x113D1, 'L'}, {0x113D2, 0x113D2, 'M'}, {0x113D3, 0x113D3, 'L'},
    {0x113D4, 0x113D5, 'P'}, {0x113D7, 0x113D8, 'P'}, {0x113E1, 0x113E2, 'M'},
    {0x116D0, 0x116E3, 'N'}, {0x11B00, 0x11B09, 'P'}, {0x11BC0, 0x11BE0, 'L'},
    {0x11BE1, 0x11BE1, 'P'}, {0x11BF0, 0x11BF9, 'N'}, {0x11F00, 0x11F01, 'M'},
    {0x11F02, 0x11F02, 'L'}, {0x11F03, 0x11F03, 'M'}, {0x11F04, 0x11F10, 'L'},
    {0x11F12, 0x11F33, 'L'}, {0x11F34, 0x11F3A, 'M'}, {0x11F3E, 0x11F42, 'M'},
    {0x11F43, 0x11F4F, 'P'}, {0x11F50, 0x11F59, 'N'}, {0x11F5A, 0x11F5A, 'M'},
    {0x1342F, 0x1342F, 'L'}, {0x13440, 0x13440, 'M'}, {0x13441, 0x13446, 'L'},
    {0x13447, 0x13455, 'M'}, {0x13460, 0x143FA, 'L'}, {0x16100, 0x1611D, 'L'},
    {0x1611E, 0x1612F, 'M'}, {0x16130, 0x16139, 'N'}, {0x16D40, 0x16D6C, 'L'},
    {0x16D6D, 0x16D6F, 'P'}, {0x16D70, 0x16D79, 'N'}, {0x18CFF, 0x18CFF, 'L'},
    {0x1B132, 0x1B132, 'L'}, {0x1B155, 0x1B155, 'L'}, {0x1CC00, 0x1CCEF, 'S'},
    {0x1CCF0, 0x1CCF9, 'N'}, {0x1CD00, 0x1CEB3, 'S'}, {0x1D2C0, 0x1D2D3, 'N'},
    {0x1DF25, 0x1DF2A, 'L'}, {0x1E030, 0x1E06D, 'L'}, {0x1E08F, 0x1E08F, 'M'},
    {0x1E4D0, 0x1E4EB, 'L'}, {0x1E4EC, 0x1E4EF, 'M'}, {0x1E4F0, 0x1E4F9, 'N'},
    {0x1E5D0, 0x1E5ED, 'L'}, {0x1E5EE, 0x1E5EF, 'M'}, {0x1E5F0, 0x1E5F0, 'L'},
    {0x1E5F1, 0x1E5FA, 'N'}, {0x1E5FF, 0x1E5FF, 'P'}, {0x1F6DC, 0x1F6DC, 'S'},
    {0x1F774, 0x1F776, 'S'}, {0x1F77B, 0x1F77F, 'S'}, {0x1F7D9, 0x1F7D9, 'S'},
    {0x1F8B2, 0x1F8BB, 'S'}, {0x1F8C0, 0x1F8C1, 'S'}, {0x1FA75, 0x1FA77, 'S'},
    {0x1FA87, 0x1FA89, 'S'}, {0x1FA8F, 0x1FA8F, 'S'}, {0x1FAAD, 0x1FAAF, 'S'},
    {0x1FABB, 0x1FABF, 'S'}, {0x1FAC6, 0x1FAC6, 'S'}, {0x1FACE, 0x1FACF, 'S'},
    {0x1FADA, 0x1FADC, 'S'}, {0x1FADF, 0x1FADF, 'S'}, {0x1FAE8, 0x1FAE9, 'S'},
    {0x1FAF7, 0x1FAF8, 'S'}, {0x1FBCB, 0x1FBEF, 'S'}, {0x2B739, 0x2B739, 'L'},
    {0x2EBF0, 0x2EE5D, 'L'}, {0x31350, 0x323AF, 'L'},
};
// clang-format on

// Characters of Unicode 14, three and four bytes long.
std::string_view Substitute(char category, size_t bytes) {
  const bool three = bytes == 3;
  switch (category) {
    case 'L':
      return three ? "\u4E00" : "\U00020000";
    case 'M':
      return three ? "\u0900" : "\U00011001";
    case 'N':
      return three ? "\u0966" : "\U0001D7CE";
    case 'P':
      return three ? "\u2010" : "\U00010100";
    default:
      return three ? "\u2190" : "\U0001F300";
  }
}

constexpr size_t kPageBits = 8;
using Pages = std::bitset<(0x110000 >> kPageBits)>;

// The range that holds `c`, or null. Pages of 256 without any answer first.
const Range* FindAddition(uint32_t c) {
  static const Pages pages = [] {
    Pages built;
    for (const Range& range : kAdditions) {
      for (uint32_t page = range.low >> kPageBits; page <= range.high >> kPageBits; ++page) {
        built.set(page);
      }
    }
    return built;
  }();
  if (!pages[c >> kPageBits]) return nullptr;
  const Range* range =
      std::lower_bound(std::begin(kAdditions), std::end(kAdditions), c,
                       [](const Range& r, uint32_t value) { return r.high < value; });
  return range != std::end(kAdditions) && range->low <= c ? range : nullptr;
}

// First position >= `position` of an addition; its range in *range. All have three or four bytes.
size_t FindNext(std::string_view text, size_t position, const Range** range) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  while (position < text.size()) {
    uint64_t block = 0;
    if (position + sizeof(block) <= text.size()) {
      std::memcpy(&block, text.data() + position, sizeof(block));
      if ((block & kHighBits) == 0) {
        position += sizeof(block);
        continue;
      }
    }
    if (static_cast<uint8_t>(text[position]) < 0xE0) {
      ++position;
      continue;
    }
    const CodePoint c = CodePointAt(text, position);
    *range = FindAddition(c.value);
    if (*range != nullptr) return position;
    position += c.size;
  }
  return text.size();
}

}  // namespace

std::string_view ReplaceUnicodeAdditions(std::string_view text, std::string* storage) {
  const Range* range = nullptr;
  size_t position = FindNext(text, 0, &range);
  if (position == text.size()) return text;
  storage->assign(text);
  while (position < text.size()) {
    const size_t size = CodePointAt(text, position).size;
    storage->replace(position, size, Substitute(range->category, size));
    position = FindNext(text, position + size, &range);
  }
  return *storage;
}

}  // namespace coxswain::data
