#include "controller/text/jinja/values/runtime.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace coxswain::data::jinja {

// Namespaces may hold each other in circles and in long chains; each is emptied while all live, so
// that nothing leaks and no release recurses.
Runtime::~Runtime() {
  for (const Value& space : namespaces_) {
    static_cast<Namespace*>(space.object())->attributes.Clear();
  }
}

Value Runtime::Fail(std::string_view kind, std::string message) {
  if (!failed()) failure_ = {std::string(kind), std::move(message)};
  return Value::Failed();
}

bool Runtime::Exceeded(const char* limit, int64_t value) {
  Fail("LimitError", absl::StrCat("the template needs more than ", value, " ", limit,
                                  ": the limit of a rendering"));
  return false;
}

Value Runtime::Text(std::string text, bool markup) {
  const auto size = static_cast<int64_t>(text.size());
  if (!Allocate(size + 64) || !Step(size / 16)) return Value::Failed();
  return Value::Text(std::move(text), markup);
}

Value Runtime::NewSequence(Kind kind, std::vector<Value> items) {
  const auto size = static_cast<int64_t>(items.size());
  if (!Allocate(size * 16 + 64) || !Step(size / 4)) return Value::Failed();
  return Checked(Value(kind, new List(std::move(items))));
}

Value Runtime::Checked(Value value) {
  if (value.depth() > kMaxValueDepth) {
    return Fail("RecursionError",
                absl::StrCat("a value is nested deeper than ", kMaxValueDepth, " levels"));
  }
  if (value.weight() > kMaxValueWeight) {
    return Fail("LimitError", absl::StrCat("a value holds more than ", kMaxValueWeight, " others"));
  }
  return value;
}

Value Runtime::New(Kind kind, std::unique_ptr<Object> object) {
  if (!Allocate(128)) return Value::Failed();
  return Checked(Value(kind, object.release()));
}

Value Runtime::NewDict(std::unique_ptr<Dict> dict) {
  const auto size = static_cast<int64_t>(dict->size());
  if (!Allocate(size * 64 + 64) || !Step(size)) return Value::Failed();
  return Checked(MakeDict(std::move(dict)));
}

Value Runtime::NewNamespace(std::unique_ptr<Namespace> space) {
  if (!Allocate(128)) return Value::Failed();
  namespaces_.emplace_back(Kind::kNamespace, space.release());
  return namespaces_.back();
}

bool Bind(Runtime& runtime, std::string_view function, Arguments& arguments,
          std::initializer_list<std::string_view> names, size_t required, Value* out) {
  if (arguments.positional.size() > names.size()) {
    runtime.Fail("TypeError", absl::StrCat(std::string(function), "() takes at most ", names.size(),
                                           " arguments (", arguments.positional.size(), " given)"));
    return false;
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    out[i] = std::move(arguments.positional[i]);
  }
  for (auto& [name, value] : arguments.named) {
    const auto* found = std::find(names.begin(), names.end(), name.text());
    if (found == names.end()) {
      runtime.Fail("TypeError",
                   absl::StrCat(std::string(function), "() got an unexpected keyword argument '",
                                std::string(name.text()), "'"));
      return false;
    }
    Value& place = out[found - names.begin()];
    if (!place.missing()) {
      runtime.Fail("TypeError",
                   absl::StrCat(std::string(function), "() got multiple values for argument '",
                                std::string(name.text()), "'"));
      return false;
    }
    place = std::move(value);
  }
  for (size_t i = 0; i < required; ++i) {
    if (!out[i].missing()) continue;
    runtime.Fail("TypeError", absl::StrCat(std::string(function), "() missing required argument '",
                                           std::string(names.begin()[i]), "'"));
    return false;
  }
  return true;
}

std::string UndefinedMessage(const Value& undefined) {
  const std::string name(undefined.text());
  std::string owner(TypeName(undefined.owner()));
  if (undefined.owner() == Kind::kNone) owner = "None";
  if (undefined.owner() != Kind::kNone) owner += " object";
  switch (static_cast<UndefinedBy>(undefined.detail())) {
    case UndefinedBy::kName:
      return absl::StrCat("'", name, "' is undefined");
    case UndefinedBy::kAttribute:
      return absl::StrCat("'", owner, "' has no attribute '", name, "'");
    case UndefinedBy::kElement:
      return absl::StrCat(owner, " has no element ", name);
    case UndefinedBy::kHint:
    case UndefinedBy::kUnsafe:
      return name;
  }
  return name;
}

Value FailUndefined(Runtime& runtime, const Value& undefined) {
  const bool is_unsafe = undefined.detail() == static_cast<uint8_t>(UndefinedBy::kUnsafe);
  return runtime.Fail(is_unsafe ? "SecurityError" : "UndefinedError", UndefinedMessage(undefined));
}

}  // namespace coxswain::data::jinja
