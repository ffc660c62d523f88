// The error for an unsupported step of tokenizer.json.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_UNSUPPORTED_STEP_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_UNSUPPORTED_STEP_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coxswain::data {

// InvalidArgument: "<step> <found> is not supported; supported: <supported>".
inline absl::Status UnsupportedStep(std::string_view step, const std::string& found,
                                    std::string_view supported) {
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(step), " ", found, " is not supported; supported: ", std::string(supported)));
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_UNSUPPORTED_STEP_H_
