#include "controller/text/templates/turn_end.h"

#include <algorithm>
#include <cstdint>

namespace coxswain::data {
namespace {

bool IsGap(char c) { return c == '\n' || c == ' '; }

std::string_view WithoutGap(std::string_view text) {
  while (!text.empty() && IsGap(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view TokenAtEnd(std::string_view text, const Markers& markers) {
  std::string_view longest;
  for (const std::string& marker : markers) {
    if (marker.size() > longest.size() && text.ends_with(marker)) longest = marker;
  }
  return longest;
}

std::string_view TokenAtBegin(std::string_view text, const Markers& markers) {
  std::string_view longest;
  for (const std::string& marker : markers) {
    if (marker.size() > longest.size() && text.starts_with(marker)) longest = marker;
  }
  return longest;
}

size_t EndOfLastToken(std::string_view turn, const Markers& markers) {
  const std::string_view trimmed = WithoutGap(turn);
  return TokenAtEnd(trimmed, markers).empty() ? turn.size() : trimmed.size();
}

size_t WithoutTail(std::string_view text, const Markers& markers) {
  std::string_view body = WithoutGap(text);
  for (size_t token; (token = TokenAtEnd(body, markers).size()) > 0;) {
    body.remove_suffix(token);
    body = WithoutGap(body);
  }
  return body.size();
}

bool IsTail(std::string_view text, const Markers& markers) {
  while (!text.empty()) {
    const size_t token = TokenAtBegin(text, markers).size();
    if (token == 0 && !IsGap(text.front())) return false;
    text.remove_prefix(std::max(token, size_t{1}));
  }
  return true;
}

size_t TailOfTurn(std::string_view turn, const Markers& markers) {
  const size_t end = EndOfLastToken(turn, markers);
  const std::string_view token = TokenAtEnd(turn.substr(0, end), markers);
  return token.empty() ? 0 : turn.size() - end + token.size();
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  auto common =
      static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (common > 0 && common < a.size() && (static_cast<uint8_t>(a[common]) & 0xC0) == 0x80) {
    --common;
  }
  return common;
}

}  // namespace coxswain::data
