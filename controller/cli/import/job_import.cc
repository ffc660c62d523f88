#include "controller/cli/import/job_import.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/parser/expand_paths.h"
#include "common/config/parser/job_parser.h"
#include "common/config/schema/schema.h"
#include "common/foreign_keys/key_tables.h"
#include "common/status_macros.h"
#include "controller/cli/import/command_line.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/schema_row.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using foreign_keys::Tool;
using Json = nlohmann::ordered_json;

// A DNS-1123 label of the letters there are.
std::string JobName(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool fits = std::isalnum(static_cast<unsigned char>(lower)) != 0;
    if (fits) name += lower;
    if (!fits && !name.empty() && name.back() != '-') name += '-';
  }
  name = name.substr(0, 63);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "imported" : name;
}

// The keys of each map in the order of the schema; keys it lacks behind them.
Json InSchemaOrder(const Json& value, const std::string& rows) {
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) {
      list.push_back(InSchemaOrder(item, absl::StrCat(rows, "[]")));
    }
    return list;
  }
  if (!value.is_object()) return value;
  const std::string known = rows == "spec.test_datasets[]" ? std::string("spec.datasets[]") : rows;
  Json ordered = Json::object();
  const auto below = [&rows](const std::string& name) {
    return rows.empty() ? name : absl::StrCat(rows, ".", name);
  };
  for (const config::Key* key : config::Children(known)) {
    const std::string name(config::KeyName(*key));
    if (value.contains(name)) ordered[name] = InSchemaOrder(value[name], below(name));
  }
  for (const auto& [name, item] : value.items()) {
    if (!ordered.contains(name)) ordered[name] = InSchemaOrder(item, below(name));
  }
  return ordered;
}

std::string JobYaml(const Translation& t) {
  Json job = t.job();
  job["apiVersion"] = "coxswain/v1";
  job["kind"] = "FineTuneJob";
  job["metadata"]["name"] = t.job_name();
  return config::EmitBlockYaml(ToNode(InSchemaOrder(job, "")));
}

// Values that the import knows and the schema does not are those of features to come.
std::string Objection(const Translation& t, const std::string& path, const std::string& message) {
  const config::Key* row = SchemaRow(path);
  const bool to_come = row == nullptr || row->only_default ||
                       (!row->words.empty() && message.rfind("missing", 0) != 0);
  const std::string shown = path.rfind("spec.", 0) == 0 ? path.substr(5) : path;
  if (!to_come) return absl::StrCat(shown, ": ", message);
  const Json* value = path.find('[') == std::string::npos ? t.Find(path) : nullptr;
  const bool word = value != nullptr && value->is_string();
  return absl::StrCat(shown, word ? ": " : "", word ? value->get<std::string>() : "",
                      " is not supported yet");
}

// Once for all sources of data: "datasets[1].split" stands as "datasets[].split".
void AddInTheWay(std::vector<std::string>* list, std::string text) {
  for (size_t open = 0; (open = text.find("ets[", open)) != std::string::npos;) {
    open += 4;
    text.erase(open, text.find(']', open) - open);
  }
  if (std::find(list->begin(), list->end(), text) == list->end()) list->push_back(std::move(text));
}

std::vector<std::string> InTheWay(const Translation& t, const std::string& yaml,
                                  const std::string& base_dir) {
  std::vector<std::string> list;
  for (const ReportLine& line : t.report()) {
    if (line.outcome != Outcome::kRefused) continue;
    std::string text = line.ours;
    if (text.rfind("spec.", 0) == 0) text = text.substr(5);
    if (!text.empty()) text = absl::StrCat(text, " is not supported yet: ");
    AddInTheWay(&list, absl::StrCat(line.key, " (", text, line.reason, ")"));
  }
  for (const config::ConfigError& error :
       config::ParseJob(config::ExpandPaths(yaml, base_dir), base_dir).errors) {
    for (const std::string& path : t.WrittenBelow(error.path)) {
      std::string origin = t.OriginOf(path);
      if (origin.empty()) {
        origin = absl::StrCat("a default of ", std::string(foreign_keys::ToolName(t.tool())));
      }
      AddInTheWay(&list, absl::StrCat(origin, " (", Objection(t, path, error.message), ")"));
    }
  }
  return list;
}

void Translate(const ImportRequest& request, Translation* t) {
  switch (t->tool()) {
    case Tool::kAxolotl:
      return TranslateAxolotl(t, request.base_dir);
    case Tool::kLlamaFactory:
      return TranslateLlamaFactory(t, request.base_dir, request.dataset_dir);
    case Tool::kTrl:
      return TranslateTrl(t, request.base_dir);
  }
}

}  // namespace

bool IsForeign(const std::string& text) {
  if (IsCommandLine(text)) return true;
  const Node root = config::ParseYaml(text).root;
  if (root.kind != Node::Kind::kMap) return false;
  for (const config::Entry& entry : root.entries) {
    if (entry.key == "apiVersion" || entry.key == "kind" || entry.key == "spec") return false;
  }
  return DetectTool(root).ok();
}

absl::StatusOr<Imported> ImportJob(const ImportRequest& request) {
  Node root;
  if (IsCommandLine(request.text)) {
    ASSIGN_OR_RETURN(root, ParseCommandLine(request.text, request.base_dir));
  } else {
    config::YamlTree tree = config::ParseYaml(request.text);
    if (!tree.problems.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", tree.problems[0].line, ": ", tree.problems[0].message));
    }
    root = std::move(tree.root);
  }
  if (root.kind != Node::Kind::kMap) {
    return absl::InvalidArgumentError("expected a map of keys or a command line of TRL");
  }
  Imported imported;
  if (request.tool.has_value()) {
    imported.tool = *request.tool;
  } else {
    ASSIGN_OR_RETURN(imported.tool, DetectTool(root));
  }
  Translation t(imported.tool, root, JobName(request.name));
  Translate(request, &t);
  imported.yaml = JobYaml(t);
  imported.in_the_way = InTheWay(t, imported.yaml, request.base_dir);
  imported.report = t.report();
  std::stable_sort(imported.report.begin(), imported.report.end(),
                   [](const ReportLine& a, const ReportLine& b) {
                     return (a.line == 0 ? 1 << 30 : a.line) < (b.line == 0 ? 1 << 30 : b.line);
                   });
  return imported;
}

}  // namespace coxswain::job_import
