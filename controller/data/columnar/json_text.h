// JSON text of strings, for readers of files that are not JSON.
#ifndef COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_TEXT_H_
#define COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace coxswain::data {

// Appends `text` between quotes, escaped. Its bytes are not checked: the record's parser refuses
// broken UTF-8.
inline void AppendJsonString(std::string_view text, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out->append(text, begin, i - begin);
    begin = i + 1;
    out->push_back('\\');
    if (c == '"' || c == '\\') {
      out->push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out->push_back('n');
    } else {
      out->append({'u', '0', '0', kHex[c >> 4], kHex[c & 15]});
    }
  }
  out->append(text, begin, text.size() - begin);
  out->push_back('"');
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_TEXT_H_
