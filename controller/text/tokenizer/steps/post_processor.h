// The ids that a post-processor of tokenizer.json puts around one text.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_POST_PROCESSOR_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_POST_PROCESSOR_H_

#include <simdjson.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::data {

struct PostProcessor {
  std::vector<int32_t> front;
  std::vector<int32_t> behind;
};

// Adds the ids of `json`, an element of tokenizer.json. InvalidArgument names an unsupported step
// and the supported ones.
absl::Status ReadPostProcessor(simdjson::dom::element json, PostProcessor* post_processor);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_POST_PROCESSOR_H_
