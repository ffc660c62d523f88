// Source: peft 0.21 tuners/lora/config.py, tuners/tuners_utils.py (check_target_module_exists) and
// utils/other.py (get_pattern_key).
#include "controller/planner/adapters/peft_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files/read_file.h"
#include "common/model/family.h"
#include "common/name_pattern.h"
#include "common/status_macros.h"
#include "controller/planner/adapters/adapted_stacks.h"
#include "controller/planner/adapters/target_modules.h"

namespace coxswain::planner {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAllLinear[] = "all-linear";
constexpr size_t kMostPatterns = 10'000;  // more than models have modules

// What changes the numbers of a forward where it is there and not false, null or empty.
constexpr const char* kNotComputed[] = {
    "lora_bias",   "layer_replication", "trainable_token_indices", "use_qalora", "use_bdlora",
    "kasa_config", "arrow_config",      "alora_invocation_tokens"};
// Of init_lora_weights; the others change the weights of the base.
constexpr const char* kHarmlessInits[] = {"gaussian", "eva", "orthogonal"};

bool Has(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null() || *found == false) return false;
  return !(found->is_array() || found->is_object()) || !found->empty();
}

absl::Status Refusal(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::Status CheckComputed(const std::string& path, const Json& config) {
  if (Has(config, "peft_type") && config["peft_type"] != "LORA") {
    return Refusal(path, absl::StrCat("peft_type is ", config["peft_type"].dump(),
                                      "; only \"LORA\" is supported"));
  }
  for (const char* key : kNotComputed) {
    if (!Has(config, key)) continue;
    return Refusal(path, absl::StrCat(key, " ", config[key].dump(), " is not supported"));
  }
  if (Has(config, "bias") && config["bias"] != "none") {
    return Refusal(path,
                   absl::StrCat("bias ", config["bias"].dump(), " is not supported; \"none\" is"));
  }
  const Json init = config.value("init_lora_weights", Json(true));
  if (init.is_string() && std::find(std::begin(kHarmlessInits), std::end(kHarmlessInits),
                                    init.get<std::string>()) == std::end(kHarmlessInits)) {
    return Refusal(path, absl::StrCat("init_lora_weights ", init.dump(),
                                      " changes the weights of the base; save the adapter as a "
                                      "plain one (save_pretrained with "
                                      "path_initial_model_for_weight_conversion)"));
  }
  return absl::OkStatus();
}

// A text or a list of texts.
absl::StatusOr<std::vector<std::string>> Texts(const std::string& path, const Json& config,
                                               const char* key) {
  std::vector<std::string> texts;
  if (!Has(config, key)) return texts;
  const Json& value = config[key];
  for (const Json& one : value.is_array() ? value : Json::array({value})) {
    if (!one.is_string()) {
      return Refusal(path, absl::StrCat(key, " is ", value.dump(), ", not a text or texts"));
    }
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

// "layers" of "model.layers."
std::string LayersWord(const model::ModelConfig& model) {
  std::string prefix = model::OutsideOf(model).layers;
  while (!prefix.empty() && prefix.back() == '.') prefix.pop_back();
  return prefix.substr(prefix.rfind('.') + 1);
}

// Leaves out the modules of `names` that layers_to_transform does not choose.
absl::Status KeepLayers(const std::string& path, const Json& config,
                        const model::ModelConfig& model, const std::vector<NamedModule>& modules,
                        std::set<std::string>* names) {
  if (!config.contains("layers_to_transform") || config["layers_to_transform"].is_null()) {
    return absl::OkStatus();
  }
  const Json& value = config["layers_to_transform"];
  if (value.is_array() && value.empty()) return absl::OkStatus();
  std::set<int64_t> layers;
  for (const Json& one : value.is_array() ? value : Json::array({value})) {
    if (!one.is_number_integer()) {
      return Refusal(path, absl::StrCat("layers_to_transform is ", value.dump()));
    }
    layers.insert(one.get<int64_t>());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> words, Texts(path, config, "layers_pattern"));
  const std::string word = LayersWord(model);
  if (!words.empty() && std::find(words.begin(), words.end(), word) == words.end()) {
    return Refusal(path, absl::StrCat("layers_pattern is ", config["layers_pattern"].dump(),
                                      ", the model's layers are called \"", word, "\""));
  }
  for (const NamedModule& module : modules) {
    if (layers.count(module.layer) == 0) names->erase(module.name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> TargetsOfFile(const std::string& path, const Json& config,
                                                       const model::ModelConfig& model,
                                                       bool has_others) {
  ASSIGN_OR_RETURN(std::vector<std::string> targets, Texts(path, config, "target_modules"));
  ASSIGN_OR_RETURN(const std::vector<std::string> excluded, Texts(path, config, "exclude_modules"));
  if (targets.empty()) return targets;
  if (config["target_modules"].is_string() && absl::AsciiStrToLower(targets[0]) == kAllLinear) {
    targets[0] = kAllLinear;
  }
  const std::vector<NamedModule> modules = ModulesOf(model);
  ASSIGN_OR_RETURN(std::set<std::string> meant, MeantModules(targets, modules));
  const size_t all = meant.size();
  RETURN_IF_ERROR(KeepLayers(path, config, model, modules, &meant));
  ASSIGN_OR_RETURN(const std::set<std::string> left_out, MeantModules(excluded, modules));
  for (const std::string& name : left_out) meant.erase(name);
  if (meant.empty() && !has_others) {
    return Refusal(path, absl::StrCat("target_modules ", config["target_modules"].dump(),
                                      " is no module of the model, whose modules are called such "
                                      "as ",
                                      ExampleOf(modules)));
  }
  if (meant.size() < all) return std::vector<std::string>(meant.begin(), meant.end());
  std::vector<std::string> known;
  for (const std::string& target : targets) {
    ASSIGN_OR_RETURN(const std::set<std::string> of_one, MeantModules({target}, modules));
    if (!of_one.empty()) known.push_back(target);
  }
  return known;
}

// Whether `name` is the weight of linears alone.
absl::StatusOr<bool> IsWeightOfLinears(const std::string& name,
                                       const std::vector<NamedModule>& modules) {
  const std::string module(absl::StripSuffix(name, ".weight"));
  if (module == name) return false;
  ASSIGN_OR_RETURN(const std::set<std::string> meant, MeantModules({module}, modules));
  return !meant.empty() && std::all_of(modules.begin(), modules.end(), [&](const auto& one) {
    return one.adaptable || meant.count(one.name) == 0;
  });
}

// The stacks and routers that target_parameters names, and the modules whose weights it names; of
// an adapter with the linears of single experts the stacks of its file too. Source: peft 0.21
// tuners_utils.py _inject_parameters.
absl::Status ReadParameters(const std::string& directory, const Json& config,
                            const model::ModelConfig& model, PeftConfig* read) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   Texts(read->path, config, "target_parameters"));
  const std::vector<NamedModule> modules = ModulesOf(model);
  std::vector<std::string> stacks, routers;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const bool linears, IsWeightOfLinears(name, modules));
    if (linears) {
      read->target_modules.emplace_back(absl::StripSuffix(name, ".weight"));
    } else if (!MeantRouters({name}, modules).empty()) {
      routers.push_back(name);
    } else {
      stacks.push_back(name);
    }
  }
  absl::StatusOr<std::vector<std::string>> meant = MeantStacks(stacks, model);
  if (!meant.ok()) return Refusal(read->path, std::string(meant.status().message()));
  read->target_parameters = meant->empty() ? StacksByExpert(directory, model) : *std::move(meant);
  read->target_parameters.insert(read->target_parameters.end(), routers.begin(), routers.end());
  const bool none = read->target_parameters.empty() && read->target_modules.empty();
  if (names.empty() || !none) return absl::OkStatus();
  return Refusal(read->path, absl::StrCat("target_parameters ", config["target_parameters"].dump(),
                                          " is no stack of experts, no router and no weight of a ",
                                          "linear of the model"));
}

absl::StatusOr<std::vector<std::pair<NamePattern, const Json*>>> PatternsIn(const std::string& path,
                                                                            const char* key,
                                                                            const Json& map) {
  if (!map.is_object() || map.size() > kMostPatterns) {
    return Refusal(path, absl::StrCat(key, " is no map of at most ", kMostPatterns, " patterns"));
  }
  std::vector<std::pair<NamePattern, const Json*>> patterns;
  for (const auto& [text, value] : map.items()) {
    absl::StatusOr<NamePattern> pattern = NamePattern::Compile("(.*\\.)?(" + text + ")");
    if (!pattern.ok()) {
      return Refusal(
          path, absl::StrCat(key, ": \"", text, "\" ", std::string(pattern.status().message())));
    }
    patterns.emplace_back(*std::move(pattern), &value);
  }
  return patterns;
}

// What rank_pattern and alpha_pattern give a module or parameter: the first that matches counts.
class Patterns {
 public:
  static absl::StatusOr<Patterns> Read(const std::string& path, const Json& config,
                                       const char* key) {
    Patterns read;
    if (!Has(config, key)) return read;
    ASSIGN_OR_RETURN(read.patterns_, PatternsIn(path, key, config[key]));
    return read;
  }

  Json ValueOf(const std::string& name, const Json& usual) const {
    const auto found = std::find_if(patterns_.begin(), patterns_.end(),
                                    [&](const auto& one) { return one.first.Matches(name); });
    return found == patterns_.end() ? usual : *found->second;
  }

 private:
  std::vector<std::pair<NamePattern, const Json*>> patterns_;
};

bool IsNumber(const Json& value, double wanted) {
  return value.is_number() && std::abs(value.get<double>() - wanted) <= 1e-9 * std::abs(wanted);
}

// One rank for all stacks of gate and up.
absl::Status ReadGateUpRank(const Patterns& ranks, const std::set<std::string>& stacks,
                            PeftConfig* read) {
  for (const std::string& stack : stacks) {
    const Json value = ranks.ValueOf(stack, read->r);
    const int64_t before =
        read->gate_up_r.value_or(value.is_number_integer() ? value.get<int64_t>() : 0);
    if (before < 1 || !IsNumber(value, static_cast<double>(before))) {
      return Refusal(read->path, absl::StrCat("rank_pattern gives ", stack, " ", value.dump(),
                                              "; one whole number for all stacks of gate and up is "
                                              "supported"));
    }
    read->gate_up_r = before;
  }
  if (read->gate_up_r == read->r) read->gate_up_r.reset();
  return absl::OkStatus();
}

// One rank for all but stacks of gate and up, and one scale for all.
absl::Status CheckPatterns(const Json& config, const std::set<std::string>& adapted,
                           const std::set<std::string>& gate_up, PeftConfig* read) {
  ASSIGN_OR_RETURN(const Patterns ranks, Patterns::Read(read->path, config, "rank_pattern"));
  ASSIGN_OR_RETURN(const Patterns alphas, Patterns::Read(read->path, config, "alpha_pattern"));
  RETURN_IF_ERROR(ReadGateUpRank(ranks, gate_up, read));
  const double factor = static_cast<double>(read->gate_up_r.value_or(read->r)) /
                        static_cast<double>(std::max<int64_t>(1, read->r));
  const double of_gate_up = read->alpha * (read->use_rslora ? std::sqrt(factor) : factor);
  for (const std::string& name : adapted) {
    const bool stack = gate_up.count(name) > 0;
    const Json rank = ranks.ValueOf(name, config["r"]);
    const Json alpha = alphas.ValueOf(name, config["lora_alpha"]);
    if (!stack && !IsNumber(rank, static_cast<double>(read->r))) {
      return Refusal(read->path,
                     absl::StrCat("rank_pattern gives ", name, " ", rank.dump(), ", and ", read->r,
                                  " is that of the others; one for all is supported"));
    }
    const double wanted = stack ? of_gate_up : read->alpha;
    if (IsNumber(alpha, wanted)) continue;
    return Refusal(read->path,
                   absl::StrCat("alpha_pattern gives ", name, " ", alpha.dump(), ", and ", wanted,
                                " gives it the scale of the others; one for all is supported"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<PeftConfig>> ReadPeftConfig(const std::string& directory,
                                                         const model::ModelConfig& model) {
  PeftConfig read{.path = absl::StrCat(directory, "/adapter_config.json")};
  const absl::StatusOr<std::string> text = ReadFile(read.path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return std::optional<PeftConfig>();
  RETURN_IF_ERROR(text.status());
  const Json config = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return Refusal(read.path, "is not a JSON object");
  RETURN_IF_ERROR(CheckComputed(read.path, config));
  const auto number = [&config](const char* key) { return config.value(key, Json()).is_number(); };
  const bool targets = Has(config, "target_modules") || Has(config, "target_parameters");
  if (!number("r") || !number("lora_alpha") || !targets) {
    return Refusal(read.path, "lacks r, lora_alpha or target_modules: it is no LoRA adapter");
  }
  if (!config["r"].is_number_integer() || std::abs(config["lora_alpha"].get<double>()) > 1e9) {
    return Refusal(read.path, absl::StrCat("has r ", config["r"].dump(), " and lora_alpha ",
                                           config["lora_alpha"].dump(),
                                           "; a whole number and one of at most 1e9 are expected"));
  }
  read.r = config["r"].get<int64_t>();
  read.alpha = config["lora_alpha"].get<double>();
  read.use_rslora = Has(config, "use_rslora");
  read.use_dora = Has(config, "use_dora");
  RETURN_IF_ERROR(ReadParameters(directory, config, model, &read));
  const bool others = !read.target_parameters.empty() || !read.target_modules.empty();
  ASSIGN_OR_RETURN(std::vector<std::string> named, TargetsOfFile(read.path, config, model, others));
  read.target_modules.insert(read.target_modules.begin(), named.begin(), named.end());
  ASSIGN_OR_RETURN(std::set<std::string> adapted,
                   MeantModules(read.target_modules, ModulesOf(model)));
  adapted.merge(NamesOfStacks(read.target_parameters, model));
  for (const std::string& router : MeantRouters(read.target_parameters, ModulesOf(model))) {
    adapted.insert(absl::StrCat(router, ".weight"));
  }
  const std::set<std::string> gate_up = NamesOfGateUpStacks(read.target_parameters, model);
  RETURN_IF_ERROR(CheckPatterns(config, adapted, gate_up, &read));
  ASSIGN_OR_RETURN(read.modules_to_save, Texts(read.path, config, "modules_to_save"));
  return std::optional<PeftConfig>(std::move(read));
}

}  // namespace coxswain::planner
