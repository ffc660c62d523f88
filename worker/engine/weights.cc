#include "worker/engine/weights.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "kernels/device.h"
#include "worker/engine/random_init.h"

namespace coxswain::engine {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Checks `tensor` (null: absent) of `source` and copies it to `weights`.
absl::Status Load(const plan::Parameter& parameter, const TensorInfo* tensor,
                  const std::string& source, float* weights) {
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": tensor \"", parameter.name,
                                                   "\" is missing; wanted ",
                                                   ShapeText(FileShape(parameter))));
  }
  const std::vector<int64_t> wanted = FileShape(parameter);
  if (tensor->shape != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": tensor \"", parameter.name,
                                                   "\" has shape ", ShapeText(tensor->shape),
                                                   ", the model needs ", ShapeText(wanted)));
  }
  std::vector<float> staging(static_cast<size_t>(parameter.elements()));
  if (absl::Status status = CopyAsFloat(*tensor, staging.data()); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(source, ": ", std::string(status.message())));
  }
  kernels::CopyMemory(weights, staging.data(), parameter.elements() * 4, nullptr);
  return absl::OkStatus();
}

absl::Status CheckNothingLeft(const std::vector<const TensorInfo*>& tensors,
                              const std::set<std::string>& known, const std::string& source) {
  for (const TensorInfo* tensor : tensors) {
    if (known.count(tensor->name) != 0) continue;
    if (absl::EndsWith(tensor->name, "rotary_emb.inv_freq")) continue;
    return absl::InvalidArgumentError(absl::StrCat(source, ": the model has no place for tensor \"",
                                                   tensor->name, "\" of shape ",
                                                   ShapeText(tensor->shape)));
  }
  return absl::OkStatus();
}

absl::Status LoadPretrained(const plan::Plan& plan, const ParameterLayout& layout, float* weights) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WeightFiles> files, WeightFiles::Open(plan.model_path));
  std::set<std::string> known;
  if (plan.model.tie_embeddings) known.insert("lm_head.weight");
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& parameter = plan.parameters[i];
    if (IsAdapter(parameter.role)) continue;
    known.insert(parameter.name);
    RETURN_IF_ERROR(Load(parameter, files->Find(parameter.name), plan.model_path,
                         weights + layout.weight_offset[i]));
  }
  return CheckNothingLeft(files->tensors(), known, plan.model_path);
}

absl::Status LoadAdapterFile(const plan::Plan& plan, const ParameterLayout& layout,
                             float* weights) {
  const std::string path = absl::StrCat(plan.lora.init_from, "/adapter_model.safetensors");
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  std::set<std::string> known;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& parameter = plan.parameters[i];
    if (!IsAdapter(parameter.role)) continue;
    known.insert(parameter.name);
    RETURN_IF_ERROR(
        Load(parameter, file->Find(parameter.name), path, weights + layout.weight_offset[i]));
  }
  std::vector<const TensorInfo*> tensors;
  for (const TensorInfo& tensor : file->tensors()) tensors.push_back(&tensor);
  return CheckNothingLeft(tensors, known, path);
}

void Initialise(const plan::Plan& plan, const plan::Parameter& parameter, float* weights) {
  std::vector<float> staging(static_cast<size_t>(parameter.elements()));
  RandomInit(IsAdapter(parameter.role) ? plan.seed : plan.init_seed, parameter, &staging);
  kernels::CopyMemory(weights, staging.data(), parameter.elements() * 4, nullptr);
}

}  // namespace

bool IsLoraA(plan::Role role) {
  return (static_cast<uint32_t>(role) & static_cast<uint32_t>(plan::Role::kLoraA)) != 0;
}

bool IsAdapter(plan::Role role) {
  return IsLoraA(role) ||
         (static_cast<uint32_t>(role) & static_cast<uint32_t>(plan::Role::kLoraB)) != 0;
}

std::vector<int64_t> FileShape(const plan::Parameter& parameter) {
  if (parameter.cols == 1 && !IsAdapter(parameter.role)) return {parameter.rows};
  return {parameter.rows, parameter.cols};
}

absl::Status LoadBaseWeights(const plan::Plan& plan, const ParameterLayout& layout,
                             float* weights) {
  if (plan.init == "pretrained") return LoadPretrained(plan, layout, weights);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (IsAdapter(plan.parameters[i].role)) continue;
    Initialise(plan, plan.parameters[i], weights + layout.weight_offset[i]);
  }
  return absl::OkStatus();
}

absl::Status LoadAdapter(const plan::Plan& plan, const ParameterLayout& layout, float* weights) {
  if (plan.lora.rank == 0) return absl::OkStatus();
  if (!plan.lora.init_from.empty()) return LoadAdapterFile(plan, layout, weights);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (!IsAdapter(plan.parameters[i].role)) continue;
    Initialise(plan, plan.parameters[i], weights + layout.weight_offset[i]);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::engine
