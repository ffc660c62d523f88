// The steps of a tokenizer around its model.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_PIPELINE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_PIPELINE_H_

#include <simdjson.h>

#include "absl/status/statusor.h"
#include "controller/text/tokenizer/steps/decoder.h"
#include "controller/text/tokenizer/steps/normalizer.h"
#include "controller/text/tokenizer/steps/post_processor.h"
#include "controller/text/tokenizer/steps/pre_tokenizer.h"

namespace coxswain::data {

struct Pipeline {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  PostProcessor post_processor;
  Decoder decoder;
};

// InvalidArgument names an unsupported step and the supported ones, but not the file.
absl::StatusOr<Pipeline> ReadPipeline(simdjson::dom::element tokenizer_json);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_PIPELINE_H_
