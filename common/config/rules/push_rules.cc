#include "common/config/rules/push_rules.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hub/upload/push.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

// Null where an error above has left nothing.
Json ValueAt(const Json& effective, const char* pointer) {
  const Json::json_pointer at(pointer);
  return effective.contains(at) ? effective.at(at) : Json();
}

}  // namespace

void CheckPush(Validated* job) {
  const std::string path = "spec.export.push_to_hub.repo";
  const Json repo = ValueAt(job->effective, "/spec/export/push_to_hub/repo");
  const Json revision = ValueAt(job->effective, "/spec/export/push_to_hub/revision");
  if (!repo.is_string() || !revision.is_string()) return;
  const auto error = [&](std::string message) {
    job->errors.push_back({path, LineOf(*job, path), std::move(message)});
  };
  const absl::StatusOr<hub::Repository> repository = hub::MakeRepository(
      hub::RepositoryType::kModel, repo.get<std::string>(), revision.get<std::string>());
  const absl::Status pushable =
      repository.ok() ? hub::CheckPushable(*repository) : repository.status();
  if (!pushable.ok()) error(std::string(pushable.message()));
  if (ValueAt(job->effective, "/spec/method") == "generate") {
    error("goes with a job that trains; method: generate exports nothing");
  }
}

}  // namespace coxswain::config
