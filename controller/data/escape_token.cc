#include "controller/data/escape_token.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <utf8proc.h>

namespace coxswain::data {
namespace {

void AppendHex(uint8_t byte, std::string* out) {
  char text[5];
  std::snprintf(text, sizeof(text), "\\x%02X", byte);
  out->append(text);
}

}  // namespace

std::string EscapeToken(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    int32_t code_point = -1;
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    const auto size =
        utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(bytes.size()), &code_point);
    const size_t taken = size > 0 ? static_cast<size_t>(size) : 1;
    if (code_point == '\n') {
      out += "\\n";
    } else if (code_point == '\t') {
      out += "\\t";
    } else if (code_point == '\r') {
      out += "\\r";
    } else if (code_point == '\\') {
      out += "\\\\";
    } else if (size <= 0 || utf8proc_category(code_point) == UTF8PROC_CATEGORY_CC) {
      for (size_t i = 0; i < taken; ++i) AppendHex(data[i], &out);
    } else {
      out.append(bytes.substr(0, taken));
    }
    bytes.remove_prefix(taken);
  }
  return out;
}

}  // namespace coxswain::data
