#include "common/config/schema/recipe_keys.h"

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::initializer_list<const char*> kDeciding = {
    "method",
    "adapter",
    "sequence_len",
    "base_model.init",
    "base_model.seed",
    "lora.r",
    "lora.alpha",
    "lora.dropout",
    "lora.target_modules",
    "lora.modules_to_save",
    "lora.loraplus_lr_ratio",
    "lora.use_rslora",
    "lora.use_dora",
    "train.learning_rate",
    "train.lr_scheduler",
    "train.min_lr_ratio",
    "train.optimizer",
    "train.betas",
    "train.eps",
    "train.weight_decay",
    "train.decay_norm_and_bias",
    "train.max_grad_norm",
    "train.label_smoothing",
    "train.z_loss",
    "train.seed",
    "preference.loss",
    "preference.loss_weights",
    "preference.beta",
    "preference.label_smoothing",
    "preference.gamma",
    "preference.nll_weight",
    "preference.reference",
    "preference.desirable_weight",
    "preference.undesirable_weight",
    "reward.center_coefficient",
    "classification.num_labels",
    "classification.label_names",
    "classification.problem",
};

constexpr std::initializer_list<const char*> kPossible = {
    "quantization",
    "base_model.hub",
    "base_model.revision",
    "base_model.added_tokens",
    "lora.loraplus_lr_embedding",
    "lora.target_parameters",
    "lora.gate_up_r",
    "moe.router",
    "moe.aux_loss.coef",
    "moe.aux_loss.over",
    "moe.router_z_loss",
    "moe.balance",
    "moe.balance_rate",
    "val_set_size",
    "data_rules",
    "chat_template",
    "chat_template_kwargs",
    "roles_to_train",
    "train_on",
    "train_on_eos",
    "train_on_inputs",
    "on_bad_record",
    "excess_length",
    "packing",
    "train.num_epochs",
    "train.max_steps",
    "train.warmup_ratio",
    "train.warmup_steps",
    "train.lr_scheduler_kwargs",
    "precision.compute",
    "precision.master_weights",
    "precision.gradients",
    "precision.gradient_sum",
    "precision.fp8.recipe",
    "precision.fp8.gradients",
    "precision.fp8.experts",
    "precision.fp8.attention",
    "precision.fp8.exclude",
};

Json::json_pointer PointerOf(const std::string& key) {
  return Json::json_pointer(absl::StrCat("/", absl::StrReplaceAll(key, {{".", "/"}})));
}

// Whether the job reads the key at all.
bool Reads(const Json& spec, const std::string& key) {
  if (absl::StartsWith(key, "lora.")) return spec.at("adapter") != "none";
  for (const char* section : {"preference.", "reward.", "classification."}) {
    if (absl::StartsWith(key, section)) return !spec.at(PointerOf(key)).is_null();
  }
  if (absl::StartsWith(key, "precision.fp8.")) return spec.at("precision").at("compute") == "fp8";
  if (key == "base_model.seed") return spec.at("base_model").at("init") == "random";
  return true;
}

void AddKeys(const Json& spec, std::initializer_list<const char*> keys, KeyValues* values) {
  for (const std::string key : keys) {
    const Json::json_pointer at = PointerOf(key);
    if (!spec.contains(at) || !Reads(spec, key)) continue;
    // By name, whatever order the job has: a stored job has another than one just parsed.
    const nlohmann::json sorted = spec.at(at);
    (*values)[key] = sorted.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

Json SpecOf(const std::string& effective_json) {
  const Json job = Json::parse(effective_json, nullptr, /*allow_exceptions=*/false);
  return job.is_object() ? job.value("spec", Json::object()) : Json::object();
}

}  // namespace

KeyValues DecidingKeys(const std::string& effective_json) {
  KeyValues values;
  const Json spec = SpecOf(effective_json);
  AddKeys(spec, kDeciding, &values);
  // What such a job leaves out under lora is taken from the adapter's own settings.
  const Json start = spec.value(Json::json_pointer("/lora/init_from"), Json());
  if (!start.is_null()) {
    std::erase_if(values, [](const auto& key) { return absl::StartsWith(key.first, "lora."); });
  }
  const Json batch = spec.value(Json::json_pointer("/train/global_batch_size"), Json());
  if (batch.is_number()) values["train.global_batch_size"] = batch.dump();
  return values;
}

KeyValues RecipeKeys(const std::string& effective_json) {
  KeyValues values = DecidingKeys(effective_json);
  const Json spec = SpecOf(effective_json);
  AddKeys(spec, kDeciding, &values);
  AddKeys(spec, kPossible, &values);
  return values;
}

std::string Differences(const KeyValues& there, const KeyValues& here) {
  std::string text;
  for (const auto& [key, before] : there) {
    const auto now = here.find(key);
    if (now == here.end() || now->second == before) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", key, " is ", before, " there and ",
                    now->second, " here");
  }
  return text;
}

}  // namespace coxswain::config
