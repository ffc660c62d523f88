#include "controller/text/tokenizer/unicode/utf8.h"

#include <simdjson.h>

namespace coxswain::data {
namespace {

// Range of the second byte for a lead byte (Unicode 15, table 3-7); size 0: not a lead byte.
struct Lead {
  int size;
  uint8_t second_low;
  uint8_t second_high;
};

Lead ClassifyLead(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Length of the longest well-formed prefix of a character at `position`; *complete says whether it
// is a whole character. At least 1.
size_t SubpartAt(std::string_view bytes, size_t position, bool* complete) {
  const Lead lead = ClassifyLead(static_cast<uint8_t>(bytes[position]));
  *complete = lead.size == 1;
  if (lead.size <= 1) return 1;
  for (int i = 1; i < lead.size; ++i) {
    if (position + i >= bytes.size()) return i;
    const auto byte = static_cast<uint8_t>(bytes[position + i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return i;
  }
  *complete = true;
  return lead.size;
}

}  // namespace

bool IsValidUtf8(std::string_view bytes) {
  return simdjson::validate_utf8(bytes.data(), bytes.size());
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 16);
  for (size_t i = 0; i < bytes.size();) {
    bool complete = false;
    const size_t size = SubpartAt(bytes, i, &complete);
    if (complete) {
      out.append(bytes.substr(i, size));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    i += size;
  }
  return out;
}

CodePoint CodePointAt(std::string_view text, size_t position) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const uint32_t lead = at(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (at(1) & 0x3Fu), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (at(1) & 0x3Fu) << 6 | (at(2) & 0x3Fu), 3};
  return {(lead & 0x07) << 18 | (at(1) & 0x3Fu) << 12 | (at(2) & 0x3Fu) << 6 | (at(3) & 0x3Fu), 4};
}

CodePoint LastCodePoint(std::string_view text) {
  size_t position = text.size() - 1;
  while ((static_cast<uint8_t>(text[position]) & 0xC0) == 0x80) --position;
  return CodePointAt(text, position);
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace coxswain::data
