#include "common/config/parser/expand_paths.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/config/local_path.h"
#include "common/config/schema/schema.h"
#include "common/config/yaml_tree.h"

namespace coxswain::config {
namespace {

bool IsNameByte(char c) { return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// Bytes of the name that `text` begins with.
size_t NameBytes(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size() && IsNameByte(text[bytes])) ++bytes;
  return bytes;
}

struct Replaced {
  std::string value;
  size_t bytes = 0;  // of the text that it stands for
};

std::optional<Replaced> Variable(std::string_view name, size_t bytes) {
  const char* const value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return Replaced{value, bytes};
}

// What the ~ or $ at the beginning of `text` stands for.
std::optional<Replaced> Expansion(std::string_view text) {
  if (text[0] == '~') {
    if (text.size() > 1 && text[1] != '/') return std::nullopt;
    return Variable("HOME", 1);
  }
  const bool braces = text[1] == '{';
  const std::string_view rest = text.substr(braces ? 2 : 1);
  const size_t bytes = NameBytes(rest);
  if (bytes == 0) return std::nullopt;
  if (!braces) return Variable(rest.substr(0, bytes), bytes + 1);
  if (bytes == rest.size() || rest[bytes] != '}') return std::nullopt;
  return Variable(rest.substr(0, bytes), bytes + 3);
}

class Expander {
 public:
  explicit Expander(const std::string& base_dir) : base_dir_(base_dir) {}
  bool changed() const { return changed_; }

  // `rows` is the schema path whose children are the map's keys.
  void ReadMap(std::string_view rows, Node* map) {
    for (Entry& entry : map->entries) {
      for (const Key* key : Children(rows)) {
        if (KeyName(*key) == entry.key) Read(*key, &entry.value);
      }
    }
  }

 private:
  void Read(const Key& key, Node* value) {
    const bool scalar = value->kind == Node::Kind::kScalar;
    if (key.type == Type::kMap) {
      if (!scalar) return ReadMap(key.path, value);
      const std::string inner =
          absl::StrCat(std::string(key.path), ".", std::string(key.shorthand));
      for (const Key* child : Children(key.path)) {
        if (child->path == inner) Read(*child, value);
      }
    } else if (key.type == Type::kMapList) {
      const std::string rows = key.children_of.empty() ? absl::StrCat(std::string(key.path), "[]")
                                                       : std::string(key.children_of);
      for (Node& item : value->items) ReadMap(rows, &item);
    } else if (scalar && (key.type == Type::kPath || key.type == Type::kResume ||
                          key.type == Type::kTemplate)) {
      std::string expanded = ExpandPath(value->text, base_dir_);
      changed_ = changed_ || expanded != value->text;
      value->text = std::move(expanded);
    }
  }

  const std::string& base_dir_;
  bool changed_ = false;
};

}  // namespace

std::string ExpandPath(const std::string& text, const std::string& base_dir) {
  if (FindExpansion(text) == std::string::npos) return text;
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(base_dir) / text, error)) return text;
  std::string done, left = text;
  for (size_t at; (at = FindExpansion(left)) != std::string::npos;) {
    if (left[at] == '~' && !done.empty()) break;  // no longer at the beginning
    const std::optional<Replaced> replaced = Expansion(std::string_view(left).substr(at));
    if (!replaced.has_value()) return text;
    absl::StrAppend(&done, left.substr(0, at), replaced->value);
    left.erase(0, at + replaced->bytes);
  }
  return done + left;
}

std::string ExpandPaths(const std::string& yaml, const std::string& base_dir) {
  YamlTree tree = ParseYaml(yaml);
  if (!tree.problems.empty()) return yaml;
  Expander expander(base_dir);
  expander.ReadMap("", &tree.root);
  return expander.changed() ? EmitYaml(tree.root) : yaml;
}

}  // namespace coxswain::config
