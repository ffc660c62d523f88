#include "controller/text/tokenizer/file/token_sizes.h"

#include <algorithm>

#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

// -1: the token is no single byte.
int ByteOf(const TokenizerFile& file, int32_t id) {
  const std::string& token = file.tokens[static_cast<size_t>(id)];
  if (token.size() != 6 || token[0] != '<') return -1;  // "<0x0A>"
  const auto found = std::find(file.byte_ids.begin(), file.byte_ids.end(), id);
  return found == file.byte_ids.end() ? -1 : static_cast<int>(found - file.byte_ids.begin());
}

// Every byte is one character of the alphabet.
size_t CharactersOf(std::string_view token) {
  return static_cast<size_t>(std::count_if(
      token.begin(), token.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

bool BeginsWith(const TokenizerFile& file, std::string_view text, int32_t id) {
  const int byte = ByteOf(file, id);
  if (byte >= 0) return !text.empty() && static_cast<uint8_t>(text[0]) == byte;
  return text.starts_with(file.tokens[static_cast<size_t>(id)]);
}

size_t UnknownSize(const TokenizerFile& file, std::span<const int32_t> behind,
                   std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    size += CodePointAt(text, size).size;
    if (behind.empty()) continue;
    if (behind[0] == file.unknown_id || BeginsWith(file, text.substr(size), behind[0])) break;
  }
  return size;
}

}  // namespace

std::vector<size_t> TokenSizes(const TokenizerFile& file, std::span<const int32_t> ids,
                               std::string_view words, size_t until) {
  std::vector<size_t> sizes;
  size_t at = 0;
  for (size_t i = 0; i < ids.size() && at < until; ++i) {
    const std::string& token = file.tokens[static_cast<size_t>(ids[i])];
    size_t size = token.size();
    if (file.byte_level) {
      size = CharactersOf(token);
    } else if (ids[i] == file.unknown_id) {
      size = UnknownSize(file, ids.subspan(i + 1), words.substr(std::min(at, words.size())));
    } else if (ByteOf(file, ids[i]) >= 0) {
      size = 1;
    }
    sizes.push_back(size);
    at += size;
  }
  return sizes;
}

}  // namespace coxswain::data
