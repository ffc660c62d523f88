#include "common/config/parser/pinned_sources.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

bool IsFetched(const HubSource& hub, const std::string& url) {
  return !hub.id.empty() || !url.empty();
}

// Whether it wrote anything.
bool Write(const std::vector<DatasetSpec>& datasets, Json* list) {
  bool wrote = false;
  for (size_t i = 0; i < datasets.size(); ++i) {
    const DatasetSpec& dataset = datasets[i];
    if (!IsFetched(dataset.hub, dataset.url)) continue;
    Json& item = (*list)[i];
    item["path"] = dataset.path;
    item["revision"] = dataset.hub.revision;
    item["converted"] = dataset.converted;
    wrote = true;
  }
  return wrote;
}

void Copy(const std::vector<DatasetSpec>& pinned, std::vector<DatasetSpec>* datasets) {
  for (size_t i = 0; i < std::min(pinned.size(), datasets->size()); ++i) {
    if (!IsFetched(pinned[i].hub, pinned[i].url)) continue;
    (*datasets)[i].path = pinned[i].path;
    (*datasets)[i].hub = pinned[i].hub;
    (*datasets)[i].converted = pinned[i].converted;
  }
}

}  // namespace

void WriteSources(ParsedJob* job) {
  Json effective = Json::parse(job->effective_json);
  Json& spec = effective["spec"];
  const JobSpec& from = job->spec;
  bool wrote = IsFetched(from.model_hub, from.model_url);
  if (wrote) {
    spec["base_model"]["path"] = from.model_path;
    spec["base_model"]["revision"] = from.model_hub.revision;
  }
  wrote |= Write(from.datasets, &spec["datasets"]);
  wrote |= Write(from.test_datasets, &spec["test_datasets"]);
  if (wrote) job->effective_json = effective.dump(2);
}

void CopySources(const JobSpec& pinned, ParsedJob* job) {
  if (IsFetched(pinned.model_hub, pinned.model_url)) {
    job->spec.model_path = pinned.model_path;
    job->spec.model_hub = pinned.model_hub;
  }
  Copy(pinned.datasets, &job->spec.datasets);
  Copy(pinned.test_datasets, &job->spec.test_datasets);
  WriteSources(job);
}

}  // namespace coxswain::config
