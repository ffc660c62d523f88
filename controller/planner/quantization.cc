#include "controller/planner/quantization.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace coxswain::planner {
namespace {

// As a job says it.
std::string Spelled(const std::string& quantization) {
  if (quantization == "nf4_double") return "{format: nf4, double: true}";
  if (quantization == "nf4") return "{format: nf4, double: false}";
  return absl::StrCat("{format: ", quantization, "}");
}

}  // namespace

absl::StatusOr<std::string> QuantizationOf(const config::JobSpec& job,
                                           const model::ModelConfig& model) {
  const bool any = absl::StartsWith(job.quantization, "auto");
  const bool drawn = job.init == "random";
  if (model.quantization.empty() || drawn) {
    if (!any) return job.quantization;
    return job.quantization == "auto" ? "nf4_double" : "nf4";
  }
  const bool as_it_is = job.quantization.empty() && config::OnlyGenerates(job);
  if (any || as_it_is || job.quantization == model.quantization) return model.quantization;
  if (job.quantization.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.model_path, "/config.json: by quantization_config the linears are ",
        Spelled(model.quantization),
        ", on which adapter: ", job.adapter == config::Adapter::kNone ? "none" : "lora",
        " cannot train; write adapter: qlora, or give the unquantised model"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "quantization is ", Spelled(job.quantization), ", the files of ", job.model_path, " hold ",
      Spelled(model.quantization), "; leave quantization out, or give ", "the unquantised model"));
}

}  // namespace coxswain::planner
