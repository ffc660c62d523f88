#include "controller/cli/import/config_overrides.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "controller/cli/import/translation/model.h"
#include "controller/cli/import/translation/model_name.h"

namespace coxswain::job_import {
namespace {

using config::Entry;
using config::Node;

constexpr std::string_view kAsked = "output_router_logits";
constexpr std::string_view kFactor = "router_aux_loss_coef";

// The factor in the config.json of a model that lies on disk.
std::optional<double> FactorOnDisk(const std::string& model, const std::string& base_dir) {
  std::ifstream file(std::filesystem::path(base_dir) / model / "config.json");
  const auto json = nlohmann::json::parse(file, nullptr, false);
  const auto found = json.is_object() ? json.find(kFactor) : json.end();
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

void SetRouterLoss(Translation* t, std::string_view key, const Node& asked, const Node* factor,
                   const std::string& base_dir) {
  const std::string path = "spec.moe.aux_loss.coef";
  if (!IsOn(&asked)) {
    t->Set(key, path, 0, "output_router_logits is off");
    return;
  }
  const std::string model = ModelOf(*t);
  std::optional<double> value = NumberOf(factor);
  if (!value.has_value()) value = FactorOnDisk(model, base_dir);
  if (!value.has_value()) value = RouterLossOfModel(model);
  if (!value.has_value()) {
    t->Refuse(key,
              "output_router_logits trains a loss whose factor stands in the model's config.json; "
              "give router_aux_loss_coef beside it",
              path);
    return;
  }
  t->Set(key, path, *value, "router_aux_loss_coef, which output_router_logits turns on");
  t->Preset("spec.moe.aux_loss.over", "micro_batch", "transformers pools a micro-batch");
}

void TranslateOverrides(Translation* t, std::string_view key, const Node& overrides,
                        const std::string& base_dir) {
  const Node* asked = nullptr;
  const Node* factor = nullptr;
  for (const Entry& entry : overrides.entries) {
    if (entry.key == kAsked) {
      asked = &entry.value;
    } else if (entry.key == kFactor) {
      factor = &entry.value;
    } else {
      t->Refuse(key, absl::StrCat(entry.key, ": config.json is that of the model's directory"));
    }
  }
  if (asked != nullptr) {
    SetRouterLoss(t, key, *asked, factor, base_dir);
  } else if (factor != nullptr) {
    t->Refuse(key, "router_aux_loss_coef counts beside output_router_logits: true",
              "spec.moe.aux_loss.coef");
  }
}

}  // namespace

void TranslateConfigOverrides(Translation* t, const std::string& base_dir) {
  for (const std::string_view key : {"model_config", "overrides_of_model_config"}) {
    const Node* overrides = t->Take(key);
    if (overrides == nullptr) continue;
    if (IsOff(*overrides)) {
      t->LeaveOut(key, "nothing");
    } else if (overrides->kind != Node::Kind::kMap) {
      t->Refuse(key, "config.json is that of the model's directory");
    } else {
      TranslateOverrides(t, key, *overrides, base_dir);
    }
  }
}

}  // namespace coxswain::job_import
