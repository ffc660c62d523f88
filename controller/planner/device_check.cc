#include "controller/planner/device_check.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

// Architectures whose forward the engine has.
constexpr std::array<std::string_view, 4> kArchitectures = {
    "Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"};

constexpr int32_t kLeastCapability = 80;  // bfloat16 products

absl::Status CheckCpu(const config::JobSpec& job) {
  if (job.compute_dtype != "float32") {
    return absl::InvalidArgumentError(
        absl::StrCat("precision.compute is ", job.compute_dtype,
                     ", cpu workers compute in float32; set precision.compute: auto"));
  }
  return absl::OkStatus();
}

absl::Status CheckCuda(const config::JobSpec& job, const model::ModelConfig& model,
                       int32_t compute_capability) {
  if (job.compute_dtype != "float32" && job.compute_dtype != "bfloat16") {
    return absl::UnimplementedError(absl::StrCat("precision.compute is ", job.compute_dtype,
                                                 ": cuda workers know bfloat16 and float32"));
  }
  if (compute_capability > 0 && compute_capability < kLeastCapability) {
    return absl::FailedPreconditionError(
        absl::StrCat("the GPU has compute capability ", compute_capability / 10, ".",
                     compute_capability % 10, ", at least 8.0 is needed (A100 and later)"));
  }
  const int64_t dim = model.head_dim;
  if (dim % 8 != 0 || (dim > 128 && dim != 256)) {
    return absl::UnimplementedError(
        absl::StrCat("head_dim is ", dim, ": attention on cuda needs a multiple of 8 up to 128, ",
                     "or 256; use resources.device: cpu"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDevice(const config::JobSpec& job, const model::ModelConfig& model,
                         int32_t compute_capability) {
  if (std::find(kArchitectures.begin(), kArchitectures.end(), model.architecture) ==
      kArchitectures.end()) {
    return absl::UnimplementedError(absl::StrCat("architecture ", model.architecture,
                                                 " is not supported; Qwen2, Qwen3, Llama and ",
                                                 "MistralForCausalLM are"));
  }
  if (job.device == config::Device::kCuda) return CheckCuda(job, model, compute_capability);
  return CheckCpu(job);
}

}  // namespace coxswain::planner
