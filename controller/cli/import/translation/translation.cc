#include "controller/cli/import/translation/translation.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/config/schema/schema.h"
#include "common/foreign_keys/key_tables.h"
#include "controller/cli/import/translation/schema_row.h"

namespace coxswain::job_import {
namespace {

using config::Entry;
using config::Node;
using foreign_keys::Fate;
using foreign_keys::ForeignKey;
using Json = nlohmann::ordered_json;

std::string LastName(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}

// Whose values reach no report: hub_token, hf_hub_token, hf_use_auth_token.
bool IsSecret(std::string_view key) {
  return key == "token" || key.ends_with("hub_token") || key.ends_with("auth_token");
}

// Numbers that Python takes from a string or from a float with nothing behind the point.
Json AsRowWants(const std::string& path, Json value) {
  const config::Key* row = SchemaRow(path);
  if (row == nullptr) return value;
  const bool whole = row->type == config::Type::kInt || row->type == config::Type::kIntOrAuto;
  const bool number = whole || row->type == config::Type::kNumber;
  if (number && value.is_string()) {
    Node text;
    text.kind = Node::Kind::kScalar;
    text.text = value.get<std::string>();
    value = ToJson(text);
  }
  if (whole && value.is_number_float() && value.get<double>() == std::floor(value.get<double>())) {
    return static_cast<int64_t>(value.get<double>());
  }
  return value;
}

}  // namespace

Json* Translation::Place(const std::string& path) {
  Json* node = &job_;
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    std::string name = path.substr(start, dot - start);
    start = dot + 1;
    const size_t bracket = name.find('[');
    if (bracket == std::string::npos) {
      node = &(*node)[name];
      continue;
    }
    const size_t index = std::stoul(name.substr(bracket + 1));
    Json& list = (*node)[name.substr(0, bracket)];
    while (list.size() <= index) list.push_back(Json::object());
    node = &list[index];
  }
  return node;
}

const Json* Translation::Find(const std::string& path) const {
  const Json* node = &job_;
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    const auto found = node->find(path.substr(start, dot - start));
    if (found == node->end()) return nullptr;
    node = &*found;
    start = dot + 1;
  }
  return node;
}

void Translation::Set(const Scope& scope, std::string_view key, const std::string& path,
                      const Json& value, std::string_view reason) {
  const Entry* entry = scope.config.Find(key);
  const Json ours = AsRowWants(path, value);
  ReportLine line;
  line.line = entry == nullptr ? 0 : entry->line;
  line.key = absl::StrCat(scope.shown, std::string(key));
  line.value = entry == nullptr ? "" : Shown(entry->value);
  line.ours = absl::StrCat(path, ": ", Shown(ours));
  line.reason = std::string(reason);
  const bool same_value = entry != nullptr && (Shown(ours) == line.value ||
                                               ours == AsRowWants(path, ToJson(entry->value)));
  const bool same_name = LastName(path) == LastName(key);
  line.outcome = !same_value ? Outcome::kChanged : same_name ? Outcome::kTaken : Outcome::kRenamed;
  *Place(path) = ours;
  origins_[path] = {line.key, line.line};
  report_.push_back(std::move(line));
}

void Translation::Preset(const std::string& path, const Json& value, std::string_view reason) {
  if (origins_.count(path) > 0) return;
  *Place(path) = AsRowWants(path, value);
  origins_[path] = {};
  ReportLine line;
  line.outcome = Outcome::kDefault;
  line.ours = absl::StrCat(path, ": ", Shown(AsRowWants(path, value)));
  line.reason = std::string(reason);
  report_.push_back(std::move(line));
}

void Translation::Note(const Scope& scope, Outcome outcome, std::string_view key,
                       std::string_view reason, std::string_view ours) {
  const Entry* entry = scope.config.Find(key);
  ReportLine line;
  line.outcome = outcome;
  line.line = entry == nullptr ? 0 : entry->line;
  line.key = absl::StrCat(scope.shown, std::string(key));
  if (entry != nullptr) line.value = IsSecret(key) ? "(not shown)" : Shown(entry->value);
  line.ours = std::string(ours);
  line.reason = std::string(reason);
  // One key of theirs may be several of ours, all as the tool has them.
  const bool repeated = !report_.empty() && report_.back().outcome == outcome &&
                        report_.back().key == line.key && report_.back().line == line.line &&
                        report_.back().ours == line.ours;
  if (!repeated) report_.push_back(std::move(line));
}

bool Translation::Move(std::string_view key, const std::string& path) {
  const Node* value = Take(key);
  if (value == nullptr) return false;
  Set(key, path, ToJson(*value));
  return true;
}

void Translation::TranslateRow(Scope* scope, const Entry& entry) {
  const std::string_view name = entry.key;
  const ForeignKey* row = foreign_keys::FindForeignKey(tool_, absl::StrCat(scope->rows, entry.key));
  if (entry.value.kind == Node::Kind::kNull) {
    Note(*scope, Outcome::kLeftOut, name, "not set");
    return;
  }
  if (row == nullptr) {
    Note(*scope, Outcome::kDiffers, name,
         absl::StrCat("is no key of ", std::string(foreign_keys::ToolName(tool_)),
                      " that the import knows"));
    return;
  }
  if (row->fate == Fate::kCopied) {
    std::string path(row->ours);
    const std::string list = "spec.datasets[].";
    if (path.rfind(list, 0) == 0) path = scope->target + path.substr(list.size());
    Set(*scope, name, path, ToJson(entry.value));
    return;
  }
  if (row->fate != Fate::kNoEffect && IsOff(entry.value)) {
    Note(*scope, Outcome::kLeftOut, name, "off");
    return;
  }
  const Outcome outcome = row->fate == Fate::kRefused   ? Outcome::kRefused
                          : row->fate == Fate::kDiffers ? Outcome::kDiffers
                                                        : Outcome::kLeftOut;
  const bool leads = row->fate == Fate::kRefused;
  const std::string reason(row->reason.empty() ? "nothing here reads it" : row->reason);
  Note(*scope, outcome, name, reason, leads ? row->ours : "");
}

void Translation::TranslateRest(Scope* scope) {
  for (const Entry* entry : scope->config.Unread()) TranslateRow(scope, *entry);
  if (scope != &top_) return;
  for (const ForeignKey& row : foreign_keys::ForeignKeys(tool_)) {
    if (row.preset.empty() || row.name.find('[') != std::string_view::npos) continue;
    Preset(std::string(row.ours), ToJson(config::ParseYaml(std::string(row.preset)).root),
           absl::StrCat("the default of ", std::string(row.name)));
  }
}

std::string Translation::OriginOf(const std::string& path) const {
  const auto found = origins_.find(path);
  return found == origins_.end() ? "" : found->second.key;
}

std::vector<std::string> Translation::WrittenBelow(const std::string& path) const {
  const std::string prefix = absl::StrCat(path, ".");
  std::vector<std::string> paths;
  for (auto it = origins_.lower_bound(prefix); it != origins_.end(); ++it) {
    if (it->first.compare(0, prefix.size(), prefix) != 0) break;
    paths.push_back(it->first);
  }
  if (paths.empty()) paths.push_back(path);
  return paths;
}

}  // namespace coxswain::job_import
