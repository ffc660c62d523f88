#include "common/config/named_sources.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace coxswain::config {
namespace {

Node* Find(Node* map, const std::string& key) {
  if (map == nullptr || map->kind != Node::Kind::kMap) return nullptr;
  for (Entry& entry : map->entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

bool ExistsBelow(const std::string& base_dir, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(base_dir) / text;
  std::error_code error;
  return path.is_absolute() && std::filesystem::exists(path, error);
}

// The key that the value belongs to: path, hub or url.
const char* KeyFor(const std::string& base_dir, const Node& value) {
  if (value.kind != Node::Kind::kScalar) return "path";
  if (value.text.starts_with("https://") || value.text.starts_with(kUploadScheme)) return "url";
  return ReadsAsHubId(value.text) && !ExistsBelow(base_dir, value.text) ? "hub" : "path";
}

void NameSource(const std::string& base_dir, Node* source) {
  if (source == nullptr || source->kind != Node::Kind::kMap) return;
  for (Entry& entry : source->entries) {
    if (entry.key == "path") entry.key = KeyFor(base_dir, entry.value);
  }
}

// A scalar is the short form of {path: scalar}.
void NameModel(const std::string& base_dir, Node* model) {
  if (model == nullptr) return;
  if (model->kind != Node::Kind::kScalar) return NameSource(base_dir, model);
  std::string key = KeyFor(base_dir, *model);
  if (key == "path") return;
  Node map;
  map.kind = Node::Kind::kMap;
  map.line = model->line;
  map.entries.push_back({std::move(key), model->line, *model});
  *model = std::move(map);
}

}  // namespace

bool ReadsAsHubId(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return false;
  if (text[0] == '.' || text.find('/', slash + 1) != std::string::npos) return false;
  for (const char* extension : {".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet", ".arrow",
                                ".gz", ".zst", ".txt", ".safetensors"}) {
    if (text.ends_with(extension)) return false;
  }
  return text.find_first_of("*?[~$: ") == std::string::npos;
}

void NameSources(const std::string& base_dir, Node* root) {
  Node* spec = Find(root, "spec");
  NameModel(base_dir, Find(spec, "base_model"));
  for (const char* list : {"datasets", "test_datasets"}) {
    Node* sources = Find(spec, list);
    if (sources == nullptr || sources->kind != Node::Kind::kList) continue;
    for (Node& source : sources->items) NameSource(base_dir, &source);
  }
}

}  // namespace coxswain::config
