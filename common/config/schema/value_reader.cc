#include "common/config/schema/value_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/config_error.h"
#include "common/config/local_path.h"
#include "common/foreign_keys/foreign_value.h"
#include "common/status_macros.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

absl::Status Bad(const std::string& message) { return absl::InvalidArgumentError(message); }

absl::Status Expected(const std::string& what, const Node& node) {
  if (node.kind == Node::Kind::kScalar && node.quoted && IsNumber(node.text)) {
    return Bad(
        absl::StrCat("expected ", what, ", got the string \"", node.text, "\"; remove the quotes"));
  }
  return Bad(absl::StrCat("expected ", what, ", got ", Describe(node)));
}

bool IsPlainScalar(const Node& node) { return node.kind == Node::Kind::kScalar && !node.quoted; }

// A scalar that YAML resolves to a string.
bool IsString(const Node& node) {
  return node.kind == Node::Kind::kScalar &&
         (node.quoted || (!IsNumber(node.text) && !IsBool(node.text)));
}

absl::Status ExpectedString(const std::string& what, const Node& node) {
  if (IsPlainScalar(node)) {
    return Bad(
        absl::StrCat("expected ", what, ", got ", Describe(node), "; quote it if it is meant"));
  }
  return Expected(what, node);
}

bool InRange(double value, const Range& range) {
  const bool low = range.min_open ? value > range.min : value >= range.min;
  const bool high = range.max_open ? value < range.max : value <= range.max;
  return low && high;
}

absl::Status CheckRange(double value, const Range& range, const Node& node) {
  if (InRange(value, range)) return absl::OkStatus();
  return Bad(absl::StrCat(node.text, " is out of range; allowed: ", RangeText(range)));
}

absl::StatusOr<Json> ReadInt(const Key& key, const Node& node) {
  const std::string what = key.type == Type::kIntOrAuto ? "an integer or auto" : "an integer";
  if (!IsPlainScalar(node) || !IsNumber(node.text)) return Expected(what, node);
  std::string text = node.text;
  if (text[0] == '+') text.erase(0, 1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    return Bad(absl::StrCat(node.text, " is out of range; allowed: ", RangeText(key.range)));
  }
  if (end != text.data() + text.size()) return Expected(what, node);
  RETURN_IF_ERROR(CheckRange(static_cast<double>(value), key.range, node));
  return Json(value);
}

absl::StatusOr<double> ReadDouble(const Key& key, const Node& node) {
  const std::string what = key.type == Type::kNumberOrAuto ? "a number or auto" : "a number";
  if (!IsPlainScalar(node) || !IsNumber(node.text)) return Expected(what, node);
  const double value = std::strtod(node.text.c_str(), nullptr);
  if (!std::isfinite(value)) return Bad(absl::StrCat(node.text, " is too large for a number"));
  RETURN_IF_ERROR(CheckRange(value, key.range, node));
  return value;
}

bool IsAuto(const Node& node) { return node.kind == Node::Kind::kScalar && node.text == "auto"; }

absl::StatusOr<Json> ReadNumber(const Key& key, const Node& node) {
  if (key.type == Type::kNumberOrAuto && IsAuto(node)) return Json("auto");
  ASSIGN_OR_RETURN(const double value, ReadDouble(key, node));
  return Json(value);
}

absl::StatusOr<Json> ReadPair(const Key& key, const Node& node) {
  if (node.kind != Node::Kind::kList || node.items.size() != 2) {
    return Expected("a list of two numbers", node);
  }
  Json pair = Json::array();
  for (const Node& item : node.items) {
    ASSIGN_OR_RETURN(const double value, ReadDouble(key, item));
    pair.push_back(value);
  }
  return pair;
}

absl::StatusOr<Json> ReadNumbers(const Key& key, const Node& node) {
  if (node.kind != Node::Kind::kList) return Expected("a list of numbers", node);
  Json list = Json::array();
  for (const Node& item : node.items) {
    ASSIGN_OR_RETURN(const double value, ReadDouble(key, item));
    list.push_back(value);
  }
  return list;
}

absl::StatusOr<Json> ReadBool(const Node& node) {
  if (!IsPlainScalar(node) || !IsBool(node.text)) {
    return Expected("true or false", node);
  }
  return Json(node.text[0] == 't' || node.text[0] == 'T');
}

std::string WordsText(const Key& key) { return fmt::format("{}", fmt::join(key.words, ", ")); }

// {every: k} of a key whose count_key is "every".
absl::StatusOr<Json> ReadCount(const Key& key, const Node& node) {
  const std::string name(key.count_key);
  if (node.entries.size() != 1 || node.entries[0].key != name) {
    return Bad(absl::StrCat("expected a map {", name, ": count}"));
  }
  ASSIGN_OR_RETURN(Json count, ReadInt(key, node.entries[0].value));
  return Json{{name, std::move(count)}};
}

absl::StatusOr<Json> ReadWord(const Key& key, const Node& node) {
  std::string one_of = absl::StrCat(key.words.size() > 1 ? "one of " : "", WordsText(key));
  if (!key.count_key.empty()) {
    if (node.kind == Node::Kind::kMap) return ReadCount(key, node);
    absl::StrAppend(&one_of, ", {", std::string(key.count_key), ": count}");
  }
  if (node.kind != Node::Kind::kScalar) return Expected(one_of, node);
  std::string text = node.text;
  for (const auto& [short_form, word] : key.short_forms) {
    if (text == short_form) text = word;
  }
  if (std::find(key.words.begin(), key.words.end(), text) != key.words.end()) return Json(text);
  const bool later = std::find(key.later.begin(), key.later.end(), text) != key.later.end();
  if (later) return Bad(absl::StrCat(text, " is not supported yet; use ", one_of));
  if (const auto* value = foreign_keys::FindForeignValue(key.path, text)) {
    return Bad(absl::StrCat("expected ", one_of, ", got ", Describe(node), "; that is ",
                            std::string(value->ours), " here"));
  }
  std::vector<std::string_view> known = key.words;
  known.insert(known.end(), key.later.begin(), key.later.end());
  const std::string_view near = Suggest(text, known);
  const std::string hint =
      near.empty() ? "" : absl::StrCat("; did you mean ", std::string(near), "?");
  return Bad(absl::StrCat("expected ", one_of, ", got ", Describe(node), hint));
}

// A list of one where it is one word.
absl::StatusOr<Json> ReadWords(const Key& key, const Node& node) {
  Json list = Json::array();
  if (node.kind != Node::Kind::kList) {
    ASSIGN_OR_RETURN(Json word, ReadWord(key, node));
    list.push_back(std::move(word));
    return list;
  }
  const bool may_be_empty = key.def != nullptr && std::string_view(key.def) == "[]";
  if (node.items.empty() && !may_be_empty) return Expected("at least one word", node);
  for (const Node& item : node.items) {
    ASSIGN_OR_RETURN(Json word, ReadWord(key, item));
    if (std::find(list.begin(), list.end(), word) != list.end()) {
      return Bad(absl::StrCat(item.text, " is named twice"));
    }
    list.push_back(std::move(word));
  }
  return list;
}

// What no name of one part holds: a path or a regular expression is looked up in the model later.
absl::StatusOr<Json> ReadModule(const Key& key, const Node& node) {
  const bool looked_up = node.text.find_first_of(".()[]*|\\^$+?{}") != std::string::npos;
  if (node.kind == Node::Kind::kScalar && looked_up && IsString(node)) return Json(node.text);
  return ReadWord(key, node);
}

absl::StatusOr<Json> ReadModules(const Key& key, const Node& node) {
  Json list = Json::array();
  if (node.kind == Node::Kind::kScalar) {
    ASSIGN_OR_RETURN(Json word, ReadModule(key, node));
    list.push_back(std::move(word));
    return list;
  }
  if (node.kind != Node::Kind::kList) return Expected("a name or a list of names", node);
  for (const Node& item : node.items) {
    ASSIGN_OR_RETURN(Json word, ReadModule(key, item));
    if (std::find(list.begin(), list.end(), word) != list.end()) {
      return Bad(absl::StrCat(item.text, " is named twice"));
    }
    list.push_back(std::move(word));
  }
  if (list.size() > 1 && std::find(list.begin(), list.end(), "all-linear") != list.end()) {
    return Bad("all-linear stands alone; drop the other names");
  }
  return list;
}

absl::StatusOr<Json> ReadString(const std::string& what, const Node& node) {
  if (!IsString(node)) return ExpectedString(what, node);
  return Json(node.text);
}

absl::StatusOr<Json> ReadStringList(const Node& node) {
  if (node.kind != Node::Kind::kList) return Expected("a list of strings", node);
  Json list = Json::array();
  for (const Node& item : node.items) {
    ASSIGN_OR_RETURN(Json text, ReadString("a string", item));
    list.push_back(std::move(text));
  }
  return list;
}

// RFC 1123 label: lower-case letters, digits and inner hyphens, at most 63.
absl::StatusOr<Json> ReadName(const Node& node) {
  ASSIGN_OR_RETURN(Json name, ReadString("a name", node));
  const std::string& text = node.text;
  bool valid = !text.empty() && text.size() <= 63 && text.front() != '-' && text.back() != '-';
  for (char c : text)
    valid = valid && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-');
  if (!valid) {
    return Bad(absl::StrCat("\"", text, "\" is not a DNS-1123 name: 1 to 63 lower-case letters, ",
                            "digits and hyphens, first and last a letter or digit"));
  }
  return name;
}

absl::StatusOr<Json> ReadSize(const Key& key, const Node& node) {
  static constexpr std::pair<const char*, double> kUnits[] = {{"", 1},
                                                              {"B", 1},
                                                              {"KB", 1e3},
                                                              {"MB", 1e6},
                                                              {"GB", 1e9},
                                                              {"TB", 1e12},
                                                              {"KiB", 1024.0},
                                                              {"MiB", 1048576.0},
                                                              {"GiB", 1073741824.0},
                                                              {"TiB", 1099511627776.0}};
  const std::string what = "a size such as 5GB or 500MiB";
  if (node.kind != Node::Kind::kScalar) return Expected(what, node);
  if (node.quoted && IsNumber(node.text)) return Expected(what, node);
  char* end = nullptr;
  const double amount = std::strtod(node.text.c_str(), &end);
  if (end == node.text.c_str() || !std::isdigit(static_cast<unsigned char>(node.text[0]))) {
    return Expected(what, node);
  }
  while (*end == ' ') ++end;
  for (const auto& [unit, bytes] : kUnits) {
    if (std::string(end) != unit) continue;
    RETURN_IF_ERROR(CheckRange(amount * bytes, key.range, node));
    return Json(static_cast<int64_t>(amount * bytes));
  }
  return Bad(absl::StrCat("\"", node.text, "\": unknown unit \"", end,
                          "\"; use KB, MB, GB, TB, KiB, MiB, GiB or TiB"));
}

// <job>[:step], a path (anything with a slash, a leading dot or ~, or a $), or one of two words.
absl::StatusOr<Json> ReadResume(const Node& node, const std::string& base_dir) {
  const std::string what = "auto, never, <job>[:step] or a path";
  if (!IsString(node)) return ExpectedString(what, node);
  const std::string& text = node.text;
  if (text.find('/') != std::string::npos || text[0] == '.' ||
      FindExpansion(text) != std::string::npos) {
    ASSIGN_OR_RETURN(std::string path, ResolveLocalPath(text, base_dir, PathUse::kRead));
    return Json(std::move(path));
  }
  const size_t colon = text.find(':');
  bool valid = colon != 0 && !text.empty();
  for (char c : text.substr(0, colon)) {
    valid = valid && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-');
  }
  if (colon != std::string::npos) {
    const std::string step = text.substr(colon + 1);
    valid = valid && !step.empty() && step.size() <= 15 &&
            std::all_of(step.begin(), step.end(), [](unsigned char c) { return std::isdigit(c); });
  }
  if (!valid) return Expected(what, node);
  return Json(text);
}

// One of the key's words, or a path: a text with a slash or an ending, or a $.
absl::StatusOr<Json> ReadTemplate(const Key& key, const Node& node, const std::string& base_dir) {
  const std::string& text = node.text;
  if (text.find("{{") != std::string::npos || text.find("{%") != std::string::npos) {
    return Bad(
        "is the text of a template; write it to a file and give its path, e.g. ./chat.jinja");
  }
  const bool is_path =
      text.find_first_of("/.") != std::string::npos || FindExpansion(text) != std::string::npos;
  if (node.kind != Node::Kind::kScalar || !is_path) {
    absl::StatusOr<Json> word = ReadWord(key, node);
    if (word.ok()) return word;
    return Bad(absl::StrCat(word.status().message(), ", or the path of a .jinja file"));
  }
  ASSIGN_OR_RETURN(std::string path, ResolveLocalPath(text, base_dir, PathUse::kRead));
  return Json(std::move(path));
}

// As YAML resolves it.
Json PlainValue(const Node& node) {
  Json value;
  switch (node.kind) {
    case Node::Kind::kNull:
      break;
    case Node::Kind::kScalar:
      value = node.text;
      if (node.quoted || !(IsNumber(node.text) || IsBool(node.text))) break;
      value = IsBool(node.text) ? Json(node.text[0] == 't' || node.text[0] == 'T')
                                : Json(std::strtod(node.text.c_str(), nullptr));
      if (node.text.find_first_not_of("-0123456789") == std::string::npos) {
        value = static_cast<int64_t>(std::strtoll(node.text.c_str(), nullptr, 10));
      }
      break;
    case Node::Kind::kList:
      value = Json::array();
      for (const Node& item : node.items) value.push_back(PlainValue(item));
      break;
    case Node::Kind::kMap:
      value = Json::object();
      for (const Entry& entry : node.entries) value[entry.key] = PlainValue(entry.value);
  }
  return value;
}

absl::StatusOr<Json> ReadTyped(const Key& key, const Node& node, const std::string& base_dir) {
  switch (key.type) {
    case Type::kString:
      return ReadString("a string", node);
    case Type::kName:
      return ReadName(node);
    case Type::kWord:
      return ReadWord(key, node);
    case Type::kModules:
      return ReadModules(key, node);
    case Type::kStringList:
      return ReadStringList(node);
    case Type::kWordList:
      return ReadWords(key, node);
    case Type::kNumberList:
      return ReadNumbers(key, node);
    case Type::kBool:
      return ReadBool(node);
    case Type::kIntOrAuto:
      if (IsAuto(node)) return Json("auto");
      return ReadInt(key, node);
    case Type::kInt:
      return ReadInt(key, node);
    case Type::kNumber:
    case Type::kNumberOrAuto:
      return ReadNumber(key, node);
    case Type::kNumberPair:
      return ReadPair(key, node);
    case Type::kSize:
      return ReadSize(key, node);
    case Type::kPath: {
      if (!IsString(node)) return ExpectedString("a path", node);
      ASSIGN_OR_RETURN(std::string path, ResolveLocalPath(node.text, base_dir, key.path_use));
      return Json(std::move(path));
    }
    case Type::kResume:
      return ReadResume(node, base_dir);
    case Type::kTemplate:
      return ReadTemplate(key, node, base_dir);
    case Type::kValueMap:
      if (node.kind != Node::Kind::kMap) return Expected("a map", node);
      return PlainValue(node);
    case Type::kMap:
    case Type::kMapList:
    case Type::kStringMap:
      break;
  }
  return absl::InternalError("maps are read key by key");
}

}  // namespace

absl::StatusOr<Json> ReadValue(const Key& key, const Node& node, const std::string& base_dir) {
  if (node.kind == Node::Kind::kNull) {
    if (key.nullable) return Json(nullptr);
    if (key.def != nullptr) {
      return Bad(
          absl::StrCat("null is not a value here; leave the key out for the default ", key.def));
    }
  }
  return ReadTyped(key, node, base_dir);
}

std::string Describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kList:
      return absl::StrCat("a list of ", node.items.size());
    case Node::Kind::kMap:
      return "a map";
    case Node::Kind::kScalar:
      break;
  }
  if (!node.quoted && IsNumber(node.text)) return absl::StrCat("the number ", node.text);
  return absl::StrCat("\"", node.text, "\"");
}

bool IsBool(const std::string& text) {
  return text == "true" || text == "false" || text == "True" || text == "False" || text == "TRUE" ||
         text == "FALSE";
}

// The YAML 1.2 core schema's decimal integers and floats; 010, 0x10, .inf and 1_000 are none.
bool IsNumber(const std::string& text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t start = i;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) ++i;
    return i - start;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  const size_t first = i;
  size_t count = digits();
  if (count > 1 && text[first] == '0') return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    count += digits();
  }
  if (count == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

}  // namespace coxswain::config
