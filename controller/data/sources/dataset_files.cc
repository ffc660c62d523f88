#include "controller/data/sources/dataset_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/glob.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/data/readers/bytes/file_kind.h"
#include "controller/data/repository/snapshot_data.h"

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

// Splits that are asked for by name; empty: none.
absl::StatusOr<std::vector<SplitSlice>> AskedSplits(const config::DatasetSpec& dataset) {
  if (!dataset.split) return std::vector<SplitSlice>();
  // A word alone may be the beginning of any file's name.
  if (*dataset.split != "all" && dataset.split->find_first_of("[(+") == std::string::npos) {
    return std::vector<SplitSlice>{{.split = *dataset.split, .from = {}, .to = {}}};
  }
  absl::StatusOr<std::vector<SplitSlice>> asked = ParseSplitExpression(*dataset.split);
  if (asked.ok()) return asked;
  return BadDataset(dataset, absl::StrCat(": ", std::string(asked.status().message())));
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

DatasetFiles WholeOf(Paths paths) {
  DatasetFiles files;
  files.parts.push_back({.files = paths.size(), .rows = {}});
  files.paths = std::move(paths);
  return files;
}

std::string ChosenNote(const config::DatasetSpec& dataset, const Paths& chosen, size_t of,
                       const std::string& split) {
  if (chosen.size() >= of) return "";
  return absl::StrCat("dataset ", dataset.path, ": ", chosen.size(), " of ", of,
                      " files are read, those of split ", split, ": ", NamesOf(chosen));
}

// Of `paths` those of a usual split, else all.
DatasetFiles ChooseUsual(const config::DatasetSpec& dataset, Paths paths) {
  for (const std::string& split : UsualSplits(dataset.held_out)) {
    Paths chosen = OfSplit(paths, split);
    if (chosen.empty()) continue;
    std::string note = ChosenNote(dataset, chosen, paths.size(), split);
    DatasetFiles files = WholeOf(std::move(chosen));
    files.note = std::move(note);
    return files;
  }
  return WholeOf(std::move(paths));
}

// Of `paths` those of the splits that are asked for, each of which must be there.
absl::StatusOr<DatasetFiles> ChooseAsked(const config::DatasetSpec& dataset,
                                         const std::vector<SplitSlice>& asked, const Paths& paths) {
  DatasetFiles files;
  for (const SplitSlice& slice : asked) {
    Paths chosen = slice.split.empty() ? paths : OfSplit(paths, slice.split);
    // Files that are named one by one are train, whatever they are called.
    const bool named = !dataset.data_files.empty();
    if (chosen.empty() && named && slice.split == "train") chosen = paths;
    if (chosen.empty()) {
      return BadDataset(dataset, absl::StrCat(" has no file of split \"", slice.split,
                                              "\"; there are ", NamesOf(paths)));
    }
    files.parts.push_back({.files = chosen.size(), .rows = slice});
    files.paths.insert(files.paths.end(), chosen.begin(), chosen.end());
  }
  files.note = ChosenNote(dataset, files.paths, paths.size(), *dataset.split);
  return files;
}

absl::StatusOr<DatasetFiles> Choose(const config::DatasetSpec& dataset,
                                    const std::vector<SplitSlice>& asked, Paths paths) {
  if (asked.empty()) return ChooseUsual(dataset, std::move(paths));
  return ChooseAsked(dataset, asked, paths);
}

// Adds the data of the folder's own folder `name`, if it has one.
absl::Status AddInner(const config::DatasetSpec& dataset, const std::string& name, Folder* folder) {
  if (std::find(folder->folders.begin(), folder->folders.end(), name) == folder->folders.end()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Folder below, ListFolder(absl::StrCat(dataset.path, "/", name)));
  folder->data.insert(folder->data.end(), below.data.begin(), below.data.end());
  return absl::OkStatus();
}

// For a folder without data of its own: that of its folder `data`, else of those of the splits.
absl::Status AddInnerData(const config::DatasetSpec& dataset, const std::vector<SplitSlice>& asked,
                          Folder* folder) {
  RETURN_IF_ERROR(AddInner(dataset, "data", folder));
  if (!folder->data.empty()) return absl::OkStatus();
  std::set<std::string> added;
  for (const SplitSlice& slice : asked) {
    if (added.insert(slice.split).second) RETURN_IF_ERROR(AddInner(dataset, slice.split, folder));
  }
  for (const std::string& split : UsualSplits(dataset.held_out)) {
    if (!asked.empty() || !folder->data.empty()) break;
    RETURN_IF_ERROR(AddInner(dataset, split, folder));
  }
  return absl::OkStatus();
}

absl::StatusOr<DatasetFiles> FilesOfFolder(const config::DatasetSpec& dataset,
                                           const std::vector<SplitSlice>& asked) {
  ASSIGN_OR_RETURN(Folder folder, ListFolder(dataset.path));
  if (folder.data.empty()) RETURN_IF_ERROR(AddInnerData(dataset, asked, &folder));
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
  ASSIGN_OR_RETURN(DatasetFiles files, Choose(dataset, asked, std::move(folder.data)));
  RETURN_IF_ERROR(CheckKinds(dataset, files.paths));
  return files;
}

// A single file is the split train.
absl::StatusOr<DatasetFiles> PartsOfFile(const config::DatasetSpec& dataset,
                                         const std::vector<SplitSlice>& asked) {
  if (asked.empty()) return WholeOf({dataset.path});
  DatasetFiles files;
  for (const SplitSlice& slice : asked) {
    if (!slice.split.empty() && slice.split != "train") {
      return BadDataset(dataset, absl::StrCat(" is a file, which is split train, and split \"",
                                              slice.split, "\" was asked for"));
    }
    files.parts.push_back({.files = 1, .rows = slice});
    files.paths.push_back(dataset.path);
  }
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
  if (!dataset.hub.id.empty()) return FilesOfSnapshot(dataset);
  ASSIGN_OR_RETURN(const std::vector<SplitSlice> asked, AskedSplits(dataset));
  std::error_code error;
  Paths paths;
  if (!dataset.data_files.empty()) {
    ASSIGN_OR_RETURN(paths, NamedFiles(dataset));
  } else if (fs::is_directory(dataset.path, error)) {
    return FilesOfFolder(dataset, asked);
  } else if (IsGlob(dataset.path) && !fs::exists(dataset.path, error)) {
    ASSIGN_OR_RETURN(paths, Matching(dataset, dataset.path));
  } else {
    return PartsOfFile(dataset, asked);
  }
  if (asked.empty()) return WholeOf(std::move(paths));
  return ChooseAsked(dataset, asked, paths);
}

}  // namespace coxswain::data
