#include "common/config/rules/source_rules.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/schema/schema.h"
#include "common/hub/api/repository.h"
#include "common/hub/upload/push.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

// One of base_model, datasets[i], test_datasets[i].
class SourceCheck {
 public:
  SourceCheck(const Json& source, std::string place, Validated* job)
      : source_(source), place_(std::move(place)), job_(job) {}

  // `row`: that of its path in the schema, whose text says what is missing.
  void Check(const std::string& row) {
    if (!Has("path") && !Has("hub") && !Has("url") && !Told()) Missing(row);
    if (Has("hub") && Has("url")) Error("url", "excludes hub; set one of the two");
    CheckName();
    for (const char* key : {"revision", "name", "data_dir"}) {
      if (key == std::string("name") && place_ == "spec.base_model") continue;
      if (key == std::string("revision") && Has("url")) continue;  // of an accepted job
      if (Has(key) && !Has("hub")) Error(key, "goes with a repository of the Hub, `hub: org/name`");
    }
    if (source_.value("converted", Json(false)) == true && !Has("hub")) {
      Error("converted", "goes with a dataset of the Hub, `hub: org/name`");
    }
    const auto files = source_.find("data_files");
    if (Has("url") && files != source_.end() && files->is_array() && !files->empty()) {
      Error("data_files", "names files of a folder, and the source is the file of a URL");
    }
  }

 private:
  bool Has(const std::string& key) const {
    const auto value = source_.find(key);
    return value != source_.end() && value->is_string();
  }

  // Id and revision are parts of paths and URLs.
  void CheckName() {
    if (!Has("hub")) return;
    const bool model = place_ == "spec.base_model";
    const absl::Status named =
        hub::MakeRepository(
            model ? hub::RepositoryType::kModel : hub::RepositoryType::kDataset,
            source_["hub"].get<std::string>(),
            Has("revision") ? source_["revision"].get<std::string>() : hub::kDefaultRevision)
            .status();
    if (!named.ok()) Error("hub", std::string(named.message()));
  }

  void Missing(const std::string& row) {
    const bool given = place_ != "spec.base_model" || job_->lines.count(place_) > 0;
    const Key* key = FindKey(given ? row : place_);
    const std::string message = absl::StrCat("missing; ", std::string(key->doc));
    if (given) return Error("path", message);
    job_->errors.push_back({place_, 0, message});
  }

  // A wrong value is reported already, and stands as null.
  bool Told() const {
    for (const ConfigError& error : job_->errors) {
      if (error.path.starts_with(place_)) return true;
    }
    return false;
  }

  void Error(const std::string& key, std::string message) {
    const std::string path = absl::StrCat(place_, ".", key);
    job_->errors.push_back({path, LineOf(*job_, path), std::move(message)});
  }

  const Json& source_;
  const std::string place_;
  Validated* const job_;
};

}  // namespace

void CheckSources(Validated* job) {
  const auto spec = job->effective.find("spec");
  if (spec == job->effective.end() || !spec->is_object()) return;
  const auto model = spec->find("base_model");
  if (model != spec->end() && model->is_object()) {
    SourceCheck(*model, "spec.base_model", job).Check("spec.base_model.path");
  }
  for (const char* list : {"datasets", "test_datasets"}) {
    const auto sources = spec->find(list);
    if (sources == spec->end() || !sources->is_array()) continue;
    for (size_t i = 0; i < sources->size(); ++i) {
      SourceCheck((*sources)[i], absl::StrCat("spec.", list, "[", i, "]"), job)
          .Check("spec.datasets[].path");
    }
  }
}

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
