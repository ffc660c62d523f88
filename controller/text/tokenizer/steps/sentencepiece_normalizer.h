// Normalizes a text as SentencePiece does before it is cut into pieces.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_SENTENCEPIECE_NORMALIZER_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_SENTENCEPIECE_NORMALIZER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/text/tokenizer/unicode/charsmap.h"

namespace coxswain::data {

inline constexpr std::string_view kMetaspace = "\u2581";  // stands for a space

struct SentencePieceNormalizer {
  std::optional<Charsmap> charsmap;  // none: the identity
  // User-defined symbols, which the map does not change; longest first.
  std::vector<std::string> kept;
  bool add_dummy_prefix = true;  // writes a space before a text that is not empty
  // Among the texts between special tokens, only the first gets a prefix.
  bool prefix_first_only = false;
  bool remove_extra_spaces = true;  // removes spaces at both ends, and all but one of a run
  bool escape_spaces = true;        // spaces become U+2581

  // Writes the normalized `text` (valid UTF-8) to *out, which must be empty. `is_first`: the text
  // is at the start of the input. Source: the steps are those of SentencePiece's normalizer.cc.
  void Normalize(std::string_view text, bool is_first, std::string* out) const;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_SENTENCEPIECE_NORMALIZER_H_
