#include "controller/planner/device_check.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

constexpr int32_t kLeastCapability = 80;  // bfloat16 products

absl::Status CheckCpu(const config::JobSpec& job) {
  if (job.compute_dtype != Precision::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("precision.compute is ", config::PrecisionName(job.compute_dtype),
                     ", cpu workers compute in float32; set precision.compute: auto"));
  }
  return absl::OkStatus();
}

absl::Status CheckCuda(const config::JobSpec& job, const model::ModelConfig& model,
                       int32_t compute_capability) {
  if (!job.compute_dtype.has_value()) {
    return absl::UnimplementedError(absl::StrCat("precision.compute is ",
                                                 config::PrecisionName(job.compute_dtype),
                                                 ": cuda workers know bfloat16 and float32"));
  }
  if (compute_capability > 0 && compute_capability < kLeastCapability) {
    return absl::FailedPreconditionError(
        absl::StrCat("the GPU has compute capability ", compute_capability / 10, ".",
                     compute_capability % 10, ", at least 8.0 is needed (A100 and later)"));
  }
  for (const auto& [name, dim] :
       {std::pair{"head_dim", model.head_dim}, std::pair{"v_head_dim", model.value_dim()}}) {
    if (dim % 8 == 0 && dim <= 256) continue;
    return absl::UnimplementedError(
        absl::StrCat(name, " is ", dim, ": attention on cuda needs a multiple of 8 up to 256; ",
                     "use resources.device: cpu"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDevice(const config::JobSpec& job, const model::ModelConfig& model,
                         int32_t compute_capability) {
  const int64_t positions = job.sequence_len;  // of a document
  if (model.rope.type == "dynamic" && positions > model.rope.original_max_position) {
    return absl::UnimplementedError(
        absl::StrCat("sequence_len is ", positions, ": a rope type \"dynamic\" is known up ",
                     "to max_position_embeddings, here ", model.rope.original_max_position,
                     "; lower sequence_len, or write rope type yarn or linear into config.json"));
  }
  if (job.device == config::Device::kCuda) return CheckCuda(job, model, compute_capability);
  return CheckCpu(job);
}

}  // namespace coxswain::planner
