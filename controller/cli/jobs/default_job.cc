#include "controller/cli/jobs/default_job.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/config_error.h"
#include "common/config/named_sources.h"
#include "common/config/parser/job_parser.h"
#include "common/status_macros.h"
#include "controller/cli/jobs/job_sources.h"

namespace coxswain::cli {
namespace {

// "org/name" where no such path is here; else the path, absolute.
std::string Place(const std::string& text) {
  std::error_code error;
  if (config::ReadsAsHubId(text) && !std::filesystem::exists(text, error)) return text;
  return std::filesystem::absolute(text.empty() ? "none" : text).lexically_normal();
}

using config::DatasetFormat;

// Formats that a method reads alone. What is looked at needs no method.
constexpr std::pair<const char*, DatasetFormat> kOfMethods[] = {
    {"preference", DatasetFormat::kPreference},
    {"unpaired_preference", DatasetFormat::kUnpairedPreference},
    {"classification", DatasetFormat::kClassification},
};

std::optional<DatasetFormat> OfMethod(const std::string& word) {
  for (const auto& [name, format] : kOfMethods) {
    if (word == name) return format;
  }
  return std::nullopt;
}

nlohmann::ordered_json DatasetOf(const DefaultJobArgs& args) {
  const std::string format = OfMethod(args.format) ? "auto" : args.format;
  nlohmann::ordered_json dataset = {{"path", Place(args.dataset)}, {"format", format}};
  if (!args.name.empty()) dataset["name"] = args.name;
  if (!args.split.empty()) dataset["split"] = args.split;
  if (!args.revision.empty()) dataset["revision"] = args.revision;
  return dataset;
}

}  // namespace

absl::StatusOr<config::JobSpec> DefaultJob(Cox* cox, const DefaultJobArgs& args) {
  const nlohmann::ordered_json job = {
      {"apiVersion", "coxswain/v1"},
      {"kind", "FineTuneJob"},
      {"metadata", {{"name", "look"}}},
      {"spec",
       {{"base_model", {{"path", Place(args.model)}, {"init", "random"}}},
        {"datasets", {DatasetOf(args)}},
        {"chat_template", args.chat_template},
        {"sequence_len", args.sequence_len},
        {"resources", {{"device", "cpu"}}}}}};
  config::ParsedJob parsed = config::ParseJob(job.dump(), std::filesystem::current_path().string());
  if (!parsed.errors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.errors[0].path, ": ", parsed.errors[0].message));
  }
  ASSIGN_OR_RETURN(parsed, BringSources(cox, std::move(parsed)));
  if (const auto format = OfMethod(args.format)) parsed.spec.datasets[0].format = *format;
  if (args.model.empty()) parsed.spec.model_path.clear();
  return std::move(parsed.spec);
}

}  // namespace coxswain::cli
