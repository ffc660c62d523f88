// The character map of a SentencePiece model: it maps strings to their normalized form.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_CHARSMAP_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_CHARSMAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

class Charsmap {
 public:
  struct Prefix {
    size_t size;                   // bytes of the text
    std::string_view replacement;  // lives as long as the map
  };

  // Reads a precompiled_charsmap: the size of a double array, the array, and strings that end with
  // a zero byte. InvalidArgument: it is damaged.
  static absl::StatusOr<Charsmap> Parse(std::string_view blob);

  // The longest prefix of `text` that is in the map; size 0: none. Source: the layout of a unit is
  // that of Yata's darts-clone.
  Prefix LongestPrefix(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string strings_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_CHARSMAP_H_
