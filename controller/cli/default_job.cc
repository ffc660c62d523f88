#include "controller/cli/default_job.h"

#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/config_error.h"
#include "common/config/job_parser.h"

namespace coxswain::cli {
namespace {

// A path that a user typed is no hub id, whatever it looks like.
std::string Absolute(const std::string& path) {
  return std::filesystem::absolute(path.empty() ? "none" : path).lexically_normal();
}

}  // namespace

absl::StatusOr<config::JobSpec> DefaultJob(const DefaultJobArgs& args) {
  const nlohmann::ordered_json job = {
      {"apiVersion", "coxswain/v1"},
      {"kind", "FineTuneJob"},
      {"metadata", {{"name", "look"}}},
      {"spec",
       {{"base_model", Absolute(args.model)},
        {"datasets", {{{"path", Absolute(args.dataset)}, {"format", args.format}}}},
        {"chat_template", args.chat_template},
        {"sequence_len", args.sequence_len},
        {"resources", {{"device", "cpu"}}}}}};
  config::ParsedJob parsed = config::ParseJob(job.dump(), std::filesystem::current_path().string());
  if (!parsed.errors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.errors[0].path, ": ", parsed.errors[0].message));
  }
  if (args.model.empty()) parsed.spec.model_path.clear();
  return std::move(parsed.spec);
}

}  // namespace coxswain::cli
