#include "common/config/push_rules.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hub/push.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

int LineOfPush(const Validated& job, const std::string& path) {
  const auto found = job.lines.find(path);
  return found == job.lines.end() ? 0 : found->second;
}

}  // namespace

void CheckPush(Validated* job) {
  const std::string path = "spec.export.push_to_hub.repo";
  // Null where the file is no map: that is told already.
  const Json spec = job->effective.value("spec", Json());
  if (!spec.is_object()) return;
  const Json push = spec.value(Json::json_pointer("/export/push_to_hub"), Json::object());
  const Json repo = push.value("repo", Json());
  const Json revision = push.value("revision", Json());
  if (!repo.is_string() || !revision.is_string()) return;
  const auto error = [&](std::string message) {
    job->errors.push_back({path, LineOfPush(*job, path), std::move(message)});
  };
  const absl::StatusOr<hub::Repository> repository = hub::MakeRepository(
      hub::RepositoryType::kModel, repo.get<std::string>(), revision.get<std::string>());
  const absl::Status pushable =
      repository.ok() ? hub::CheckPushable(*repository) : repository.status();
  if (!pushable.ok()) error(std::string(pushable.message()));
  if (spec.value("method", "") == "generate") {
    error("goes with a job that trains; method: generate exports nothing");
  }
}

}  // namespace coxswain::config
