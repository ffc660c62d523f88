// Mistral Small 3 and Ministral 3 with their images: a text model of either.
// Source: transformers modeling_mistral3.
#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"

namespace coxswain::model {
namespace {

void ReadMistral3(ConfigKeys& keys, ModelConfig* config) {
  const std::string type = keys.String("model_type", std::string(kMistral.model_type));
  for (const Family* text : {&kMistral, &kMinistral3}) {
    if (type == text->model_type) return text->read(keys, config);
  }
  keys.Fail(
      absl::StrCat("model_type \"", type, "\" is not supported; supported: mistral, ministral3"));
}

}  // namespace

const Family kMistral3 = {.architecture = "Mistral3ForConditionalGeneration",
                          .model_type = "mistral3",
                          .checkpoints = "Mistral Small 3.1 and 3.2, Ministral 3: the text part",
                          .read = &ReadMistral3,
                          .outside = &LlavaOutside,
                          .harmless = {"attention_bias", "mlp_bias"},
                          .text = LlavaText()};

}  // namespace coxswain::model
