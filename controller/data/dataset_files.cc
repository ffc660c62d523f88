#include "controller/data/dataset_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/glob.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/data/readers/file_kind.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

using Paths = std::vector<std::string>;

constexpr size_t kNamesInMessages = 5;

absl::Status BadDataset(const config::DatasetSpec& dataset, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("dataset ", dataset.path, what));
}

std::string NameOf(const std::string& path) { return fs::path(path).filename().string(); }

std::string NamesOf(const Paths& paths) {
  Paths names;
  for (const std::string& path : paths) {
    if (names.size() < kNamesInMessages) names.push_back(NameOf(path));
  }
  const size_t more = paths.size() - names.size();
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

// Hidden files, documentation, and what Hugging Face's datasets keep beside the data.
bool IsMetadata(const std::string& name) {
  static constexpr std::array<std::string_view, 5> kMetadata = {
      "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json",
      "metadata.json"};
  return name.starts_with(".") || name.starts_with("README") || name.starts_with("LICENSE") ||
         name.ends_with(".md") || name == "requirements.txt" ||
         (name.starts_with("cache-") && name.ends_with(".arrow")) ||
         std::find(kMetadata.begin(), kMetadata.end(), name) != kMetadata.end();
}

bool IsOfSplit(const std::string& path, std::string_view split) {
  const fs::path file = path;
  if (file.parent_path().filename() == split) return true;
  const std::string name = file.filename().string();
  if (!name.starts_with(split) || name.size() == split.size()) return name == split;
  const auto next = static_cast<unsigned char>(name[split.size()]);
  return !std::isalpha(next);
}

Paths OfSplit(const Paths& paths, std::string_view split) {
  Paths chosen;
  for (const std::string& path : paths) {
    if (IsOfSplit(path, split)) chosen.push_back(path);
  }
  return chosen;
}

// The splits of which the source may be, the best first.
std::vector<std::string> SplitsFor(const config::DatasetSpec& dataset) {
  if (dataset.split) return {*dataset.split};
  if (!dataset.held_out) return {"train"};
  return {"validation", "valid", "val", "dev", "eval", "test"};
}

struct Folder {
  Paths data;                        // sorted
  std::vector<std::string> folders;  // names, sorted
};

absl::StatusOr<Folder> ListFolder(const std::string& path) {
  Folder folder;
  std::error_code error;
  fs::directory_iterator entries(path, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    std::error_code unreadable;  // then it is neither
    if (entries->is_directory(unreadable)) {
      if (!name.starts_with(".")) folder.folders.push_back(name);
    } else if (KindOfName(name) && !IsMetadata(name)) {
      folder.data.push_back(entries->path().string());
    }
  }
  if (error) return ErrnoStatus(error.value(), "list dataset", path);
  std::sort(folder.data.begin(), folder.data.end());
  std::sort(folder.folders.begin(), folder.folders.end());
  return folder;
}

// One kind of data, or it is the same data in two forms.
absl::Status CheckKinds(const config::DatasetSpec& dataset, const Paths& paths) {
  const FileKind first = KindOfName(paths[0]).value_or(FileKind::kJson);
  for (const std::string& path : paths) {
    const FileKind kind = KindOfName(path).value_or(FileKind::kJson);
    if (kind == first) continue;
    return BadDataset(dataset,
                      absl::StrCat(" holds data of two kinds, ", std::string(KindName(first)), " (",
                                   NameOf(paths[0]), ") and ", std::string(KindName(kind)), " (",
                                   NameOf(path), "); if both are meant, name them in data_files"));
  }
  return absl::OkStatus();
}

// Of `paths` those of the dataset's split. Only a split that was asked for must be there.
absl::StatusOr<DatasetFiles> ChooseSplit(const config::DatasetSpec& dataset, Paths paths) {
  for (const std::string& split : SplitsFor(dataset)) {
    Paths chosen = OfSplit(paths, split);
    if (chosen.empty()) continue;
    DatasetFiles files;
    if (chosen.size() < paths.size()) {
      files.note = absl::StrCat("dataset ", dataset.path, ": ", chosen.size(), " of ", paths.size(),
                                " files are read, those of split ", split, ": ", NamesOf(chosen));
    }
    files.paths = std::move(chosen);
    return files;
  }
  if (!dataset.split) return DatasetFiles{std::move(paths), ""};
  return BadDataset(dataset, absl::StrCat(" has no file of split \"", *dataset.split,
                                          "\"; there are ", NamesOf(paths)));
}

absl::StatusOr<DatasetFiles> FilesOfFolder(const config::DatasetSpec& dataset) {
  ASSIGN_OR_RETURN(Folder folder, ListFolder(dataset.path));
  std::vector<std::string> inner = SplitsFor(dataset);
  inner.insert(inner.begin(), "data");
  for (const std::string& name : inner) {
    const bool there =
        std::find(folder.folders.begin(), folder.folders.end(), name) != folder.folders.end();
    if (!folder.data.empty() || !there) continue;
    ASSIGN_OR_RETURN(Folder below, ListFolder(absl::StrCat(dataset.path, "/", name)));
    folder.data = std::move(below.data);
  }
  if (folder.data.empty()) {
    return BadDataset(
        dataset,
        absl::StrCat(
            " is a folder without data files (.json, .jsonl, .ndjson, .csv, .tsv, .txt, each "
            "perhaps with .gz or .zst, .parquet, .arrow)",
            folder.folders.empty()
                ? ""
                : absl::StrCat("; give one of its folders as path: ", NamesOf(folder.folders))));
  }
  ASSIGN_OR_RETURN(DatasetFiles files, ChooseSplit(dataset, std::move(folder.data)));
  RETURN_IF_ERROR(CheckKinds(dataset, files.paths));
  return files;
}

absl::StatusOr<Paths> Matching(const config::DatasetSpec& dataset, const std::string& pattern) {
  ASSIGN_OR_RETURN(Paths paths, FilesMatching(pattern));
  std::erase_if(paths, [](const std::string& path) { return IsMetadata(NameOf(path)); });
  if (!paths.empty()) return paths;
  return BadDataset(dataset, absl::StrCat(": no file matches ", pattern));
}

bool StaysBelow(const std::string& entry) {
  const fs::path path = entry;
  return !entry.empty() && path.is_relative() &&
         std::find(path.begin(), path.end(), "..") == path.end();
}

absl::StatusOr<Paths> NamedFiles(const config::DatasetSpec& dataset) {
  std::error_code error;
  if (!fs::is_directory(dataset.path, error)) {
    return BadDataset(dataset, " is no folder, and data_files names files below one");
  }
  Paths paths;
  for (const std::string& entry : dataset.data_files) {
    if (!StaysBelow(entry)) {
      return BadDataset(dataset, absl::StrCat(": \"", entry, "\" in data_files is no name below ",
                                              "the folder; give it as a path of its own"));
    }
    const std::string path = absl::StrCat(dataset.path, "/", entry);
    Paths named = {path};
    if (IsGlob(entry) && !fs::exists(path, error)) {
      ASSIGN_OR_RETURN(named, Matching(dataset, path));
    }
    for (std::string& one : named) {
      if (std::find(paths.begin(), paths.end(), one) == paths.end())
        paths.push_back(std::move(one));
    }
  }
  return paths;
}

}  // namespace

absl::StatusOr<DatasetFiles> ListDatasetFiles(const config::DatasetSpec& dataset) {
  std::error_code error;
  Paths paths = {dataset.path};
  if (!dataset.data_files.empty()) {
    ASSIGN_OR_RETURN(paths, NamedFiles(dataset));
  } else if (fs::is_directory(dataset.path, error)) {
    return FilesOfFolder(dataset);
  } else if (IsGlob(dataset.path) && !fs::exists(dataset.path, error)) {
    ASSIGN_OR_RETURN(paths, Matching(dataset, dataset.path));
  } else if (dataset.split) {
    return BadDataset(dataset, ": split is of a folder or a glob, and this is a file");
  }
  if (!dataset.split) return DatasetFiles{std::move(paths), ""};
  return ChooseSplit(dataset, std::move(paths));
}

}  // namespace coxswain::data
