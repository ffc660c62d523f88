#include "controller/export/base_model_name.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"

namespace coxswain::exports {
namespace {

bool IsHubWord(const std::string& word) {
  if (word.empty() || !absl::ascii_isalnum(static_cast<unsigned char>(word.front()))) return false;
  return std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

std::string NameInConfig(const std::string& model_path) {
  const absl::StatusOr<std::string> text = ReadFile(model_path + "/config.json", kMaxConfigBytes);
  if (!text.ok()) return "";
  const nlohmann::json config = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return "";
  const auto name = config.find("_name_or_path");
  return name != config.end() && name->is_string() ? name->get<std::string>() : "";
}

// Source: huggingface_hub file_download.repo_folder_name.
std::string NameInHubCache(const std::filesystem::path& model_path) {
  const std::string prefix = "models--";
  for (const std::filesystem::path& part : model_path) {
    const std::string folder = part.string();
    const size_t dashes = folder.find("--", prefix.size());
    if (!folder.starts_with(prefix) || dashes == std::string::npos) continue;
    return absl::StrCat(folder.substr(prefix.size(), dashes - prefix.size()), "/",
                        folder.substr(dashes + 2));
  }
  return "";
}

// The user's, else a Hub id, else empty.
std::string KnownName(const config::JobSpec& job, const plan::Plan& plan) {
  if (!job.model_name.empty()) return job.model_name;
  if (!job.model_hub.id.empty()) return job.model_hub.id;
  for (const std::string& id : {NameInConfig(plan.model_path), NameInHubCache(plan.model_path)}) {
    if (IsHubId(id)) return id;
  }
  return "";
}

}  // namespace

bool IsHubId(const std::string& text) {
  const size_t slash = text.find('/');
  return slash != std::string::npos && IsHubWord(text.substr(0, slash)) &&
         IsHubWord(text.substr(slash + 1));
}

std::string AdapterBase(const config::JobSpec& job, const plan::Plan& plan) {
  const std::string known = KnownName(job, plan);
  return known.empty() && job.export_base_path ? plan.model_path : BaseModelName(job, plan);
}

std::string BaseModelName(const config::JobSpec& job, const plan::Plan& plan) {
  const std::string known = KnownName(job, plan);
  if (!known.empty()) return known;
  const std::filesystem::path path(plan.model_path);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace coxswain::exports
