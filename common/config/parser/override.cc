#include "common/config/parser/override.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/schema/schema.h"
#include "common/config/yaml_tree.h"
#include "common/status_macros.h"

namespace coxswain::config {
namespace {

absl::Status Bad(const std::string& setting, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("--set ", setting, ": ", message));
}

std::vector<std::string> Split(const std::string& path) {
  std::vector<std::string> parts(1);
  for (char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void SetLine(Node* node, int line) {
  node->line = line;
  for (Node& item : node->items) SetLine(&item, line);
  for (Entry& entry : node->entries) {
    entry.line = line;
    SetLine(&entry.value, line);
  }
}

int LastLine(const Node& node) {
  int line = node.line;
  for (const Node& item : node.items) line = std::max(line, LastLine(item));
  for (const Entry& entry : node.entries) line = std::max(line, LastLine(entry.value));
  return line;
}

// The child to go on with; made when a map has no such key.
absl::StatusOr<Node*> Enter(Node* node, const std::string& key, const std::string& setting) {
  if (node->kind == Node::Kind::kList) {
    const bool digits =
        !key.empty() && key.size() < 9 &&
        std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isdigit(c); });
    if (!digits || std::stoul(key) >= node->items.size()) {
      return Bad(setting,
                 absl::StrCat("\"", key, "\" is no index of a list of ", node->items.size()));
    }
    return &node->items[std::stoul(key)];
  }
  if (node->kind != Node::Kind::kMap) {
    node->kind = Node::Kind::kMap;
    node->text.clear();
  }
  for (Entry& entry : node->entries) {
    if (entry.key == key) return &entry.value;
  }
  const int line = LastLine(*node);
  Node missing;
  missing.line = line;
  node->entries.push_back({key, line, missing});
  return &node->entries.back().value;
}

// A scalar in the place of a map is the short form of one of its keys, which stays.
void Expand(const std::string& path, Node* node) {
  const Key* key = node->kind == Node::Kind::kScalar ? FindKey(path) : nullptr;
  if (key == nullptr || key->shorthand.empty()) return;
  Node map;
  map.kind = Node::Kind::kMap;
  map.line = node->line;
  map.entries.push_back({std::string(key->shorthand), node->line, *node});
  *node = std::move(map);
}

absl::Status Apply(const std::string& setting, Node* root) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) return Bad(setting, "expected key=value");
  std::vector<std::string> parts = Split(setting.substr(0, equals));
  if (parts[0] != "spec" && parts[0] != "metadata" && parts[0] != "apiVersion" &&
      parts[0] != "kind") {
    parts.insert(parts.begin(), "spec");
  }
  const std::string text = setting.substr(equals + 1);
  Node value;
  if (!text.empty()) {
    YamlTree tree = ParseYaml(text);
    if (!tree.problems.empty()) return Bad(setting, tree.problems[0].message);
    value = std::move(tree.root);
  }
  Node* node = root;
  std::string path;  // of `node`
  for (const std::string& part : parts) {
    if (part.empty()) return Bad(setting, "an empty word in the key");
    Expand(path, node);
    absl::StrAppend(&path, path.empty() ? "" : ".", part);
    ASSIGN_OR_RETURN(node, Enter(node, part, setting));
  }
  SetLine(&value, node->line);
  *node = std::move(value);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> OverrideJob(const std::string& yaml,
                                        const std::vector<std::string>& settings) {
  YamlTree tree = ParseYaml(yaml);
  // A text that is no YAML goes on unchanged: the parser reports it with its lines.
  if (settings.empty() || !tree.problems.empty()) return yaml;
  for (const std::string& setting : settings) RETURN_IF_ERROR(Apply(setting, &tree.root));
  return EmitYaml(tree.root);
}

}  // namespace coxswain::config
