#include "controller/data/repository/snapshot_data.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/read_file.h"
#include "common/hub/cache/kept_listing.h"
#include "common/status_macros.h"
#include "controller/data/repository/converted_branch.h"

namespace coxswain::data {

absl::StatusOr<DatasetFiles> SelectSplits(const std::vector<SplitFiles>& splits,
                                          std::string_view expression) {
  ASSIGN_OR_RETURN(const std::vector<SplitSlice> slices, ParseSplitExpression(expression));
  DatasetFiles selected;
  for (const SplitSlice& slice : slices) {
    size_t found = 0;
    for (const SplitFiles& split : splits) {
      if (!slice.split.empty() && split.split != slice.split) continue;
      ++found;
      selected.parts.push_back({.files = split.files.size(), .rows = slice});
      selected.paths.insert(selected.paths.end(), split.files.begin(), split.files.end());
    }
    if (found > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no split \"", slice.split, "\"; there are ",
                     absl::StrJoin(splits, ", ", [](std::string* out, const SplitFiles& split) {
                       out->append(split.split);
                     })));
  }
  return selected;
}

namespace {

constexpr char kReadme[] = "README.md";

RepositoryQuery QueryOf(const config::DatasetSpec& dataset) {
  RepositoryQuery query{.id = dataset.hub.id,
                        .files = hub::PathsOfSnapshot(dataset.path),
                        .name = dataset.name,
                        .data_dir = dataset.data_dir};
  if (!dataset.data_files.empty()) {
    query.data_files.push_back({.split = "train", .patterns = dataset.data_files});
  }
  return query;
}

// The split that is read where the job names none.
absl::StatusOr<std::string> UsualSplit(const config::DatasetSpec& dataset,
                                       const std::vector<SplitFiles>& splits) {
  for (const std::string& usual : UsualSplits(dataset.held_out)) {
    for (const SplitFiles& split : splits) {
      if (split.split == usual) return usual;
    }
  }
  if (splits.size() == 1) return splits[0].split;
  const std::string names = absl::StrJoin(
      splits, ", ", [](std::string* out, const SplitFiles& split) { out->append(split.split); });
  return absl::InvalidArgumentError(
      absl::StrCat("has the splits ", names, " and none is usual for ",
                   dataset.held_out ? "evaluation" : "training", "; name one in split"));
}

absl::StatusOr<DatasetFiles> Select(const config::DatasetSpec& dataset,
                                    const RepositoryData& data) {
  if (dataset.split) return SelectSplits(data.splits, *dataset.split);
  ASSIGN_OR_RETURN(const std::string split, UsualSplit(dataset, data.splits));
  return SelectSplits(data.splits, split);
}

}  // namespace

absl::StatusOr<RepositoryData> ReadSnapshot(const config::DatasetSpec& dataset) {
  RepositoryQuery query = QueryOf(dataset);
  if (dataset.converted) return ResolveConverted(query, "is asked for as converted by the Hub");
  if (std::find(query.files.begin(), query.files.end(), kReadme) != query.files.end()) {
    ASSIGN_OR_RETURN(query.readme, ReadFile(absl::StrCat(dataset.path, "/", kReadme)));
  }
  return ResolveRepository(query);
}

absl::StatusOr<DatasetFiles> FilesOfSnapshot(const config::DatasetSpec& dataset) {
  ASSIGN_OR_RETURN(const RepositoryData data, ReadSnapshot(dataset));
  if (!data.use_converted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset ", dataset.hub.id, " ", data.use_converted,
                     "; give converted: true, which reads the Hub's copy in Parquet"));
  }
  absl::StatusOr<DatasetFiles> files = Select(dataset, data);
  if (!files.ok()) {
    return absl::Status(files.status().code(), absl::StrCat("dataset ", dataset.hub.id, ": ",
                                                            std::string(files.status().message())));
  }
  for (std::string& path : files->paths) path = absl::StrCat(dataset.path, "/", path);
  files->note = data.note;
  return files;
}

}  // namespace coxswain::data
