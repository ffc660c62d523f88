#include "common/config/parser/stored_job.h"

#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/parser/build_spec.h"
#include "common/config/rules/rules.h"
#include "common/config/rules/source_rules.h"
#include "common/config/schema/schema.h"
#include "common/config/schema/value_reader.h"
#include "common/config/yaml_tree.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

std::string PlaceOf(const std::string& path, const std::string& key) {
  return path.empty() ? key : absl::StrCat(path, ".", key);
}

// As the tree of a file that holds `value`.
Node NodeOf(const Json& value) {
  Node node;
  if (value.is_object()) {
    node.kind = Node::Kind::kMap;
    for (const auto& [key, item] : value.items()) node.entries.push_back({key, 0, NodeOf(item)});
  } else if (value.is_array()) {
    node.kind = Node::Kind::kList;
    for (const Json& item : value) node.items.push_back(NodeOf(item));
  } else if (!value.is_null()) {
    node.kind = Node::Kind::kScalar;
    node.quoted = value.is_string();
    node.text = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return node;
}

// Null where the file does not set it.
const Node* Find(const Node* map, const std::string& key) {
  if (map == nullptr) return nullptr;
  for (const Entry& entry : map->entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

bool IsText(Type type) {
  return type == Type::kString || type == Type::kName || type == Type::kPath ||
         type == Type::kResume || type == Type::kTemplate;
}

// Walks the schema over what is stored; `file` follows along in the YAML that the user wrote.
class StoredWalker {
 public:
  explicit StoredWalker(ParsedJob* job) : job_(job) {}

  Json ReadMap(const Json& stored, const Node* file, const std::string& rows,
               const std::string& path) {
    Json out = Json::object();
    std::set<std::string> known;
    for (const Key* key : Children(rows)) {
      const std::string name(KeyName(*key));
      known.insert(name);
      const auto found = stored.find(name);
      const bool absent = found == stored.end() || (found->is_null() && !key->nullable);
      const std::string place = PlaceOf(path, name);
      out[name] = absent ? Default(*key, place) : Read(*key, *found, Find(file, name), place);
    }
    for (const auto& [name, value] : stored.items()) {
      if (known.count(name) > 0 || Find(file, name) == nullptr) continue;
      Error(PlaceOf(path, name),
            "is not known to this release; the job was accepted by another one");
    }
    return out;
  }

 private:
  void Error(const std::string& path, std::string message) {
    job_->errors.push_back({path, 0, std::move(message)});
  }

  Json Default(const Key& key, const std::string& path) {
    if (key.type == Type::kMap) {
      return ReadMap(Json::object(), nullptr, std::string(key.path), path);
    }
    if (key.def == nullptr) {
      Error(path, "is missing in the stored job");
      return nullptr;
    }
    if (key.type == Type::kMapList) return Json::array();
    if (key.type == Type::kStringMap) return Json::object();
    const char* value = key.before == nullptr ? key.def : key.before;
    Key lenient = key;
    lenient.range = {};
    return *ReadValue(lenient, ParseYaml(value).root, "/");
  }

  Json Read(const Key& key, const Json& stored, const Node* file, const std::string& path) {
    const bool map = key.type == Type::kMap || key.type == Type::kStringMap;
    if (map && !stored.is_object()) return Mistyped(path, stored);
    if (key.type == Type::kMap) return ReadMap(stored, file, std::string(key.path), path);
    if (key.type == Type::kStringMap) return ReadStringMap(stored, path);
    if (key.type == Type::kMapList) return ReadMapList(key, stored, file, path);
    if (IsText(key.type) && stored.is_string()) return stored;
    Key lenient = key;
    lenient.range = {};
    absl::StatusOr<Json> value = ReadValue(lenient, NodeOf(stored), "/");
    if (!value.ok()) {
      Error(path, std::string(value.status().message()));
      return nullptr;
    }
    if (key.only_default && *value != Default(key, path)) return Mistyped(path, stored);
    return *std::move(value);
  }

  Json ReadStringMap(const Json& stored, const std::string& path) {
    for (const auto& [name, value] : stored.items()) {
      if (!value.is_string()) return Mistyped(PlaceOf(path, name), value);
    }
    return stored;
  }

  Json ReadMapList(const Key& key, const Json& stored, const Node* file, const std::string& path) {
    Json list = Json::array();
    if (!stored.is_array()) return Mistyped(path, stored);
    const std::string rows = key.children_of.empty() ? absl::StrCat(std::string(key.path), "[]")
                                                     : std::string(key.children_of);
    for (size_t i = 0; i < stored.size(); ++i) {
      const std::string place = absl::StrCat(path, "[", i, "]");
      if (!stored[i].is_object()) return Mistyped(place, stored[i]);
      const bool written = file != nullptr && i < file->items.size();
      list.push_back(ReadMap(stored[i], written ? &file->items[i] : nullptr, rows, place));
    }
    return list;
  }

  Json Mistyped(const std::string& path, const Json& stored) {
    Error(path, absl::StrCat("is ", stored.dump(-1, ' ', false, Json::error_handler_t::replace),
                             " in the stored job, which this release cannot do"));
    return nullptr;
  }

  ParsedJob* job_;
};

// A job in FP8 is stored with fp8 or bfloat16 in place of `auto`. Where `auto` is stored, or no
// word, the job was accepted when `auto` meant bfloat16.
void KeepGather(Json* spec) {
  Json& precision = (*spec)["precision"];
  if (precision["compute"] != "fp8") return;
  Json& gather = precision["fp8"]["gather"];
  if (gather == "auto") gather = "bfloat16";
}

}  // namespace

ParsedJob ReadStoredJob(const std::string& effective_json, const std::string& yaml,
                        const std::string& base_dir, const ChosenResources& chosen) {
  const Json stored = Json::parse(effective_json, nullptr, /*allow_exceptions=*/false);
  if (!stored.is_object()) return ParseJob(yaml, base_dir, chosen);
  ParsedJob job;
  const YamlTree file = ParseYaml(yaml);
  Json effective = StoredWalker(&job).ReadMap(stored, &file.root, "", "");
  if (!job.errors.empty()) return job;
  KeepGather(&effective["spec"]);
  Validated places{.effective = std::move(effective), .errors = {}, .lines = {}};
  CheckSources(&places);
  job.errors = std::move(places.errors);
  if (!job.errors.empty()) return job;
  effective = std::move(places.effective);
  const Json& resources = effective["spec"]["resources"];
  const bool choosing = (resources["device"] == "auto" && chosen.device.has_value()) ||
                        (resources["workers"] == "auto" && chosen.workers.has_value());
  if (choosing) {
    Validated validated{.effective = std::move(effective), .errors = {}, .lines = {}};
    ApplyRules(chosen, &validated);
    effective = std::move(validated.effective);
    job.errors = std::move(validated.errors);
    if (!job.errors.empty()) return job;
  }
  ResolveDefaults(&effective);
  job.spec = BuildSpec(effective);
  job.effective_json = effective.dump(2);
  return job;
}

std::string WithTodaysDataRules(const std::string& effective_json) {
  Json job = Json::parse(effective_json);
  job["spec"]["data_rules"] = kDataRules;
  return job.dump(2);
}

}  // namespace coxswain::config
