#include "controller/planner/adapter_settings.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

using Json = nlohmann::json;

bool Has(const Json& config, const char* key) {
  return config.contains(key) && !config[key].is_null();
}

absl::Status CheckSupported(const std::string& path, const Json& config) {
  for (const char* key : {"rank_pattern", "alpha_pattern", "layers_to_transform"}) {
    if (!Has(config, key) || config[key].empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", key, " is not supported"));
  }
  if (!Has(config, "bias") || config["bias"] == "none") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": bias ", config["bias"].dump(), " is not supported; none is"));
}

}  // namespace

absl::Status CheckAdapterSettings(const config::JobSpec& job) {
  if (job.adapter == config::Adapter::kNone || !job.lora.init_from) return absl::OkStatus();
  const std::string path = absl::StrCat(*job.lora.init_from, "/adapter_config.json");
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxConfigBytes);
  if (!text.ok()) return absl::OkStatus();
  const Json config = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
  }
  RETURN_IF_ERROR(CheckSupported(path, config));
  const std::pair<const char*, std::pair<const char*, Json>> all[] = {
      {"r", {"r", job.lora.r}},
      {"lora_alpha", {"alpha", job.lora.alpha}},
      {"use_rslora", {"use_rslora", job.lora.use_rslora}},
      {"use_dora", {"use_dora", job.lora.use_dora}},
  };
  for (const auto& [key, ours] : all) {
    if (!Has(config, key) || config[key] == ours.second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", key, " ", config[key].dump(), " and the job lora.", ours.first,
                     " ", ours.second.dump(), ": the adapter would compute something else; set ",
                     "lora.", ours.first, ": ", config[key].dump()));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::planner
