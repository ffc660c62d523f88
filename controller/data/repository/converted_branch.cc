#include "controller/data/repository/converted_branch.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "controller/data/repository/dataset_card.h"

namespace coxswain::data {
namespace {

constexpr std::string_view kPartial = "partial-";

using Splits = std::map<std::string, std::vector<std::string>>;

// By config and split; "partial-" is of the split's name.
std::map<std::string, Splits> ByConfig(const std::vector<std::string>& files) {
  std::map<std::string, Splits> configs;
  for (const std::string& file : files) {
    const std::vector<std::string> parts = absl::StrSplit(file, '/');
    if (parts.size() == 3 && parts[2].ends_with(".parquet")) {
      configs[parts[0]][parts[1]].push_back(file);
    }
  }
  return configs;
}

// The usual splits before others, which are in the order of their names.
void Sort(std::vector<SplitFiles>* splits) {
  constexpr std::array<std::string_view, 3> kUsual = {"train", "validation", "test"};
  const auto rank = [&](const SplitFiles& split) {
    return std::find(kUsual.begin(), kUsual.end(), split.split) - kUsual.begin();
  };
  std::stable_sort(splits->begin(), splits->end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

}  // namespace

absl::StatusOr<RepositoryData> ResolveConverted(const RepositoryQuery& branch,
                                                std::string_view why) {
  std::map<std::string, Splits> configs = ByConfig(branch.files);
  if (configs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset ", branch.id, " ", std::string(why),
                     ", and the hub has no copy of it in Parquet (", std::string(kConvertedBranch),
                     "); load it with Python, save it by to_parquet() or to_json(), and give the "
                     "files as path"));
  }
  std::vector<std::string> names;
  for (const auto& [name, splits] : configs) names.push_back(name);
  const absl::StatusOr<size_t> chosen = ChooseConfig(names, branch.name, /*preferred=*/"");
  if (!chosen.ok()) {
    return absl::Status(
        chosen.status().code(),
        absl::StrCat("dataset ", branch.id, " ", std::string(chosen.status().message())));
  }
  RepositoryData data;
  data.config = names[*chosen];
  std::vector<std::string> partial;
  for (auto& [name, files] : configs[data.config]) {
    std::sort(files.begin(), files.end());
    const bool whole = !name.starts_with(kPartial);
    const std::string split = whole ? name : name.substr(kPartial.size());
    if (!whole) partial.push_back(split);
    data.splits.push_back({.split = split, .files = std::move(files)});
  }
  Sort(&data.splits);
  if (!partial.empty()) {
    data.note =
        absl::StrCat("dataset ", branch.id, ": the hub's copy in Parquet has only the first ",
                     "part of split ", absl::StrJoin(partial, ", "));
  }
  return data;
}

}  // namespace coxswain::data
