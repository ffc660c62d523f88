#include "controller/text/tokenizer/steps/pipeline.h"

#include "common/status_macros.h"
#include "controller/text/tokenizer/steps/step_fields.h"

namespace coxswain::data {

absl::StatusOr<Pipeline> ReadPipeline(simdjson::dom::element tokenizer_json) {
  Pipeline pipeline;
  if (const auto normalizer = FindField(tokenizer_json, "normalizer")) {
    RETURN_IF_ERROR(pipeline.normalizer.Read(*normalizer));
  }
  if (const auto pre_tokenizer = FindField(tokenizer_json, "pre_tokenizer")) {
    RETURN_IF_ERROR(pipeline.pre_tokenizer.Read(*pre_tokenizer));
  }
  if (pipeline.pre_tokenizer.looks_for_first() && pipeline.normalizer.prepends()) {
    return absl::InvalidArgumentError(
        "normalizer 'Prepend' before pre_tokenizer 'Metaspace' with prepend_scheme 'first' is not "
        "supported; supported: one of the two");
  }
  if (const auto post_processor = FindField(tokenizer_json, "post_processor")) {
    RETURN_IF_ERROR(ReadPostProcessor(*post_processor, &pipeline.post_processor));
  }
  const auto decoder = FindField(tokenizer_json, "decoder");
  if (!decoder.has_value()) {
    return absl::InvalidArgumentError(
        "there is no decoder, so that tokens would decode with spaces between them; supported: "
        "ByteLevel, or the decoder that a SentencePiece model is saved with");
  }
  RETURN_IF_ERROR(pipeline.decoder.Read(*decoder));
  return pipeline;
}

}  // namespace coxswain::data
