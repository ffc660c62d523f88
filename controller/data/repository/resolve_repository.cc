#include "controller/data/repository/resolve_repository.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/data/readers/bytes/file_kind.h"
#include "controller/data/repository/dataset_card.h"
#include "controller/data/repository/file_format.h"
#include "controller/data/repository/path_pattern.h"

namespace coxswain::data {
namespace {

template <typename... Parts>
absl::Status BadRepository(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// "squad.py" of "rajpurkar/squad".
std::string ScriptOf(const std::string& id) { return id.substr(id.rfind('/') + 1) + ".py"; }

// The config that is meant, by what the card says of a default.
absl::StatusOr<const CardConfig*> ConfigMeant(const DatasetCard& card, const std::string& asked) {
  std::vector<std::string> names, defaults;
  for (const CardConfig& config : card.configs) {
    names.push_back(config.name);
    if (config.is_default || config.name == "default") defaults.push_back(config.name);
  }
  if (names.size() > 1 && defaults.size() > 1) {
    return BadRepository("has several default configs (", absl::StrJoin(defaults, ", "),
                         "); name one");
  }
  ASSIGN_OR_RETURN(const size_t i,
                   ChooseConfig(names, asked, defaults.empty() ? card.only_info : defaults[0]));
  return &card.configs[i];
}

// The data files of a split, in the order of its patterns.
absl::StatusOr<SplitFiles> FilesOf(const SplitPatterns& split, std::string_view folder,
                                   const std::vector<std::string>& files) {
  SplitFiles found{.split = split.split, .files = {}};
  for (const std::string& pattern : split.patterns) {
    ASSIGN_OR_RETURN(const std::string below, PathBelow(folder, pattern));
    ASSIGN_OR_RETURN(std::vector<std::string> meant, FilesMeant(below, files));
    std::erase_if(meant, [](const std::string& file) { return !IsDataFile(file); });
    if (meant.empty() && !IsPattern(pattern)) {
      return BadRepository("has no data file ", below, ", which is split ", split.split);
    }
    found.files.insert(found.files.end(), meant.begin(), meant.end());
  }
  if (!found.files.empty()) return found;
  return BadRepository("has no data file for split ", split.split, " (",
                       absl::StrJoin(split.patterns, ", "), ")");
}

absl::StatusOr<std::vector<SplitFiles>> FilesOfAll(const std::vector<SplitPatterns>& splits,
                                                   std::string_view folder,
                                                   const std::vector<std::string>& files) {
  std::vector<SplitFiles> found;
  for (const SplitPatterns& split : splits) {
    ASSIGN_OR_RETURN(found.emplace_back(), FilesOf(split, folder, files));
  }
  return found;
}

absl::StatusOr<std::vector<SplitFiles>> GuessedFiles(std::string_view folder,
                                                     const std::vector<std::string>& files) {
  ASSIGN_OR_RETURN(const std::vector<SplitPatterns> splits, GuessSplits(folder, files));
  if (splits.empty()) {
    return BadRepository("holds no data file",
                         folder.empty() ? "" : absl::StrCat(" below ", std::string(folder)));
  }
  return FilesOfAll(splits, folder, files);
}

// Of several formats that of most files counts, and the others' files go.
absl::Status KeepOneFormat(std::vector<SplitFiles>* splits) {
  std::string first;
  for (SplitFiles& split : *splits) {
    const std::string format = FormatOf(split.files);
    if (format.empty()) return BadRepository("holds no data file for split ", split.split);
    if (first.empty()) first = format;
    if (format != first) {
      return BadRepository("has files of ", first, " for split ", splits->front().split, " and of ",
                           format, " for split ", split.split, "; name the files in data_files");
    }
    std::erase_if(split.files, [&](const std::string& file) { return !IsOfFormat(file, format); });
  }
  return absl::OkStatus();
}

// Why the files cannot be read as they are; empty: they can.
std::string WhyNotRead(const std::vector<SplitFiles>& splits) {
  for (const SplitFiles& split : splits) {
    for (const std::string& file : split.files) {
      if (KindOfName(file)) continue;
      return absl::StrCat("holds ", file, ", which is not read (.json, .jsonl, .ndjson, .csv, ",
                          ".tsv, .txt, each perhaps with .gz or .zst, .parquet and .arrow are)");
    }
  }
  return "";
}

absl::StatusOr<RepositoryData> OfConfig(const CardConfig& config,
                                        const std::vector<std::string>& files) {
  RepositoryData data;
  data.config = config.name;
  if (!config.options.empty()) {
    data.use_converted = absl::StrCat("has its config ", config.name, " read with ",
                                      absl::StrJoin(config.options, ", "), " (README.md)");
    return data;
  }
  ASSIGN_OR_RETURN(const std::string folder, PathBelow("", config.data_dir));
  if (config.data_files.empty()) {
    ASSIGN_OR_RETURN(data.splits, GuessedFiles(folder, files));
  } else {
    ASSIGN_OR_RETURN(data.splits, FilesOfAll(config.data_files, folder, files));
  }
  return data;
}

// One kind of data, or it is the same data in two forms.
absl::Status CheckOneKind(const std::vector<SplitFiles>& splits) {
  const std::string& first = splits.front().files.front();
  for (const SplitFiles& split : splits) {
    for (const std::string& file : split.files) {
      if (KindOfName(file) == KindOfName(first)) continue;
      return BadRepository("holds data of two kinds, ", first, " and ", file,
                           "; name the files in data_files");
    }
  }
  return absl::OkStatus();
}

bool AsksForFiles(const RepositoryQuery& query) {
  return !query.data_files.empty() || !query.data_dir.empty();
}

// Without a config of the card.
absl::StatusOr<RepositoryData> OfFiles(const RepositoryQuery& query) {
  RepositoryData data;
  ASSIGN_OR_RETURN(const std::string folder, PathBelow("", query.data_dir));
  if (query.data_files.empty()) {
    ASSIGN_OR_RETURN(data.splits, GuessedFiles(folder, query.files));
  } else {
    ASSIGN_OR_RETURN(data.splits, FilesOfAll(query.data_files, folder, query.files));
  }
  RETURN_IF_ERROR(KeepOneFormat(&data.splits));
  return data;
}

absl::StatusOr<RepositoryData> OfCard(const RepositoryQuery& query) {
  ASSIGN_OR_RETURN(const DatasetCard card, ReadDatasetCard(query.readme));
  if (card.configs.empty()) {
    if (query.name.empty() || query.name == "default") return OfFiles(query);
    return BadRepository("has no config \"", query.name, "\"; it has no configs");
  }
  if (AsksForFiles(query) && query.name.empty()) return OfFiles(query);
  ASSIGN_OR_RETURN(const CardConfig* config, ConfigMeant(card, query.name));
  return AsksForFiles(query) ? OfFiles(query) : OfConfig(*config, query.files);
}

absl::StatusOr<RepositoryData> Resolve(const RepositoryQuery& query) {
  RepositoryData data;
  const std::string script = ScriptOf(query.id);
  const bool has_script =
      std::find(query.files.begin(), query.files.end(), script) != query.files.end();
  if (has_script && !AsksForFiles(query)) {
    data.use_converted = absl::StrCat("needs its script ", script);
    return data;
  }
  ASSIGN_OR_RETURN(data, OfCard(query));
  if (!data.use_converted.empty()) return data;
  const std::string why = WhyNotRead(data.splits);
  if (!why.empty() && AsksForFiles(query)) return BadRepository(why);
  if (why.empty()) {
    RETURN_IF_ERROR(CheckOneKind(data.splits));
  } else {
    data.splits.clear();
    data.use_converted = why;
  }
  return data;
}

}  // namespace

absl::StatusOr<RepositoryData> ResolveRepository(const RepositoryQuery& query) {
  absl::StatusOr<RepositoryData> data = Resolve(query);
  if (!data.ok()) {
    return absl::Status(data.status().code(), absl::StrCat("dataset ", query.id, " ",
                                                           std::string(data.status().message())));
  }
  return data;
}

}  // namespace coxswain::data
