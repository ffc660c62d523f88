#include "controller/data/repository/split_patterns.h"

#include <array>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "controller/data/dataset_parts.h"
#include "controller/data/repository/path_pattern.h"

namespace coxswain::data {
namespace {

constexpr std::string_view kShardNumber = "[0-9][0-9][0-9][0-9][0-9]";

struct Keywords {
  std::string_view split;
  std::array<std::string_view, 4> words;  // empty ones at the end
};

constexpr std::array<Keywords, 3> kSplits = {{
    {"train", {"train", "training"}},
    {"validation", {"validation", "valid", "dev", "val"}},
    {"test", {"test", "testing", "eval", "evaluation"}},
}};

// K is a keyword, S a character that may stand before and behind it.
constexpr std::array<std::string_view, 4> kInFolders = {"**/K/**", "**/KS*/**", "**/*SK/**",
                                                        "**/*SKS*/**"};
constexpr std::array<std::string_view, 2> kInNames = {"**/KS*", "**/*SKS*"};
constexpr std::string_view kSeparator = "[-._ 0-9]";

std::string ShardsOf(std::string_view split) {
  return absl::StrCat("data/", std::string(split), "-", std::string(kShardNumber), "-of-",
                      std::string(kShardNumber), "*.*");
}

template <typename Forms>
std::vector<SplitPatterns> ByKeyword(const Forms& forms) {
  std::vector<SplitPatterns> splits;
  for (const Keywords& keywords : kSplits) {
    SplitPatterns& split = splits.emplace_back();
    split.split = keywords.split;
    for (const std::string_view word : keywords.words) {
      for (const std::string_view form : forms) {
        if (word.empty()) continue;
        split.patterns.push_back(absl::StrReplaceAll(
            std::string(form), {{"K", std::string(word)}, {"S", std::string(kSeparator)}}));
      }
    }
  }
  return splits;
}

absl::StatusOr<std::vector<std::string>> MeantBelow(std::string_view folder,
                                                    std::string_view pattern,
                                                    const std::vector<std::string>& files) {
  ASSIGN_OR_RETURN(const std::string below, PathBelow(folder, pattern));
  return FilesMeant(below, files);
}

bool IsDigit(char character) { return character >= '0' && character <= '9'; }

// "-00000-of-00003" at the front of `text`.
bool BeginsWithNumbers(std::string_view text) {
  constexpr std::string_view kForm = "-00000-of-00000";
  if (text.size() < kForm.size()) return false;
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == '0' ? !IsDigit(text[i]) : text[i] != kForm[i]) return false;
  }
  return true;
}

// "train" of "data/train-00000-of-00003.parquet": what is before the last numbers.
std::string_view SplitOfShard(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  size_t at = name.size();
  while (at > 0 && !BeginsWithNumbers(name.substr(at))) --at;
  return name.substr(0, at);
}

absl::StatusOr<std::vector<SplitPatterns>> SplitsOfShards(const std::vector<std::string>& shards) {
  std::set<std::string> names;
  for (const std::string& shard : shards) names.emplace(SplitOfShard(shard));
  std::vector<SplitPatterns> splits;
  const auto add = [&](const std::string& name) {
    splits.push_back({.split = name, .patterns = {ShardsOf(name)}});
  };
  for (const Keywords& keywords : kSplits) {
    const std::string name(keywords.split);
    if (names.erase(name) > 0) add(name);
  }
  for (const std::string& name : names) {
    if (!IsSplitName(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("data/", name, "-00000-of-...: \"", name,
                       "\" is no name of a split, which has letters, digits, _ and dots between; "
                       "name the files in data_files"));
    }
    add(name);
  }
  return splits;
}

// Keeps the splits that any file is meant by.
absl::Status DropEmpty(std::string_view folder, const std::vector<std::string>& files,
                       std::vector<SplitPatterns>* splits) {
  std::vector<SplitPatterns> kept;
  for (SplitPatterns& split : *splits) {
    bool any = false;
    for (const std::string& pattern : split.patterns) {
      if (any) break;
      ASSIGN_OR_RETURN(const auto meant, MeantBelow(folder, pattern, files));
      any = !meant.empty();
    }
    if (any) kept.push_back(std::move(split));
  }
  *splits = std::move(kept);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SplitPatterns>> GuessSplits(std::string_view folder,
                                                       const std::vector<std::string>& files) {
  ASSIGN_OR_RETURN(const auto shards, MeantBelow(folder, ShardsOf("*"), files));
  if (!shards.empty()) return SplitsOfShards(shards);
  // Logs and tasks of evaluations come before splits; they are formats that only the library reads.
  for (std::vector<SplitPatterns> splits :
       {std::vector<SplitPatterns>{{"logs", {"**/*.eval"}}},
        std::vector<SplitPatterns>{{"test", {"**/task.toml", "**/instruction.md"}}},
        ByKeyword(kInFolders), ByKeyword(kInNames),
        std::vector<SplitPatterns>{{"train", {"**"}}}}) {
    RETURN_IF_ERROR(DropEmpty(folder, files, &splits));
    if (!splits.empty()) return splits;
  }
  return std::vector<SplitPatterns>();
}

}  // namespace coxswain::data
