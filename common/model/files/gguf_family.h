// Whether a GGUF file is written of a model, and of an adapter of it.
#ifndef COXSWAIN_COMMON_MODEL_FILES_GGUF_FAMILY_H_
#define COXSWAIN_COMMON_MODEL_FILES_GGUF_FAMILY_H_

#include <vector>

#include "absl/status/status.h"
#include "common/model/gguf_form.h"
#include "common/model/model_config.h"
#include "common/model/parameter.h"

namespace coxswain::model {

// Null where the family has none.
const GgufForm* FindGgufForm(const ModelConfig& config);

// Unimplemented says why no GGUF is written of the model, and names the families of which one is.
absl::Status CheckGgufForm(const ModelConfig& config);

// Unimplemented names the first of `parameters` that no GGUF of an adapter holds.
absl::Status CheckGgufAdapter(const ModelConfig& config, const std::vector<Parameter>& parameters);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FILES_GGUF_FAMILY_H_
