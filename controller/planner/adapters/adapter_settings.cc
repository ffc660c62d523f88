#include "controller/planner/adapters/adapter_settings.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/parser/override.h"
#include "common/config/parser/pinned_sources.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "common/model/saved_modules.h"
#include "common/status_macros.h"
#include "controller/planner/adapters/adapted_stacks.h"
#include "controller/planner/adapters/peft_config.h"
#include "controller/planner/adapters/target_modules.h"

namespace coxswain::planner {
namespace {

using Json = nlohmann::ordered_json;

// A key of spec.lora, what adapter_config.json calls it and what it says.
struct Setting {
  const char* key;
  const char* peft;
  Json value;
};

constexpr std::string_view kModules = "target_modules";

// JSON integers stay integers: 16, not 16.0.
Json Number(double value) {
  const auto whole = static_cast<int64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

std::vector<Setting> SettingsOf(const PeftConfig& adapter) {
  return {{"r", "r", adapter.r},
          {"gate_up_r", "rank_pattern",
           adapter.gate_up_r.has_value() ? Json(*adapter.gate_up_r) : Json()},
          {"alpha", "lora_alpha", Number(adapter.alpha)},
          {"use_rslora", "use_rslora", adapter.use_rslora},
          {"use_dora", "use_dora", adapter.use_dora},
          {kModules.data(), "target_modules", adapter.target_modules},
          {"target_parameters", "target_parameters", adapter.target_parameters},
          {"modules_to_save", "modules_to_save", adapter.modules_to_save}};
}

PeftConfig SettingsOf(const config::LoraSpec& job) {
  return {.r = job.r,
          .gate_up_r = job.gate_up_r == job.r ? std::nullopt : job.gate_up_r,
          .alpha = job.alpha,
          .use_rslora = job.use_rslora,
          .use_dora = job.use_dora,
          .target_modules = job.target_modules,
          .target_parameters = job.target_parameters,
          .modules_to_save = job.modules_to_save,
          .path = {}};
}

// The tensors that modules_to_save trains in full.
absl::StatusOr<std::vector<bool>> Saved(const std::vector<std::string>& names,
                                        const model::ModelConfig& model) {
  return model::SavedModules(model::BaseParameterTable(model), model, names);
}

// Whether both lists mean the same modules of the model but routers. What the job's own list means
// nothing by is refused with the plan.
absl::StatusOr<bool> SameModules(const PeftConfig& adapter, const config::LoraSpec& job,
                                 const model::ModelConfig& model) {
  std::vector<NamedModule> modules = ModulesOf(model);
  std::erase_if(modules, [](const NamedModule& module) { return module.router; });
  ASSIGN_OR_RETURN(const std::set<std::string> of_adapter,
                   MeantModules(adapter.target_modules, modules));
  ASSIGN_OR_RETURN(const std::set<std::string> of_job, MeantModules(job.target_modules, modules));
  return of_adapter == of_job;
}

// The routers that either list of `targets` means.
template <typename Targets>
absl::StatusOr<std::set<std::string>> RoutersAmong(const Targets& targets,
                                                   const model::ModelConfig& model) {
  std::vector<NamedModule> modules = ModulesOf(model);
  std::erase_if(modules, [](const NamedModule& module) { return !module.router; });
  ASSIGN_OR_RETURN(std::set<std::string> routers, MeantModules(targets.target_modules, modules));
  routers.merge(MeantRouters(targets.target_parameters, modules));
  return routers;
}

// Likewise of stacks of experts and routers.
absl::StatusOr<bool> SameParameters(const PeftConfig& adapter, const config::LoraSpec& job,
                                    const model::ModelConfig& model) {
  ASSIGN_OR_RETURN(const std::vector<std::string> of_adapter,
                   MeantStacks(adapter.target_parameters, model));
  ASSIGN_OR_RETURN(const std::vector<std::string> of_job,
                   MeantStacks(job.target_parameters, model));
  ASSIGN_OR_RETURN(const std::set<std::string> routers, RoutersAmong(adapter, model));
  ASSIGN_OR_RETURN(const std::set<std::string> routers_of_job, RoutersAmong(job, model));
  return of_adapter == of_job && routers == routers_of_job;
}

absl::StatusOr<bool> IsSame(const Setting& theirs, const Setting& ours, const PeftConfig& adapter,
                            const config::LoraSpec& job, const model::ModelConfig& model) {
  const std::string key = ours.key;
  if (key == kModules) return SameModules(adapter, job, model);
  if (key == "target_parameters") return SameParameters(adapter, job, model);
  if (key != "modules_to_save") return theirs.value == ours.value;
  ASSIGN_OR_RETURN(std::vector<bool> of_adapter, Saved(adapter.modules_to_save, model));
  ASSIGN_OR_RETURN(const std::vector<bool> of_job, Saved(job.modules_to_save, model));
  // A head of scores begins anew where the adapter is of a model of tokens.
  const std::vector<model::Parameter> table = model::BaseParameterTable(model);
  for (size_t i = 0; i < table.size() && model.labels > 0; ++i) {
    if (model::IsHead(table[i])) of_adapter[i] = of_job[i];
  }
  return of_adapter == of_job;
}

bool StartsFromAdapter(const config::JobSpec& job) {
  return job.adapter != config::Adapter::kNone && job.lora.init_from.has_value();
}

}  // namespace

absl::StatusOr<config::ParsedJob> TakeOverAdapter(config::ParsedJob parsed, const std::string& yaml,
                                                  const std::string& base_dir,
                                                  const config::ChosenResources& chosen) {
  if (!parsed.errors.empty() || !StartsFromAdapter(parsed.spec)) return parsed;
  const absl::StatusOr<model::ModelConfig> model = model::ReadModelConfig(parsed.spec.model_path);
  if (!model.ok()) return parsed;
  ASSIGN_OR_RETURN(const std::optional<PeftConfig> adapter,
                   ReadPeftConfig(*parsed.spec.lora.init_from, *model));
  if (!adapter.has_value()) return parsed;
  std::vector<std::string> taken;
  for (const Setting& setting : SettingsOf(*adapter)) {
    const std::string key = absl::StrCat("spec.lora.", setting.key);
    // An adapter of experts alone has no modules, which is not what a job has without a list.
    const bool none = setting.value.empty();
    if (parsed.lines.count(key) > 0 || (none && setting.key != kModules)) continue;
    taken.push_back(absl::StrCat(key, "=", setting.value.dump()));
  }
  ASSIGN_OR_RETURN(const std::string whole, config::OverrideJob(yaml, taken));
  config::ParsedJob job = config::ParseJob(whole, base_dir, chosen);
  if (job.errors.empty()) {
    config::CopySources(parsed.spec, &job);
    return job;
  }
  return absl::InvalidArgumentError(absl::StrCat("with what ", adapter->path, " says of it: ",
                                                 job.errors[0].path, ": ", job.errors[0].message));
}

absl::Status CheckAdapterSettings(const config::JobSpec& job, const model::ModelConfig& model) {
  if (!StartsFromAdapter(job)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<PeftConfig> adapter,
                   ReadPeftConfig(*job.lora.init_from, model));
  if (!adapter.has_value()) return absl::OkStatus();
  const std::vector<Setting> theirs = SettingsOf(*adapter), ours = SettingsOf(SettingsOf(job.lora));
  for (size_t i = 0; i < theirs.size(); ++i) {
    ASSIGN_OR_RETURN(const bool same, IsSame(theirs[i], ours[i], *adapter, job.lora, model));
    if (same) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        adapter->path, " has ", theirs[i].peft, " ", theirs[i].value.dump(), " and the job lora.",
        ours[i].key, " ", ours[i].value.dump(), ": the adapter would compute something else; set ",
        "lora.", ours[i].key, ": ", theirs[i].value.dump(), ", or leave it out to take that over"));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::planner
