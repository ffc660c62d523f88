#include "controller/export/pushed_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest_files.h"
#include "common/files/read_file.h"
#include "common/hub/upload/push_file.h"
#include "common/status_macros.h"
#include "controller/export/base_model_name.h"

namespace coxswain::exports {
namespace {

constexpr char kAdapterConfig[] = "adapter_config.json";
constexpr char kModelConfig[] = "config.json";

bool HasFile(const std::vector<std::string>& files, const std::string& name) {
  return std::find(files.begin(), files.end(), name) != files.end();
}

// How the adapter in `folder` calls its base; empty: it is none, or says nothing.
std::string BaseNameIn(const std::string& folder) {
  const absl::StatusOr<std::string> text =
      ReadFile(absl::StrCat(folder, "/", kAdapterConfig), kMaxConfigBytes);
  if (!text.ok()) return "";
  const nlohmann::json config = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return "";
  const auto name = config.find("base_model_name_or_path");
  return name != config.end() && name->is_string() ? name->get<std::string>() : "";
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesToPush(const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<std::string> files, hub::FilesOf(folder));
  std::erase_if(files, [](const std::string& path) {
    return path == kExportManifestName || path.ends_with(absl::StrCat("/", kExportManifestName));
  });
  if (HasFile(files, kAdapterConfig) || HasFile(files, kModelConfig)) return files;
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " holds no ", kAdapterConfig, " and no ", kModelConfig,
                   ": push the folder of an adapter or a model, as cox export makes it"));
}

std::string ModelCard(const std::string& folder) {
  const std::string base = BaseNameIn(folder);
  const bool adapter = ReadFile(absl::StrCat(folder, "/", kAdapterConfig), kMaxConfigBytes).ok();
  return absl::StrCat(
      "---\n", IsHubId(base) ? absl::StrCat("base_model: ", base, "\n") : "",
      "library_name: ", adapter ? "peft" : "transformers", "\n",
      "pipeline_tag: text-generation\ntags:\n", adapter ? "- lora\n" : "", "- coxswain\n---\n\n",
      adapter ? "An adapter" : "A model",
      IsHubId(base) ? absl::StrCat(" of [", base, "](https://huggingface.co/", base, ")") : "",
      ", fine-tuned with Coxswain.\n");
}

std::string BaseByPath(const std::string& folder) {
  const std::string base = BaseNameIn(folder);
  return base.starts_with('/') ? base : "";
}

}  // namespace coxswain::exports
