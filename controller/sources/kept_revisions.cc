#include "controller/sources/kept_revisions.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

namespace coxswain::sources {
namespace {

using Json = nlohmann::json;

std::string TextAt(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Whether `there` is the same repository, and the job leaves the revision to us.
bool Keeps(const Json& there, const config::HubSource& here) {
  return !here.id.empty() && here.revision.empty() && TextAt(there, "hub") == here.id &&
         !TextAt(there, "revision").empty();
}

void KeepOf(const Json& list, std::vector<config::DatasetSpec>* datasets) {
  if (!list.is_array()) return;
  for (size_t i = 0; i < std::min(list.size(), datasets->size()); ++i) {
    config::DatasetSpec& dataset = (*datasets)[i];
    if (!Keeps(list[i], dataset.hub) || TextAt(list[i], "name") != dataset.name) continue;
    dataset.hub.revision = TextAt(list[i], "revision");
    dataset.converted = list[i].value("converted", dataset.converted);
  }
}

}  // namespace

void KeepRevisions(const std::string& effective_json, config::JobSpec* job) {
  const Json there = Json::parse(effective_json, nullptr, /*allow_exceptions=*/false);
  if (!there.is_object() || !there.contains("spec") || !there["spec"].is_object()) return;
  const Json& spec = there["spec"];
  const Json model = spec.value("base_model", Json());
  if (Keeps(model, job->model_hub)) job->model_hub.revision = TextAt(model, "revision");
  KeepOf(spec.value("datasets", Json()), &job->datasets);
  KeepOf(spec.value("test_datasets", Json()), &job->test_datasets);
}

}  // namespace coxswain::sources
