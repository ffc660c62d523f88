#include "controller/text/tokenizer/steps/sentencepiece_normalizer.h"

#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

// The next part of `text` and what it is mapped to: a kept symbol to itself, what the map has, or
// a character to itself.
Charsmap::Prefix NextPart(const SentencePieceNormalizer& normalizer, std::string_view text) {
  if (normalizer.charsmap.has_value()) {
    for (const std::string& symbol : normalizer.kept) {
      if (text.starts_with(symbol)) return {symbol.size(), text.substr(0, symbol.size())};
    }
    const Charsmap::Prefix prefix = normalizer.charsmap->LongestPrefix(text);
    if (prefix.size > 0) return prefix;
  }
  const size_t size = CodePointAt(text, 0).size;
  return {size, text.substr(0, size)};
}

}  // namespace

void SentencePieceNormalizer::Normalize(std::string_view text, bool is_first,
                                        std::string* out) const {
  while (remove_extra_spaces && !text.empty()) {
    const Charsmap::Prefix part = NextPart(*this, text);
    if (part.replacement != " ") break;
    text.remove_prefix(part.size);
  }
  if (text.empty()) return;
  const std::string_view space = escape_spaces ? kMetaspace : " ";
  out->reserve(text.size() + text.size() / 2 + space.size());
  if (add_dummy_prefix && (is_first || !prefix_first_only)) out->append(space);
  bool skips_spaces = remove_extra_spaces;
  while (!text.empty()) {
    Charsmap::Prefix part = NextPart(*this, text);
    text.remove_prefix(part.size);
    while (skips_spaces && part.replacement.starts_with(' ')) part.replacement.remove_prefix(1);
    if (part.replacement.empty()) continue;
    for (const char c : part.replacement) c == ' ' ? out->append(space) : out->append(1, c);
    skips_spaces = remove_extra_spaces && part.replacement.ends_with(' ');
  }
  while (remove_extra_spaces && out->ends_with(space)) out->resize(out->size() - space.size());
}

}  // namespace coxswain::data
