// Quotes text of a file for a message.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_QUOTED_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_QUOTED_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace coxswain::data {

inline std::string Quoted(std::string_view text) {
  return absl::StrCat("'", std::string(text), "'");
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_QUOTED_H_
