// Filters over sequences that answer at once.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/functions/attribute_path.h"
#include "controller/text/jinja/functions/subscript.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

Value NothingIn(const char* hint) {
  return Value::Undefined(UndefinedBy::kHint, Value::Text(hint));
}

Value LengthFilter(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "len", arguments, {}, 0, nullptr)) return Value::Failed();
  if (self.is(Kind::kLoop)) return GetAttribute(runtime, self, Value::Text("length"), {});
  const int64_t length = LengthOf(self);
  if (length >= 0) return Value::Int(length);
  return runtime.Fail(
      "TypeError", absl::StrCat("object of type '", std::string(TypeName(self)), "' has no len()"));
}

Value Default(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_default", arguments, {"default_value", "boolean"}, 0, given)) {
    return Value::Failed();
  }
  const bool replaced = self.is(Kind::kUndefined) || (Truth(given[1]) && !Truth(self));
  if (!replaced) return self;
  return given[0].missing() ? Value::Text("") : given[0];
}

Value First(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "do_first", arguments, {}, 0, nullptr)) return Value::Failed();
  Cursor cursor;
  if (!cursor.Open(runtime, self)) return Value::Failed();
  Value item;
  if (cursor.Next(runtime, &item)) return item;
  return runtime.failed() ? Value::Failed() : NothingIn("No first item, sequence was empty.");
}

bool IsReversible(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is(Kind::kDict) ||
         value.is(Kind::kRange) || value.is(Kind::kView);
}

Value NotReversible(Runtime& runtime, const Value& value) {
  return runtime.Fail(
      "TypeError", absl::StrCat("'", std::string(TypeName(value)), "' object is not reversible"));
}

Value Last(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "do_last", arguments, {}, 0, nullptr)) return Value::Failed();
  if (self.is(Kind::kUndefined)) return NothingIn("No last item, sequence was empty.");
  if (!IsReversible(self)) return NotReversible(runtime, self);
  if (LengthOf(self) == 0) return NothingIn("No last item, sequence was empty.");
  if (!self.is(Kind::kDict) && !self.is(Kind::kView)) {
    return GetItem(runtime, self, Value::Int(-1));
  }
  std::vector<Value> items;
  return Collect(runtime, self, &items) ? items.back() : Value::Failed();
}

Value Join(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_join", arguments, {"d", "attribute"}, 0, given)) return Value::Failed();
  const Value separator = given[0].missing() ? Value::Text("") : Str(runtime, given[0]);
  const AttributePath path(given[1]);
  Cursor cursor;
  if (separator.failed() || !cursor.Open(runtime, self)) return Value::Failed();
  std::string out;
  Value item;
  bool first = true;
  while (cursor.Next(runtime, &item)) {
    if (!first) out.append(separator.text());
    first = false;
    const Value part = path.Get(runtime, item);
    if (part.failed() || !runtime.Step() || !AppendStr(runtime, part, &out)) {
      return Value::Failed();
    }
    if (static_cast<int64_t>(out.size()) > runtime.limits().value_bytes) {
      runtime.Exceeded("value_bytes", runtime.limits().value_bytes);
      return Value::Failed();
    }
  }
  return runtime.failed() ? Value::Failed() : runtime.Text(std::move(out));
}

Value ToList(Runtime& runtime, const Value& self, Arguments& arguments) {
  std::vector<Value> items;
  if (!Bind(runtime, "do_list", arguments, {}, 0, nullptr)) return Value::Failed();
  return Collect(runtime, self, &items) ? runtime.NewList(std::move(items)) : Value::Failed();
}

Value Reverse(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "do_reverse", arguments, {}, 0, nullptr)) return Value::Failed();
  if (self.is_string()) {
    return GetSlice(runtime, self, Value(), Value(), Value::Int(-1));
  }
  std::vector<Value> items;
  if (!IsIterable(self)) {
    return runtime.Fail("FilterArgumentError", "argument must be iterable");
  }
  if (!Collect(runtime, self, &items)) return Value::Failed();
  std::reverse(items.begin(), items.end());
  Value reversed = runtime.NewList(std::move(items));
  const bool lazy = IsReversible(self) || self.is(Kind::kUndefined);
  return reversed.failed() || !lazy ? reversed : MakeIterator(runtime, reversed);
}

// The items of an iterable and what they are sorted by.
bool CollectKeys(Runtime& runtime, const Value& iterable, const AttributePath& path,
                 std::vector<Value>* items, std::vector<Value>* keys) {
  if (!Collect(runtime, iterable, items)) return false;
  for (const Value& item : *items) {
    keys->push_back(path.Get(runtime, item));
    if (keys->back().failed()) return false;
  }
  return true;
}

// Several attributes with commas between them.
std::vector<AttributePath> Paths(const Value& attribute, bool ignores_case) {
  std::vector<AttributePath> paths;
  if (!attribute.is_string()) {
    paths.emplace_back(attribute, ignores_case);
    return paths;
  }
  std::string_view rest = attribute.text();
  while (true) {
    const size_t comma = rest.find(',');
    paths.emplace_back(Value::Text(std::string(rest.substr(0, comma))), ignores_case);
    if (comma == std::string_view::npos) return paths;
    rest = rest.substr(comma + 1);
  }
}

Value Sort(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0, given)) {
    return Value::Failed();
  }
  const std::vector<AttributePath> paths = Paths(given[2], !Truth(given[1]));
  std::vector<Value> items;
  std::vector<Value> keys;
  if (!Collect(runtime, self, &items)) return Value::Failed();
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      key.push_back(path.Get(runtime, item));
      if (key.back().failed()) return Value::Failed();
    }
    keys.push_back(runtime.NewList(std::move(key)));
    if (keys.back().failed()) return Value::Failed();
  }
  if (!SortByKeys(runtime, keys, Truth(given[0]), &items)) return Value::Failed();
  return runtime.NewList(std::move(items));
}

Value DictSort(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0, given)) {
    return Value::Failed();
  }
  const std::string by = given[1].is_string() ? std::string(given[1].text()) : "key";
  if (by != "key" && by != "value") {
    return runtime.Fail("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
  }
  if (self.is(Kind::kUndefined)) return FailUndefined(runtime, self);
  if (!self.is(Kind::kDict)) {
    return runtime.Fail("AttributeError", absl::StrCat("'", std::string(TypeName(self)),
                                                       "' object has no attribute 'items'"));
  }
  std::vector<Value> items;
  std::vector<Value> keys;
  const AttributePath path(Value::Int(by == "key" ? 0 : 1), !Truth(given[0]));
  const Value view = runtime.New(Kind::kView, std::make_unique<View>(self, ViewOf::kItems));
  if (view.failed() || !CollectKeys(runtime, view, path, &items, &keys)) return Value::Failed();
  if (!SortByKeys(runtime, keys, Truth(given[2]), &items)) return Value::Failed();
  return runtime.NewList(std::move(items));
}

template <bool smallest>
Value Extreme(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_min", arguments, {"case_sensitive", "attribute"}, 0, given)) {
    return Value::Failed();
  }
  const AttributePath path(given[1], !Truth(given[0]));
  std::vector<Value> items;
  std::vector<Value> keys;
  if (!CollectKeys(runtime, self, path, &items, &keys)) return Value::Failed();
  if (items.empty()) return NothingIn("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const bool better =
        smallest ? Less(runtime, keys[i], keys[best]) : Less(runtime, keys[best], keys[i]);
    if (runtime.failed()) return Value::Failed();
    if (better) best = i;
  }
  return items[best];
}

Value Sum(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_sum", arguments, {"attribute", "start"}, 0, given)) {
    return Value::Failed();
  }
  const AttributePath path(given[0]);
  Value total = given[1].missing() ? Value::Int(0) : given[1];
  if (total.is_string()) {
    return runtime.Fail("TypeError", "sum() can't sum strings [use ''.join(seq) instead]");
  }
  Cursor cursor;
  if (!cursor.Open(runtime, self)) return Value::Failed();
  Value item;
  while (cursor.Next(runtime, &item)) {
    const Value part = path.Get(runtime, item);
    if (part.failed()) return part;
    total = Arithmetic(runtime, Operator::kAdd, total, part);
    if (total.failed()) return total;
  }
  return runtime.failed() ? Value::Failed() : total;
}

Value GroupBy(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_groupby", arguments, {"attribute", "default", "case_sensitive"}, 1,
            given)) {
    return Value::Failed();
  }
  const AttributePath key_of(given[0], !Truth(given[2]), given[1]);
  const AttributePath name_of(given[0], false, given[1]);
  std::vector<Value> items;
  std::vector<Value> keys;
  if (!CollectKeys(runtime, self, key_of, &items, &keys)) return Value::Failed();
  if (!SortByKeys(runtime, keys, false, &items)) return Value::Failed();
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size();) {
    const Value key = key_of.Get(runtime, items[begin]);
    std::vector<Value> members;
    size_t at = begin;
    for (; at < items.size(); ++at) {
      const Value other = key_of.Get(runtime, items[at]);
      if (other.failed() || !runtime.Step(other.weight())) return Value::Failed();
      if (!Equal(other, key)) break;
      members.push_back(items[at]);
    }
    if (at == begin) members.push_back(items[at++]);  // a key that is not equal to itself: NaN
    const Value name = name_of.Get(runtime, items[begin]);
    Value list = runtime.NewList(std::move(members));
    if (name.failed() || list.failed()) return Value::Failed();
    groups.push_back(MakeTuple({name, std::move(list)}, kGroupTuple));
    begin = at;
  }
  return runtime.NewList(std::move(groups));
}

Value Slice(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_slice", arguments, {"slices", "fill_with"}, 1, given)) {
    return Value::Failed();
  }
  std::vector<Value> items;
  if (!Collect(runtime, self, &items)) return Value::Failed();
  if (!given[0].is_integer()) return runtime.Fail("TypeError", "slice: slices is no integer");
  const int64_t slices = given[0].integer();
  if (slices == 0) {
    return runtime.Fail("ZeroDivisionError", "integer division or modulo by zero");
  }
  const auto length = static_cast<int64_t>(items.size());
  const bool fills = !given[1].missing() && !given[1].is(Kind::kNone);
  std::vector<Value> out;
  int64_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < length % slices;
    const int64_t end = std::min(length, at + length / slices + (extra ? 1 : 0));
    std::vector<Value> part(items.begin() + at, items.begin() + end);
    if (fills && !extra) part.push_back(given[1]);
    at = end;
    out.push_back(runtime.NewList(std::move(part)));
    if (out.back().failed()) return Value::Failed();
  }
  const Value list = runtime.NewList(std::move(out));
  return list.failed() ? list : MakeIterator(runtime, list);
}

Value Attr(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value name;
  if (!Bind(runtime, "do_attr", arguments, {"name"}, 1, &name)) return Value::Failed();
  if (!name.is_string()) return runtime.Fail("TypeError", "attribute name must be string");
  if (self.is(Kind::kUndefined)) return FailUndefined(runtime, self);
  // Attributes alone: an item of a dict is none.
  if (self.is(Kind::kDict) && FindMethods(name.text()).of_dict == nullptr) {
    return Value::Undefined(UndefinedBy::kAttribute, name, self.kind());
  }
  return GetAttribute(runtime, self, name, FindMethods(name.text()));
}

constexpr Builtin kSequenceFilters[] = {
    {"length", &LengthFilter}, {"count", &LengthFilter},
    {"default", &Default},     {"d", &Default},
    {"first", &First},         {"last", &Last},
    {"join", &Join},           {"list", &ToList},
    {"reverse", &Reverse},     {"sort", &Sort},
    {"dictsort", &DictSort},   {"min", &Extreme<true>},
    {"max", &Extreme<false>},  {"sum", &Sum},
    {"groupby", &GroupBy},     {"slice", &Slice},
    {"attr", &Attr},
};

}  // namespace

std::span<const Builtin> SequenceFilters() { return kSequenceFilters; }

}  // namespace coxswain::data::jinja
