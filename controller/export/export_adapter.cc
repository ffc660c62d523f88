#include "controller/export/export_adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/files/durable_file.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/family.h"
#include "common/model/files/file_rows.h"
#include "common/model/parameter_table.h"
#include "common/model/saved_modules.h"
#include "common/status_macros.h"
#include "controller/export/base_model_name.h"
#include "controller/export/expert_linears.h"

namespace coxswain::exports {
namespace {

// PEFT keeps magnitudes as vectors.
std::vector<int64_t> Shape(const model::Parameter& parameter) {
  const bool matrix = model::IsLoraA(parameter) || model::IsLoraB(parameter);
  if (parameter.cols == 1 && !matrix) return {parameter.rows};
  if (model::IsTransposedInFiles(parameter)) return {parameter.cols, parameter.rows};
  if (model::IsRankMajorInFiles(parameter)) {
    return {parameter.rows / parameter.batch, parameter.cols * parameter.batch};
  }
  return {parameter.rows, parameter.cols};
}

// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" -> "q_proj".
std::string TargetModule(const std::string& name) {
  const size_t end = name.rfind(".lora_");
  const size_t begin = name.rfind('.', end - 1) + 1;
  return name.substr(begin, end - begin);
}

// An expression that whole names of modules match: those of blocks with these last parts, and
// `outer`.
std::string ModulePattern(const plan::Plan& plan, const std::set<std::string>& of_blocks,
                          const std::set<std::string>& outer) {
  std::vector<std::string> patterns;
  if (!of_blocks.empty()) {
    patterns.push_back(
        absl::StrCat(plan.architecture.outside.layers, ".*.(", absl::StrJoin(of_blocks, "|"), ")"));
  }
  patterns.insert(patterns.end(), outer.begin(), outer.end());
  return absl::StrReplaceAll(absl::StrJoin(patterns, "|"), {{".*.", ".*\\."}, {".", "\\."}});
}

// Whether `last_parts` name a module of the text model that is not one of `adapted`.
bool NamesMore(const plan::Plan& plan, const std::set<std::string>& last_parts,
               const std::set<std::string>& adapted) {
  return std::any_of(plan.parameters.begin(), plan.parameters.end(), [&](const auto& parameter) {
    const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
    return model::IsAdaptable(parameter) && adapted.count(module) == 0 &&
           last_parts.count(module.substr(module.rfind('.') + 1)) > 0;
  });
}

// `modules` that are whole names and `experts` of LinearsByExpert as one expression.
std::string PatternOf(std::set<std::string> modules, const std::set<std::string>& experts) {
  modules.insert(experts.begin(), experts.end());
  return absl::StrReplaceAll(absl::StrJoin(modules, "|"), {{"*", "\\d+"}, {".", "\\."}});
}

// Whether adapter_config.json has this one among target_parameters. peft takes a target module
// whose last part is one of these for the experts of older transformers, and replaces it by their
// stacks, whatever module is called so in the model. As parameters they are what they say. Neither
// peft under DoRA nor an adapter by expert has parameters but routers, which are no linear for any
// peft. Source: peft 0.21.2 utils/transformers_weight_conversion.py, _convert_peft_config_moe.
bool IsNamedAsParameter(const plan::Plan& plan, const model::Parameter& parameter, bool by_expert) {
  if (parameter.kind == model::Kind::kExperts || parameter.kind == model::Kind::kRouter)
    return true;
  const bool knows_parameters = !by_expert && !plan.lora.dora;
  if (!knows_parameters || plan.model.mixture.experts == 0 || parameter.layer < 0) return false;
  const std::string module = TargetModule(parameter.name);
  return module == "gate_proj" || module == "up_proj" || module == "down_proj";
}

// The last parts of names, or whole names where these would name more; where modules beside the
// text model have the same last parts, a pattern. `experts` are linears of single experts.
// Source: peft check_target_module_exists.
nlohmann::json TargetModules(const plan::Plan& plan, bool by_expert,
                             const std::set<std::string>& experts) {
  std::set<std::string> all, of_blocks, outer, whole;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!model::IsAdapter(parameter) || IsNamedAsParameter(plan, parameter, by_expert)) continue;
    const std::string& name = parameter.name;
    const size_t begin = std::strlen("base_model.model.");
    const std::string module = name.substr(begin, name.rfind(".lora_") - begin);
    whole.insert(module);
    all.insert(TargetModule(name));
    if (parameter.layer >= 0) {
      of_blocks.insert(TargetModule(name));
    } else {
      outer.insert(module);
    }
  }
  for (const std::string& name : experts) all.insert(name.substr(name.rfind('.') + 1));
  const bool more = NamesMore(plan, all, whole);
  const bool beside = !model::TextPartOf(plan.model).beside.empty();
  if (!experts.empty() && (more || beside)) return PatternOf(whole, experts);
  if (more) return whole;
  return beside ? nlohmann::json(ModulePattern(plan, of_blocks, outer)) : nlohmann::json(all);
}

// "mlp.experts.down_proj", of a parameter of a block or of its adapter, as peft has it.
std::string NameInBlock(const plan::Plan& plan, const model::Parameter& parameter) {
  const model::Block& block = plan.architecture.blocks[static_cast<size_t>(parameter.layer)];
  const model::TensorSpec& tensor = block.tensors[static_cast<size_t>(parameter.tensor)];
  if (parameter.kind != model::Kind::kRouter) return tensor.name;
  return absl::StrCat(model::RouterModule(block, tensor), ".weight");
}

// Stacks of experts, routers and some linears by the ends of their names, or by whole names where
// the ends would name more; of a module's, the inner wrapper first. Null without.
nlohmann::json TargetParameters(const plan::Plan& plan, bool by_expert) {
  std::vector<std::string> ends, whole;
  std::map<std::string, int64_t> more;  // of the same end, how many are not adapted
  for (const model::Parameter& parameter : plan.parameters) {
    if (parameter.layer < 0) continue;
    const std::string name = NameInBlock(plan, parameter);
    if (!model::IsAdapter(parameter)) ++more[name];
    const bool single = by_expert && parameter.kind == model::Kind::kExperts;
    if (!model::IsLoraA(parameter) || single || !IsNamedAsParameter(plan, parameter, by_expert)) {
      continue;
    }
    --more[name];
    whole.push_back(absl::StrCat(plan.architecture.outside.layers, parameter.layer, ".", name));
    if (std::find(ends.begin(), ends.end(), name) == ends.end()) ends.push_back(name);
  }
  if (ends.empty()) return nullptr;
  const bool all = std::all_of(ends.begin(), ends.end(),
                               [&more](const std::string& name) { return more[name] == 0; });
  return all ? ends : whole;
}

absl::Status CopyInFileOrder(const PiecedTensor& master, const model::Parameter& parameter,
                             const model::Architecture& model, uint8_t* out) {
  std::vector<float> values(static_cast<size_t>(parameter.elements()));
  RETURN_IF_ERROR(CopyAsFloat(master, values.data()));
  model::ToFileOrder(model::FileRows(model, parameter), parameter.cols, &values);
  if (model::IsTransposedInFiles(parameter)) {
    model::Transpose(parameter.rows, parameter.cols, &values);
  }
  if (model::IsRankMajorInFiles(parameter)) model::ToRankMajor(model, parameter, &values);
  std::memcpy(out, values.data(), values.size() * sizeof(float));
  return absl::OkStatus();
}

// JSON integers stay integers: PEFT's own files hold "lora_alpha": 16, not 16.0.
nlohmann::json Number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

// Of the adapters of gate and up; that of all without.
int64_t GateUpRank(const plan::Plan& plan) {
  for (const model::Parameter& parameter : plan.parameters) {
    if (parameter.kind != model::Kind::kExperts || !model::IsLoraB(parameter)) continue;
    const model::Block& block = plan.architecture.blocks[static_cast<size_t>(parameter.layer)];
    if (model::FeedsGate(block, parameter.tensor)) return parameter.cols;
  }
  return plan.lora.rank;
}

// As peft writes it.
nlohmann::json GateUpPattern(const nlohmann::json& value) {
  return {{R"(.*\.gate_up_proj)", value}};
}

nlohmann::json SavedModulesJson(const config::JobSpec& job, const plan::Plan& plan) {
  if (job.lora.modules_to_save.empty()) return nullptr;
  return model::ListedModules(plan.model, job.lora.modules_to_save);
}

// The commit of a base of the Hub; null of another, or where the job names the base otherwise.
nlohmann::json RevisionOf(const config::JobSpec& job) {
  if (job.model_hub.id.empty() || !job.model_name.empty()) return nullptr;
  return job.model_hub.revision;
}

}  // namespace

std::string AdapterConfigJson(const config::JobSpec& job, const plan::Plan& plan) {
  const bool by_expert = job.export_by_expert;
  const std::set<std::string> experts = by_expert ? LinearsByExpert(plan) : std::set<std::string>();
  const nlohmann::json parameters = TargetParameters(plan, by_expert);
  const int64_t gate_up_r = GateUpRank(plan);
  const bool other = gate_up_r != plan.lora.rank;
  const double factor = static_cast<double>(gate_up_r) / static_cast<double>(plan.lora.rank);
  // peft: the scale of a module is its alpha over its rank, or over the root of that.
  const double alpha = job.lora.alpha * (job.lora.use_rslora ? std::sqrt(factor) : factor);
  const nlohmann::json config = {
      {"alpha_pattern", other ? GateUpPattern(Number(alpha)) : nlohmann::json::object()},
      {"auto_mapping", nullptr},
      {"base_model_name_or_path", AdapterBase(job, plan)},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_pattern", nullptr},
      {"layers_to_transform", nullptr},
      {"lora_alpha", Number(job.lora.alpha)},
      {"lora_dropout", parameters.is_null() ? job.lora.dropout : 0},  // peft: none on parameters
      {"modules_to_save", SavedModulesJson(job, plan)},
      {"peft_type", "LORA"},
      {"r", plan.lora.rank},
      {"rank_pattern", other ? GateUpPattern(gate_up_r) : nlohmann::json::object()},
      {"revision", RevisionOf(job)},
      {"target_modules", TargetModules(plan, by_expert, experts)},
      {"target_parameters", parameters},
      {"task_type", plan.model.labels > 0 ? "SEQ_CLS" : "CAUSAL_LM"},
      {"use_dora", plan.lora.dora},
      {"use_rslora", job.lora.use_rslora},
  };
  return config.dump(2);
}

absl::Status WriteAdapter(const config::JobSpec& job, const plan::Plan& plan,
                          const CheckpointTensors& checkpoint, const std::string& directory) {
  std::vector<TensorSource> sources;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!parameter.trainable()) continue;
    const PiecedTensor* master = checkpoint.Find(parameter.name);
    if (master == nullptr) {
      return absl::NotFoundError(absl::StrCat("checkpoint ", checkpoint.directory(),
                                              " lacks adapter tensor ", parameter.name));
    }
    if (job.export_by_expert && parameter.kind == model::Kind::kExperts &&
        model::IsAdapter(parameter)) {
      AppendByExpert(plan, parameter, *master, &sources);
      continue;
    }
    for (const std::string& key : model::AdapterFileKeys(plan.model, parameter)) {
      sources.push_back(
          {key, ElementType::kF32, Shape(parameter), [master, &parameter, &plan](uint8_t* out) {
             return CopyInFileOrder(*master, parameter, plan.architecture, out);
           }});
    }
  }
  RETURN_IF_ERROR(
      WriteSafetensors(absl::StrCat(directory, "/adapter_model.safetensors"), sources).status());
  RETURN_IF_ERROR(checkpoint.Intact());
  return WriteFileDurably(absl::StrCat(directory, "/adapter_config.json"),
                          AdapterConfigJson(job, plan));
}

}  // namespace coxswain::exports
