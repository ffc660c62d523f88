#include "controller/planner/model/quantization.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::planner {
namespace {

// As a job says it.
std::string Spelled(const std::string& quantization) {
  if (quantization == ToString(Quantization::kNf4Double)) return "{format: nf4, double: true}";
  if (quantization == ToString(Quantization::kNf4)) return "{format: nf4, double: false}";
  return absl::StrCat("{format: ", quantization, "}");
}

// The format that the job names; kNone where it asks for none or leaves it open.
Quantization Named(const config::JobSpec& job) {
  return FromString<Quantization>(job.quantization).value_or(Quantization::kNone);
}

// Rows of experts are whole blocks.
absl::StatusOr<Quantization> Mxfp4On(const config::JobSpec& job, const model::ModelConfig& model) {
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
  return Quantization::kMxfp4;
}

// Files in MXFP4.
absl::StatusOr<Quantization> OnMxfp4(const config::JobSpec& job, const model::ModelConfig& model) {
  const bool unsaid = job.quantization.empty() || absl::StartsWith(job.quantization, "auto");
  const bool frozen = job.adapter == config::Adapter::kLora || config::OnlyGenerates(job);
  if (Named(job) == Quantization::kMxfp4 || (unsaid && frozen)) return Mxfp4On(job, model);
  return unsaid ? Quantization::kNone : Named(job);
}

}  // namespace

absl::StatusOr<Quantization> QuantizationOf(const config::JobSpec& job,
                                            const model::ModelConfig& model) {
  const bool any = absl::StartsWith(job.quantization, "auto");
  const bool drawn = job.init == BaseInit::kRandom;
  if (model.quantization == Quantization::kNone || drawn) {
    if (Named(job) == Quantization::kMxfp4) return Mxfp4On(job, model);
    if (!any) return Named(job);
    return job.quantization == "auto" ? Quantization::kNf4Double : Quantization::kNf4;
  }
  if (model.quantization == Quantization::kMxfp4) return OnMxfp4(job, model);
  const bool as_it_is = job.quantization.empty() && config::OnlyGenerates(job);
  if (any || as_it_is || Named(job) == model.quantization) return model.quantization;
  if (job.quantization.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.model_path, "/config.json: by quantization_config the linears are ",
        Spelled(ToString(model.quantization)),
        ", on which adapter: ", job.adapter == config::Adapter::kNone ? "none" : "lora",
        " cannot train; write adapter: qlora, or give the unquantised model"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("quantization is ", Spelled(job.quantization), ", the files of ", job.model_path,
                   " hold ", Spelled(ToString(model.quantization)),
                   "; leave quantization out, or give ", "the unquantised model"));
}

}  // namespace coxswain::planner
