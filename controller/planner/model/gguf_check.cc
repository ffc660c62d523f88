#include "controller/planner/model/gguf_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/model/files/gguf_family.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/gguf_vocabulary.h"

namespace coxswain::planner {
namespace {

absl::Status Named(const char* key, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("export.gguf.", key, ": ", std::string(status.message()), "; or set none"));
}

}  // namespace

absl::Status CheckGguf(const config::JobSpec& job, const model::ModelConfig& model) {
  const bool of_model = job.export_gguf.model != "none";
  const bool of_adapter = job.export_gguf.adapter != "none";
  if (!of_model && !of_adapter) return absl::OkStatus();
  RETURN_IF_ERROR(Named(of_model ? "model" : "adapter", model::CheckGgufForm(model)));
  if (!of_model) return absl::OkStatus();
  return Named("model", data::ReadGgufVocabulary(job.model_path, job.model_path + "/config.json",
                                                 model.vocab_size)
                            .status());
}

absl::Status CheckGgufAdapter(const config::JobSpec& job, const plan::Plan& plan) {
  if (job.export_gguf.adapter == "none") return absl::OkStatus();
  return Named("adapter", model::CheckGgufAdapter(plan.model, plan.parameters));
}

}  // namespace coxswain::planner
