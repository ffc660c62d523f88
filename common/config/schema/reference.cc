#include "common/config/schema/reference.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/config/schema/schema.h"

namespace coxswain::config {
namespace {

constexpr const char* kHead = R"(# Job YAML reference

Generated from the table in `schema.cc`; a test keeps it current (`config_reference > common/config/REFERENCE.md`).
Unknown, duplicate and mutually exclusive keys, quoted numbers and values out of range are errors with their line.
Keys and values marked *later* are known and refused with "not supported yet". Paths are relative to the YAML file. `cox` replaces a leading `~/` and `$NAME` or `${NAME}` of an
environment variable in them. What exists is a path; elsewhere `org/name` reads as a Hub id in the place of a model, an adapter or a dataset.
)";

std::string WordsCell(const Key& key) {
  std::string text = fmt::format("`{}`", fmt::join(key.words, "` \\| `"));
  if (!key.count_key.empty()) text += fmt::format(" \\| `{{{}: k}}`", key.count_key);
  for (const auto& [short_form, word] : key.short_forms) {
    const bool supported = std::find(key.words.begin(), key.words.end(), word) != key.words.end();
    if (supported) text += fmt::format(", `{}`", short_form);
  }
  return text;
}

std::string TypeText(const Key& key) {
  switch (key.type) {
    case Type::kMap:
      return key.shorthand.empty() ? "map" : fmt::format("map, or its `{}`", key.shorthand);
    case Type::kMapList:
      return "list of maps";
    case Type::kStringMap:
      return "map of strings";
    case Type::kString:
      return "string";
    case Type::kName:
      return "DNS-1123 name";
    case Type::kWord:
      return WordsCell(key);
    case Type::kModules:
      return fmt::format("one or a list of paths, regular expressions, `{}`",
                         fmt::join(key.words, "` \\| `"));
    case Type::kStringList:
      return "list of strings";
    case Type::kWordList:
      return fmt::format("one or a list of `{}`", fmt::join(key.words, "` \\| `"));
    case Type::kNumberList:
      return "list of numbers";
    case Type::kBool:
      return "`true` \\| `false`";
    case Type::kInt:
      return "integer";
    case Type::kIntOrAuto:
      return "integer \\| `auto`";
    case Type::kNumber:
      return "number";
    case Type::kNumberOrAuto:
      return "number \\| `auto`";
    case Type::kNumberPair:
      return "two numbers";
    case Type::kSize:
      return "size (`5GB`, `500MiB`)";
    case Type::kPath:
      return "path";
    case Type::kResume:
      return "`auto` \\| `never` \\| job \\| path";
    case Type::kTemplate:
      return WordsCell(key) + " \\| path";
    case Type::kValueMap:
      return "map";
  }
  return "";
}

std::string Row(const Key& key) {
  std::string type = TypeText(key);
  const std::string range = RangeText(key.range);
  const bool number = key.type == Type::kInt || key.type == Type::kIntOrAuto ||
                      key.type == Type::kNumber || key.type == Type::kNumberOrAuto ||
                      key.type == Type::kNumberPair || key.type == Type::kNumberList;
  if (number && !range.empty()) type += ", " + range;
  if (!key.later.empty()) type += fmt::format("; later: {}", fmt::join(key.later, ", "));
  if (key.only_default) type += "; later: other values";
  std::string def = key.def == nullptr ? "required" : fmt::format("`{}`", key.def);
  return fmt::format("| `{}` | {} | {} | {} |\n", key.path, type, def, key.doc);
}

std::string Section(std::string_view title, std::string_view doc,
                    const std::vector<const Key*>& keys) {
  std::string rows;
  for (const Key* key : keys) {
    if (key->type == Type::kMap) continue;
    rows += Row(*key);
    if (key->type != Type::kMapList) continue;
    for (const Key* item : Children(fmt::format("{}[]", key->path))) rows += Row(*item);
  }
  std::string text = fmt::format("\n## {}\n\n", title);
  if (!doc.empty()) text += fmt::format("{}\n\n", doc);
  return text + "| key | type | default | meaning |\n|---|---|---|---|\n" + rows;
}

}  // namespace

std::string SchemaReference() {
  std::string page = kHead;
  page += Section("Top level", "", Children(""));
  for (const Key& key : Schema()) {
    if (key.type == Type::kMap) page += Section(key.path, key.doc, Children(key.path));
  }
  page += "\n## Exclusive keys\n\n";
  for (const auto& [first, second] : ExclusiveKeys())
    page += fmt::format("- `{}` and `{}`\n", first, second);
  return page;
}

}  // namespace coxswain::config
