#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

struct DumpOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

void AppendUnit(unsigned unit, std::string* out) {
  char digits[16];
  std::snprintf(digits, sizeof(digits), "\\u%04x", unit);
  out->append(digits);
}

void AppendAsciiEscape(char32_t c, std::string* out) {
  if (c < 0x10000) {
    AppendUnit(static_cast<unsigned>(c), out);
    return;
  }
  AppendUnit(0xD800 + static_cast<unsigned>((c - 0x10000) >> 10), out);
  AppendUnit(0xDC00 + static_cast<unsigned>((c - 0x10000) & 0x3FF), out);
}

// The short escape of a character, or nullptr.
const char* ShortEscape(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      return nullptr;
  }
}

void AppendJsonString(std::string_view text, bool ensure_ascii, std::string* out) {
  out->push_back('"');
  size_t plain = 0;  // what is before `at` and stands for itself
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    const char* escape = ShortEscape(text[at]);
    const bool stands = escape == nullptr && c >= 0x20 && !(c >= 0x80 && ensure_ascii);
    if (stands) {
      ++at;
      continue;
    }
    out->append(text.substr(plain, at - plain));
    if (escape != nullptr) {
      out->append(escape);
      ++at;
    } else if (c < 0x20) {
      AppendUnit(c, out);
      ++at;
    } else {
      AppendAsciiEscape(NextCodePoint(text, &at), out);
    }
    plain = at;
  }
  out->append(text.substr(plain));
  out->push_back('"');
}

void AppendJsonFloat(double value, std::string* out) {
  if (std::isnan(value)) {
    out->append("NaN");
  } else if (std::isinf(value)) {
    out->append(value < 0 ? "-Infinity" : "Infinity");
  } else {
    AppendFloat(value, out);
  }
}

class JsonDumper {
 public:
  JsonDumper(Runtime& runtime, DumpOptions options)
      : runtime_(runtime), options_(std::move(options)) {}

  bool Dump(const Value& value, int level, std::string* out) {
    if (!runtime_.Step(value.is_string() ? value.weight() : 1)) return false;
    if (static_cast<int64_t>(out->size()) > runtime_.limits().value_bytes) {
      return runtime_.Exceeded("value_bytes", runtime_.limits().value_bytes);
    }
    switch (value.kind()) {
      case Kind::kString:
        AppendJsonString(value.text(), options_.ensure_ascii, out);
        return true;
      case Kind::kList:
      case Kind::kTuple:
        return DumpList(value.list().items, level, out);
      case Kind::kDict:
        return DumpDict(value.dict(), level, out);
      default:
        return DumpScalar(value, out);
    }
  }

 private:
  bool DumpScalar(const Value& value, std::string* out) {
    switch (value.kind()) {
      case Kind::kNone:
        out->append("null");
        return true;
      case Kind::kBool:
        out->append(value.integer() != 0 ? "true" : "false");
        return true;
      case Kind::kInt:
        absl::StrAppend(out, value.integer());
        return true;
      case Kind::kBigInt:
        out->append(value.text());
        return true;
      case Kind::kFloat:
        AppendJsonFloat(value.number(), out);
        return true;
      default:
        runtime_.Fail("TypeError", absl::StrCat("Object of type ", std::string(TypeName(value)),
                                                " is not JSON serializable"));
        return false;
    }
  }

  void NewLine(int level, std::string* out) {
    if (!options_.indented) return;
    out->push_back('\n');
    for (int i = 0; i < level; ++i) out->append(options_.indent);
  }

  bool DumpList(const std::vector<Value>& items, int level, std::string* out) {
    out->push_back('[');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out->append(options_.item_separator);
      NewLine(level + 1, out);
      if (!Dump(items[i], level + 1, out)) return false;
    }
    if (!items.empty()) NewLine(level, out);
    out->push_back(']');
    return true;
  }

  bool DumpKey(const Value& key, std::string* out) {
    if (key.is_string()) {
      AppendJsonString(key.text(), options_.ensure_ascii, out);
      return true;
    }
    if (!key.is_number() && !key.is(Kind::kNone) && !key.is(Kind::kBigInt)) {
      runtime_.Fail("TypeError", absl::StrCat("keys must be str, int, float, bool or None, not ",
                                              std::string(TypeName(key))));
      return false;
    }
    out->push_back('"');
    if (!DumpScalar(key, out)) return false;
    out->push_back('"');
    return true;
  }

  bool DumpDict(const Dict& dict, int level, std::string* out) {
    std::vector<Dict::Entry> sorted;
    if (options_.sort_keys && !Sort(dict, &sorted)) return false;
    const std::vector<Dict::Entry>& entries = options_.sort_keys ? sorted : dict.entries();
    out->push_back('{');
    bool first = true;
    for (const auto& [key, value] : entries) {
      if (!first) out->append(options_.item_separator);
      first = false;
      NewLine(level + 1, out);
      if (!DumpKey(key, out)) return false;
      out->append(options_.key_separator);
      if (!Dump(value, level + 1, out)) return false;
    }
    if (!entries.empty()) NewLine(level, out);
    out->push_back('}');
    return true;
  }

  bool Sort(const Dict& dict, std::vector<Dict::Entry>* sorted) {
    std::vector<Value> keys;
    for (const auto& entry : dict.entries()) keys.push_back(entry.first);
    const std::vector<Value> unsorted = keys;
    if (!SortByKeys(runtime_, unsorted, false, &keys)) return false;
    for (const Value& key : keys) sorted->emplace_back(key, *dict.Find(key));
    return true;
  }

  Runtime& runtime_;
  const DumpOptions options_;
};

// False after a failure.
bool ReadIndent(Runtime& runtime, const Value& indent, DumpOptions* options) {
  if (indent.missing() || indent.is(Kind::kNone)) return true;
  options->indented = true;
  options->item_separator = ",";
  if (indent.is_string()) {
    options->indent = indent.text();
  } else if (indent.is_integer()) {
    if (indent.integer() > 1000) {
      runtime.Fail("LimitError", "tojson: an indent above 1000 is not supported");
      return false;
    }
    options->indent.assign(static_cast<size_t>(std::max<int64_t>(indent.integer(), 0)), ' ');
  } else {
    runtime.Fail("TypeError", "tojson: indent must be None, an int or a str");
    return false;
  }
  return true;
}

bool ReadSeparators(Runtime& runtime, const Value& separators, DumpOptions* options) {
  if (separators.missing() || separators.is(Kind::kNone)) return true;
  const bool pair = separators.is_sequence() && separators.list().items.size() == 2 &&
                    separators.list().items[0].is_string() &&
                    separators.list().items[1].is_string();
  if (!pair) {
    runtime.Fail("TypeError", "tojson: separators must be two strings");
    return false;
  }
  options->item_separator = separators.list().items[0].text();
  options->key_separator = separators.list().items[1].text();
  return true;
}

}  // namespace

Value ToJson(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[4];
  if (!Bind(runtime, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0,
            given)) {
    return Value::Failed();
  }
  DumpOptions options;
  options.ensure_ascii = Truth(given[0]);
  options.sort_keys = Truth(given[3]);
  if (!ReadIndent(runtime, given[1], &options)) return Value::Failed();
  if (!ReadSeparators(runtime, given[2], &options)) return Value::Failed();
  std::string text;
  if (!JsonDumper(runtime, std::move(options)).Dump(self, 0, &text)) return Value::Failed();
  return runtime.Text(std::move(text));
}

}  // namespace coxswain::data::jinja
