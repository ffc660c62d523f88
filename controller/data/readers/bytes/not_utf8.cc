#include "controller/data/readers/bytes/not_utf8.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/outside_text.h"

namespace coxswain::data {
namespace {

constexpr size_t kShownEnding = 24;

// The last characters of `text`, which is UTF-8.
std::string Ending(std::string_view text) {
  size_t begin = text.size() - std::min(text.size(), kShownEnding);
  while (begin < text.size() && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) ++begin;
  return CleanText(std::string(text.substr(begin)));
}

// A byte above 0x9F as the character that Latin-1 makes of it.
std::string Latin1(uint8_t byte) {
  return {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
}

}  // namespace

std::string NotUtf8Text(std::string_view text) {
  const size_t good = Utf8Prefix(text);
  if (good == text.size()) return "";
  const auto byte = static_cast<uint8_t>(text[good]);
  // Latin-1 has control characters there, the code page of Windows quotes and dashes.
  const bool windows = byte < 0xA0;
  const char* name = windows ? "WINDOWS-1252" : "ISO-8859-1";
  return absl::StrCat(absl::StrFormat("not UTF-8 at byte 0x%02X behind \"", byte),
                      Ending(text.substr(0, good)), "\"",
                      windows ? ", which text of Windows has"
                              : absl::StrCat(", which is \"", Latin1(byte), "\" in Latin-1"),
                      "; save the file as UTF-8: iconv -f ", name, " -t UTF-8 FILE > NEW_FILE");
}

}  // namespace coxswain::data
