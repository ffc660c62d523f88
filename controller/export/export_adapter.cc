#include "controller/export/export_adapter.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/files/durable_file.h"
#include "common/files/safetensors.h"
#include "common/files/safetensors_writer.h"
#include "common/model/family.h"
#include "common/model/file_rows.h"
#include "common/status_macros.h"
#include "controller/export/base_model_name.h"

namespace coxswain::exports {
namespace {

bool IsAdapterTensor(const model::Parameter& parameter) {
  const uint32_t role = static_cast<uint32_t>(parameter.role);
  return role >= static_cast<uint32_t>(model::Role::kLoraA);
}

// PEFT keeps magnitudes as vectors.
std::vector<int64_t> Shape(const model::Parameter& parameter) {
  const bool vector =
      static_cast<uint32_t>(parameter.role) >= static_cast<uint32_t>(model::Role::kLoraMagnitude);
  if (vector) return {parameter.rows};
  return {parameter.rows, parameter.cols};
}

// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" -> "q_proj".
std::string TargetModule(const std::string& name) {
  const size_t end = name.rfind(".lora_");
  const size_t begin = name.rfind('.', end - 1) + 1;
  return name.substr(begin, end - begin);
}

// The last parts of names; where modules beside the text model have the same ones, an expression
// that whole names must match. Source: peft check_target_module_exists.
nlohmann::json TargetModules(const plan::Plan& plan) {
  std::set<std::string> modules;
  for (const model::Parameter& parameter : plan.parameters) {
    if (IsAdapterTensor(parameter)) modules.insert(TargetModule(parameter.name));
  }
  if (model::TextPartOf(plan.model).beside.empty()) return modules;
  const std::string layers =
      absl::StrReplaceAll(model::OutsideOf(plan.model).layers, {{".", "\\."}});
  return absl::StrCat(layers, ".*\\.(", absl::StrJoin(modules, "|"), ")");
}

absl::Status CopyInFileOrder(const PiecedTensor& master, const model::Parameter& parameter,
                             const model::ModelConfig& model, uint8_t* out) {
  std::vector<float> values(static_cast<size_t>(parameter.elements()));
  RETURN_IF_ERROR(CopyAsFloat(master, values.data()));
  model::ToFileOrder(model::FileRows(model, parameter), parameter.cols, &values);
  std::memcpy(out, values.data(), values.size() * sizeof(float));
  return absl::OkStatus();
}

// JSON integers stay integers: PEFT's own files hold "lora_alpha": 16, not 16.0.
nlohmann::json Number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

std::string AdapterConfigJson(const config::JobSpec& job, const plan::Plan& plan) {
  const nlohmann::json config = {
      {"alpha_pattern", nlohmann::json::object()},
      {"auto_mapping", nullptr},
      {"base_model_name_or_path", BaseModelName(job, plan)},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_pattern", nullptr},
      {"layers_to_transform", nullptr},
      {"lora_alpha", Number(job.lora.alpha)},
      {"lora_dropout", job.lora.dropout},
      {"modules_to_save", nullptr},
      {"peft_type", "LORA"},
      {"r", plan.lora.rank},
      {"rank_pattern", nlohmann::json::object()},
      {"revision", nullptr},
      {"target_modules", TargetModules(plan)},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", plan.lora.dora},
      {"use_rslora", job.lora.use_rslora},
  };
  return config.dump(2);
}

absl::Status WriteAdapter(const config::JobSpec& job, const plan::Plan& plan,
                          const CheckpointTensors& checkpoint, const std::string& directory) {
  std::vector<TensorSource> sources;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!IsAdapterTensor(parameter)) continue;
    const PiecedTensor* master = checkpoint.Find(parameter.name);
    if (master == nullptr) {
      return absl::NotFoundError(absl::StrCat("checkpoint ", checkpoint.directory(),
                                              " lacks adapter tensor ", parameter.name));
    }
    sources.push_back(
        {parameter.name, DType::kF32, Shape(parameter), [master, &parameter, &plan](uint8_t* out) {
           return CopyInFileOrder(*master, parameter, plan.model, out);
         }});
  }
  RETURN_IF_ERROR(
      WriteSafetensors(absl::StrCat(directory, "/adapter_model.safetensors"), sources).status());
  return WriteFileDurably(absl::StrCat(directory, "/adapter_config.json"),
                          AdapterConfigJson(job, plan));
}

}  // namespace coxswain::exports
