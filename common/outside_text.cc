#include "common/outside_text.h"

#include <algorithm>
#include <cstdint>

namespace coxswain {
namespace {

// Bytes of the character that begins `text`; 0: none does.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first < 0xC2   ? 0
                       : first < 0xE0 ? 2
                       : first < 0xF0 ? 3
                       : first < 0xF5 ? 4
                                      : 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_high = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_high ? 0 : bytes;
}

uint32_t CodePoint(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  uint32_t code = first & (0x7Fu >> character.size());
  for (const char c : character.substr(1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
  return code;
}

// C0 but line feed and tab, DEL and C1: what a terminal would obey. The marks that turn the
// direction of the text after them: what a reader would be misled by.
// Source: Unicode Standard Annex 9, 2.1 to 2.5; Boucher, Anderson: Trojan Source (2021).
bool IsControl(uint32_t code) {
  const bool c0 = code < 0x20 && code != '\n' && code != '\t';
  const bool c1 = code >= 0x7F && code < 0xA0;
  const bool turns = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return c0 || c1 || turns;
}

constexpr char kDigits[] = "0123456789abcdef";

void AppendByte(char c, std::string* out) {
  const auto byte = static_cast<unsigned char>(c);
  *out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

// \xNN for C0, as for a byte. The others stand unescaped in what a JSON writer makes, whose readers
// know \uNNNN alone.
void AppendControl(uint32_t code, std::string* out) {
  if (code < 0x20) return AppendByte(static_cast<char>(code), out);
  *out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) *out += kDigits[code >> shift & 15];
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string Clean(std::string_view text) {
  std::string out;
  AppendClean(text, &out);
  return out;
}

}  // namespace

size_t Utf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t bytes = CharacterBytes(text.substr(at));
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

size_t CutCharacterBytes(std::string_view text) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(3, text.size()); ++bytes) {
    const std::string_view end = text.substr(text.size() - bytes);
    if (IsContinuation(end[0])) continue;
    const auto first = static_cast<unsigned char>(end[0]);
    const size_t whole = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    return whole > bytes ? bytes : 0;
  }
  return 0;
}

bool IsUtf8(std::string_view text) { return Utf8Prefix(text) == text.size(); }

void AppendClean(std::string_view text, std::string* out) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(bytes, 1));
    if (bytes == 0) {
      AppendByte(text[0], out);
    } else if (const uint32_t code = CodePoint(character); IsControl(code)) {
      AppendControl(code, out);
    } else {
      *out += character;
    }
    text.remove_prefix(character.size());
  }
}

std::string OneLine(std::string_view text, size_t most_bytes) {
  std::string line;
  for (const char c : CleanText(text, most_bytes)) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else {
      line += c;
    }
  }
  return line;
}

std::string CleanText(std::string_view text, size_t most_bytes) {
  // Cleaning never makes text shorter: of a huge one only the ends are looked at.
  const size_t end = std::min(text.size(), most_bytes);
  std::string head = Clean(text.substr(0, end));
  if (end == text.size() && head.size() <= most_bytes) return head;

  // The first three quarters and the end: an error begins with what and where, and ends with what
  // to do.
  const std::string note = "[... cut: " + std::to_string(text.size()) + " bytes in all ...]";
  const size_t room = most_bytes - note.size();
  std::string tail = Clean(text.substr(text.size() - end));
  size_t keep = room - room / 4, from = tail.size() - room / 4;
  while (keep > 0 && IsContinuation(head[keep])) --keep;
  while (from < tail.size() && IsContinuation(tail[from])) ++from;
  return head.substr(0, keep) + note + tail.substr(from);
}

}  // namespace coxswain
