#include "common/config/rules/validate.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/config_error.h"
#include "common/config/schema/schema.h"
#include "common/config/schema/value_reader.h"
#include "common/foreign_keys/key_tables.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

std::string Join(const std::string& path, const std::string& key) {
  return path.empty() ? key : absl::StrCat(path, ".", key);
}

// What to write instead of an unknown key: a near sibling, our name for another tool's key, the
// place where a key of this name belongs, or why another tool's key is not needed.
std::string UnknownKeyHint(const std::string& word, const std::vector<const Key*>& siblings) {
  std::vector<std::string_view> names;
  for (const Key* key : siblings) names.push_back(KeyName(*key));
  const std::string_view near = Suggest(word, names);
  if (!near.empty()) return absl::StrCat("; did you mean ", std::string(near), "?");
  std::string_view place = KnownAs(word);
  for (const Key& key : Schema()) {
    if (place.empty() && KeyName(key) == word) place = key.path;
  }
  if (place.find(": ") != std::string_view::npos) {
    return absl::StrCat("; here it is ", std::string(place));
  }
  if (!place.empty()) return absl::StrCat("; it belongs at ", std::string(place));
  if (const foreign_keys::ForeignKey* row = foreign_keys::FindForeignKey(word)) {
    return absl::StrCat("; leave it out: ", std::string(row->reason));
  }
  if (word == "<<") return "; merge keys are not supported, write the keys out";
  return "";
}

class Walker {
 public:
  Walker(const std::string& base_dir, Validated* result) : base_dir_(base_dir), result_(result) {}

  // `rows` is the schema path whose children are the map's keys, `path` the place in the file.
  Json ReadMap(const Node& node, const std::string& rows, const std::string& path) {
    const std::vector<const Key*> keys = Children(rows);
    if (node.kind != Node::Kind::kMap && node.kind != Node::Kind::kNull) {
      Error(path, node.line, absl::StrCat("expected a map, got ", Describe(node)));
      return Json::object();
    }
    const std::map<std::string, const Entry*> entries = FirstEntries(node, path, keys);
    Json out = Json::object();
    for (const Key* key : keys) {
      const std::string name(KeyName(*key));
      const auto found = entries.find(name);
      out[name] = found == entries.end() ? Default(*key, Join(path, name))
                                         : Read(*key, found->second->value, Join(path, name));
    }
    return out;
  }

 private:
  void Error(const std::string& path, int line, std::string message) {
    result_->errors.push_back({path, line, std::move(message)});
  }

  std::map<std::string, const Entry*> FirstEntries(const Node& node, const std::string& path,
                                                   const std::vector<const Key*>& keys) {
    std::set<std::string> known;
    for (const Key* key : keys) known.insert(std::string(KeyName(*key)));
    std::map<std::string, const Entry*> entries;
    for (const Entry& entry : node.entries) {
      const std::string full = Join(path, entry.key);
      const auto [first, inserted] = entries.emplace(entry.key, &entry);
      if (!inserted) {
        Error(full, entry.line,
              absl::StrCat("duplicate key; line ", first->second->line, " sets it already"));
      } else if (known.count(entry.key) == 0) {
        Error(full, entry.line, absl::StrCat("unknown key", UnknownKeyHint(entry.key, keys)));
      } else {
        result_->lines[full] = entry.line;
      }
    }
    return entries;
  }

  Json Default(const Key& key, const std::string& path) {
    if (key.type == Type::kMap && !HasRequired(key))
      return ReadMap(Node{}, std::string(key.path), path);
    if (key.def == nullptr) {
      Error(path, 0, absl::StrCat("missing; ", std::string(key.doc)));
      return nullptr;
    }
    return Read(key, ParseYaml(key.def).root, path, /*is_default=*/true);
  }

  static bool HasRequired(const Key& map) {
    for (const Key* child : Children(map.path)) {
      if (child->type == Type::kMap ? HasRequired(*child) : child->def == nullptr) return true;
    }
    return false;
  }

  Json Read(const Key& key, const Node& node, const std::string& path, bool is_default = false) {
    if (key.type == Type::kMap) {
      if (!key.shorthand.empty() && node.kind == Node::Kind::kScalar) {
        return ReadMap(Expand(key, node), std::string(key.path), path);
      }
      return ReadMap(node, std::string(key.path), path);
    }
    if (key.type == Type::kMapList) return ReadMapList(key, node, path);
    if (key.type == Type::kStringMap) return ReadStringMap(node, path);
    absl::StatusOr<Json> value = ReadValue(key, node, base_dir_);
    const int line = is_default ? 0 : node.line;
    if (!value.ok()) {
      Error(path, line, std::string(value.status().message()));
      return nullptr;
    }
    if (key.only_default && !is_default &&
        *value != Read(key, ParseYaml(key.def).root, path, true)) {
      Error(path, line,
            absl::StrCat(Describe(node), " is not supported yet; leave the key out or give ",
                         key.def));
    }
    return *std::move(value);
  }

  static Node Expand(const Key& key, const Node& scalar) {
    Node map;
    map.kind = Node::Kind::kMap;
    map.line = scalar.line;
    map.entries.push_back({std::string(key.shorthand), scalar.line, scalar});
    return map;
  }

  Json ReadMapList(const Key& key, const Node& node, const std::string& path) {
    Json list = Json::array();
    if (node.kind != Node::Kind::kList) {
      Error(path, node.line, absl::StrCat("expected a list of maps, got ", Describe(node)));
      return list;
    }
    const std::string rows = key.children_of.empty() ? absl::StrCat(std::string(key.path), "[]")
                                                     : std::string(key.children_of);
    for (size_t i = 0; i < node.items.size(); ++i) {
      list.push_back(ReadMap(node.items[i], rows, absl::StrCat(path, "[", i, "]")));
    }
    return list;
  }

  Json ReadStringMap(const Node& node, const std::string& path) {
    Json out = Json::object();
    if (node.kind != Node::Kind::kMap && node.kind != Node::Kind::kNull) {
      Error(path, node.line, absl::StrCat("expected a map, got ", Describe(node)));
      return out;
    }
    static const Key kText = {.path = "", .type = Type::kString};
    for (const Entry& entry : node.entries) {
      const std::string full = Join(path, entry.key);
      absl::StatusOr<Json> value = ReadValue(kText, entry.value, base_dir_);
      if (out.contains(entry.key)) {
        Error(full, entry.line, "duplicate key");
      } else if (!value.ok()) {
        Error(full, entry.value.line, std::string(value.status().message()));
      } else {
        out[entry.key] = *std::move(value);
      }
    }
    return out;
  }

  const std::string& base_dir_;
  Validated* result_;
};

}  // namespace

int LineOf(const Validated& job, const std::string& path) {
  const auto found = job.lines.find(path);
  return found == job.lines.end() ? 0 : found->second;
}

const Json& At(const Json& effective, std::string_view path) {
  static const Json kNothing;
  const Json* node = &effective;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    const auto found = node->find(std::string(path.substr(0, dot)));
    if (found == node->end()) return kNothing;
    node = &*found;
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return *node;
}

void AddError(const std::string& path, std::string message, Validated* job) {
  job->errors.push_back({path, LineOf(*job, path), std::move(message)});
}

Validated Validate(const Node& root, const std::string& base_dir) {
  Validated result;
  Walker walker(base_dir, &result);
  result.effective = walker.ReadMap(root, "", "");
  return result;
}

}  // namespace coxswain::config
