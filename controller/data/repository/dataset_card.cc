#include "controller/data/repository/dataset_card.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/yaml_tree.h"
#include "common/status_macros.h"
#include "controller/data/dataset_parts.h"

namespace coxswain::data {
namespace {

using config::Node;

constexpr std::string_view kFence = "---";

// Keys of a config that do not change how its files are read.
constexpr std::array<std::string_view, 8> kKnownKeys = {"config_name", "data_files", "data_dir",
                                                        "default",     "features",   "version",
                                                        "description", "drop_labels"};

absl::Status BadCard(int line, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("README.md:", line, ": ", what));
}

const Node* Find(const Node& map, std::string_view key) {
  for (const config::Entry& entry : map.entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

// The YAML between fences at the head of `readme`, behind as many line feeds as stand before it
// there, so that its lines have the numbers of the file. Empty: there is none.
std::string HeadOf(const std::string& readme) {
  const size_t begin = readme.find_first_not_of(" \t\r\n\f\v");
  if (begin == std::string::npos || readme.compare(begin, kFence.size(), kFence) != 0) return "";
  size_t line = readme.find('\n', begin);
  if (line == std::string::npos || readme.find_first_not_of("\r", begin + kFence.size()) != line) {
    return "";
  }
  std::string head(static_cast<size_t>(std::count(readme.begin(), readme.begin() + line, '\n')) + 1,
                   '\n');
  while (++line < readme.size()) {
    const size_t end = std::min(readme.find('\n', line), readme.size());
    std::string text = readme.substr(line, end - line);
    if (text.ends_with('\r')) text.pop_back();
    if (text == kFence) return head;
    absl::StrAppend(&head, text, "\n");
    line = end;
  }
  return "";
}

absl::StatusOr<std::vector<std::string>> ReadPaths(const Node& node) {
  if (node.kind == Node::Kind::kScalar) return std::vector<std::string>{node.text};
  std::vector<std::string> paths;
  for (const Node& item : node.items) {
    if (item.kind != Node::Kind::kScalar) return BadCard(item.line, "a path is a text");
    paths.push_back(item.text);
  }
  if (node.kind != Node::Kind::kList) return BadCard(node.line, "paths are a text or a list");
  return paths;
}

absl::StatusOr<SplitPatterns> ReadSplit(const Node& node) {
  const Node* split = Find(node, "split");
  const Node* path = Find(node, "path");
  if (node.entries.size() != 2 || split == nullptr || path == nullptr) {
    return BadCard(node.line, "an entry of data_files is a path, or has split and path alone");
  }
  if (!IsSplitName(split->text)) {
    return BadCard(split->line, absl::StrCat("\"", split->text,
                                             "\" is no name of a split, which "
                                             "has letters, digits, _ and dots between"));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> patterns, ReadPaths(*path));
  return SplitPatterns{.split = split->text, .patterns = std::move(patterns)};
}

absl::StatusOr<std::vector<SplitPatterns>> ReadDataFiles(const Node& node) {
  const bool of_splits = node.kind == Node::Kind::kList && !node.items.empty() &&
                         node.items.front().kind == Node::Kind::kMap;
  std::vector<SplitPatterns> splits;
  if (!of_splits) {
    ASSIGN_OR_RETURN(std::vector<std::string> patterns, ReadPaths(node));
    splits.push_back({.split = "train", .patterns = std::move(patterns)});
    return splits;
  }
  for (const Node& item : node.items) {
    ASSIGN_OR_RETURN(SplitPatterns split, ReadSplit(item));
    for (const SplitPatterns& before : splits) {
      if (before.split != split.split) continue;
      return BadCard(item.line, absl::StrCat("the split ", split.split, " is there twice"));
    }
    splits.push_back(std::move(split));
  }
  return splits;
}

// As Python takes a value of YAML 1.1.
bool IsTrue(const Node& node) {
  constexpr std::array<std::string_view, 5> kFalse = {"", "false", "no", "off", "0"};
  const std::string text = absl::AsciiStrToLower(node.text);
  return node.kind == Node::Kind::kScalar &&
         std::find(kFalse.begin(), kFalse.end(), text) == kFalse.end();
}

absl::StatusOr<CardConfig> ReadConfig(const Node& node) {
  const Node* name = Find(node, "config_name");
  if (name == nullptr || name->kind != Node::Kind::kScalar) {
    return BadCard(node.line, "a config has a config_name");
  }
  CardConfig config{.name = name->text};
  if (const Node* files = Find(node, "data_files");
      files != nullptr && files->kind != Node::Kind::kNull) {
    ASSIGN_OR_RETURN(config.data_files, ReadDataFiles(*files));
  }
  if (const Node* folder = Find(node, "data_dir")) config.data_dir = folder->text;
  if (const Node* is_default = Find(node, "default")) config.is_default = IsTrue(*is_default);
  for (const config::Entry& entry : node.entries) {
    if (std::find(kKnownKeys.begin(), kKnownKeys.end(), entry.key) == kKnownKeys.end()) {
      config.options.push_back(entry.key);
    }
  }
  return config;
}

std::string OnlyInfo(const Node& root) {
  const Node* info = Find(root, "dataset_info");
  if (info == nullptr) return "";
  const bool list = info->kind == Node::Kind::kList;
  if (list && info->items.size() != 1) return "";
  const Node* name = Find(list ? info->items.front() : *info, "config_name");
  return name == nullptr ? "" : name->text;
}

}  // namespace

absl::StatusOr<DatasetCard> ReadDatasetCard(const std::string& readme) {
  const std::string head = HeadOf(readme);
  DatasetCard card;
  if (head.empty()) return card;
  const config::YamlTree tree = config::ParseYaml(head);
  if (!tree.problems.empty()) {
    return BadCard(tree.problems[0].line, tree.problems[0].message);
  }
  card.only_info = OnlyInfo(tree.root);
  const Node* configs = Find(tree.root, "configs");
  if (configs == nullptr || configs->kind == Node::Kind::kNull) return card;
  if (configs->kind != Node::Kind::kList) return BadCard(configs->line, "configs are a list");
  for (const Node& item : configs->items) {
    ASSIGN_OR_RETURN(CardConfig config, ReadConfig(item));
    const auto before =
        std::find_if(card.configs.begin(), card.configs.end(),
                     [&](const CardConfig& other) { return other.name == config.name; });
    if (before != card.configs.end()) {
      *before = std::move(config);
    } else {
      card.configs.push_back(std::move(config));
    }
  }
  return card;
}

absl::StatusOr<size_t> ChooseConfig(const std::vector<std::string>& names, std::string_view asked,
                                    std::string_view preferred) {
  constexpr size_t kNamesInMessages = 50;
  for (const std::string_view name : {asked, preferred, std::string_view("default")}) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (!name.empty() && found != names.end()) return static_cast<size_t>(found - names.begin());
    if (name.empty() || name != asked) continue;
    break;
  }
  if (asked.empty() && names.size() == 1) return 0;
  const size_t shown = std::min(names.size(), kNamesInMessages);
  return absl::InvalidArgumentError(absl::StrCat(
      asked.empty() ? std::string("has several configs; name one of them")
                    : absl::StrCat("has no config \"", std::string(asked), "\"; there are"),
      ": ", absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
      shown == names.size() ? "" : absl::StrCat(" and ", names.size() - shown, " more")));
}

}  // namespace coxswain::data
