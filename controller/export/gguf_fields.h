// The metadata of a GGUF file: what the model is, and its tokenizer.
#ifndef COXSWAIN_CONTROLLER_EXPORT_GGUF_FIELDS_H_
#define COXSWAIN_CONTROLLER_EXPORT_GGUF_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/files/gguf_writer.h"
#include "common/plan/plan.h"
#include "controller/export/export_tokenizer.h"

namespace coxswain::exports {

// general.*, those of the architecture, and tokenizer.*. `tokenizer`: the directory of the exported
// one. `tensors` are counted for general.size_label. Errors as ReadGgufVocabulary.
absl::StatusOr<std::vector<GgufField>> GgufModelFields(const config::JobSpec& job,
                                                       const plan::Plan& plan,
                                                       const TrainedFormat& format,
                                                       const std::string& tokenizer,
                                                       const std::vector<GgufTensor>& tensors);

// adapter.lora.alpha is what llama.cpp divides by the rank: under rsLoRA alpha x sqrt(r).
std::vector<GgufField> GgufAdapterFields(const config::JobSpec& job, const plan::Plan& plan);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_GGUF_FIELDS_H_
