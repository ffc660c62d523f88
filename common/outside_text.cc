#include "common/outside_text.h"

#include <algorithm>

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

// C0 but line feed and tab, DEL, and C1: what a terminal would obey.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 2)
    return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  return character.size() == 1 &&
         (first == 0x7F || (first < 0x20 && first != '\n' && first != '\t'));
}

void AppendEscaped(std::string_view bytes, std::string* out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    *out += "\\x";
    *out += kDigits[byte >> 4];
    *out += kDigits[byte & 15];
  }
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string Clean(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text.substr(at));
    const std::string_view character = text.substr(at, std::max<size_t>(bytes, 1));
    if (bytes == 0 || IsControl(character)) {
      AppendEscaped(character, &out);
    } else {
      out += character;
    }
    at += character.size();
  }
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

bool IsUtf8(std::string_view text) { return Utf8Prefix(text) == text.size(); }

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
