#include "controller/planner/model/quantization.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::planner {
namespace {

// As a job says it.
std::string Spelled(const std::string& quantization) {
  if (quantization == "nf4_double") return "{format: nf4, double: true}";
  if (quantization == "nf4") return "{format: nf4, double: false}";
  return absl::StrCat("{format: ", quantization, "}");
}

constexpr const char* kMxfp4 = "mxfp4";

// Rows of experts are whole blocks.
absl::StatusOr<std::string> Mxfp4On(const config::JobSpec& job, const model::ModelConfig& model) {
  constexpr int64_t kBlock = kernels::kMxfp4Block;
  if (model.mixture.experts == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "quantization.format mxfp4 is for experts, of which ", job.model_path, " has none"));
  }
  for (const int64_t extent : {model.hidden_size, model.mixture.width}) {
    if (extent % kBlock == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("quantization.format mxfp4 has a scale for ", kBlock, " elements of a row; ",
                     "rows of the experts of ", job.model_path, " have ", extent));
  }
  if (job.resident_blocks.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parallelism.resident_blocks is ", *job.resident_blocks, ", experts in mxfp4 are ",
        "dequantised at most two blocks at a time and none stays; leave it out, or give ",
        "quantization: {format: none}"));
  }
  return kMxfp4;
}

// Files in MXFP4.
absl::StatusOr<std::string> OnMxfp4(const config::JobSpec& job, const model::ModelConfig& model) {
  const bool unsaid = job.quantization.empty() || absl::StartsWith(job.quantization, "auto");
  const bool frozen = job.adapter == config::Adapter::kLora || config::OnlyGenerates(job);
  if (job.quantization == kMxfp4 || (unsaid && frozen)) return Mxfp4On(job, model);
  return unsaid || job.quantization == "none" ? "" : job.quantization;
}

}  // namespace

absl::StatusOr<std::string> QuantizationOf(const config::JobSpec& job,
                                           const model::ModelConfig& model) {
  const bool any = absl::StartsWith(job.quantization, "auto");
  const bool drawn = job.init == "random";
  if (model.quantization.empty() || drawn) {
    if (job.quantization == kMxfp4) return Mxfp4On(job, model);
    if (job.quantization == "none") return "";
    if (!any) return job.quantization;
    return job.quantization == "auto" ? "nf4_double" : "nf4";
  }
  if (model.quantization == kMxfp4) return OnMxfp4(job, model);
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
