#include "controller/cli/import/axolotl_place.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "controller/cli/import/translation/data_source.h"
#include "controller/cli/import/translation/hub_name.h"

namespace coxswain::job_import {
namespace {

using config::Entry;
using config::Node;

// Builders of the datasets library that read the files of data_files.
constexpr std::string_view kFileBuilders[] = {"json", "csv", "parquet", "arrow", "text"};

bool IsFileBuilder(const std::string& path, const std::string& base_dir) {
  return IsHubName(path, base_dir) && std::find(std::begin(kFileBuilders), std::end(kFileBuilders),
                                                path) != std::end(kFileBuilders);
}

// `source` once for each item of its list `key`; itself where it has none.
std::vector<Node> OnceForEach(const Node& source, std::string_view key) {
  const Entry* list = ForeignConfig(source).Find(key);
  if (list == nullptr || list->value.items.size() < 2) return {source};
  std::vector<Node> copies;
  for (const Node& item : list->value.items) {
    copies.push_back(source);
    for (Entry& entry : copies.back().entries) {
      if (entry.key == key) entry.value = item;
    }
  }
  return copies;
}

}  // namespace

std::vector<Node> OnePlaceEach(const std::vector<Node>& sources, const std::string& base_dir) {
  std::vector<Node> each;
  for (const Node& source : sources) {
    ForeignConfig config(source);
    const bool files = IsFileBuilder(TextOf(config.Take("path")), base_dir);
    const std::vector<Node> copies = OnceForEach(source, files ? "data_files" : "name");
    each.insert(each.end(), copies.begin(), copies.end());
  }
  return each;
}

void TranslateAxolotlPlace(Translation* t, Scope* scope, const std::string& base_dir) {
  const std::string path = TextOf(scope->config.Take("path"));
  const std::vector<std::string> files = TextsOf(scope->config.Take("data_files"));
  SourcePlace place = SourcePlace::kLocal;
  if (IsFileBuilder(path, base_dir) && !files.empty()) {
    t->Note(*scope, Outcome::kLeftOut, "path", "the kind of a file is told by its content");
    place = SetSourcePath(t, *scope, "data_files", files[0], base_dir);
  } else {
    place = SetSourcePath(t, *scope, "path", path, base_dir);
    if (!files.empty()) {
      t->Set(*scope, "data_files", absl::StrCat(scope->target, "data_files"), files);
    }
  }
  for (const std::string& subset : TextsOf(scope->config.Take("name"))) {
    SetSubset(t, *scope, "name", subset, place);
  }
  if (const Node* folder = scope->config.Take("data_dir")) {
    SetDataDir(t, *scope, "data_dir", folder->text, place);
  }
  if (const Node* split = scope->config.Take("split")) SetSplit(t, *scope, "split", split->text);
  SetRevision(t, *scope, "revision", TextOf(scope->config.Take("revision")), place);
}

}  // namespace coxswain::job_import
