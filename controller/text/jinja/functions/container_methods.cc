// Methods of lists, tuples and dicts. Those that change their receiver are refused by the sandbox.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"

namespace coxswain::data::jinja {
namespace {

Value CountItem(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value wanted;
  if (!Bind(runtime, "count", arguments, {"value"}, 1, &wanted)) return Value::Failed();
  int64_t count = 0;
  for (const Value& item : self.list().items) {
    if (!runtime.Step(std::min(item.weight(), wanted.weight()))) return Value::Failed();
    count += Equal(item, wanted) ? 1 : 0;
  }
  return Value::Int(count);
}

Value IndexOfItem(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "index", arguments, {"value", "start", "stop"}, 1, given)) {
    return Value::Failed();
  }
  const std::vector<Value>& items = self.list().items;
  const auto length = static_cast<int64_t>(items.size());
  int64_t edges[2] = {0, length};
  for (int i = 0; i < 2; ++i) {
    if (given[i + 1].missing()) continue;
    if (!given[i + 1].is_integer()) {
      return runtime.Fail("TypeError",
                          "slice indices must be integers or have an __index__ method");
    }
    edges[i] = given[i + 1].integer();
    if (edges[i] < 0) edges[i] = std::max<int64_t>(edges[i] + length, 0);
  }
  for (int64_t i = edges[0]; i < std::min(edges[1], length); ++i) {
    const Value& item = items[static_cast<size_t>(i)];
    if (!runtime.Step(std::min(item.weight(), given[0].weight()))) return Value::Failed();
    if (Equal(item, given[0])) return Value::Int(i);
  }
  return runtime.Fail("ValueError", absl::StrCat(ReprForMessage(given[0]), " is not in list"));
}

Value CopyOf(Runtime& runtime, const Value& self, Arguments& arguments) {
  return Bind(runtime, "copy", arguments, {}, 0, nullptr) ? self : Value::Failed();
}

Value Get(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) {
    return runtime.Fail("TypeError", "dict.get() takes no keyword arguments");
  }
  Value given[2];
  if (!Bind(runtime, "get", arguments, {"key", "default"}, 1, given)) return Value::Failed();
  if (!runtime.Step(given[0].weight())) return Value::Failed();
  if (!Hashable(given[0])) {
    return runtime.Fail("TypeError",
                        absl::StrCat("unhashable type: '", std::string(TypeName(given[0])), "'"));
  }
  const Value* found = self.dict().Find(given[0]);
  if (found != nullptr) return *found;
  return given[1].missing() ? Value::None() : given[1];
}

template <ViewOf what>
Value ViewMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "view", arguments, {}, 0, nullptr)) return Value::Failed();
  return runtime.New(Kind::kView, std::make_unique<View>(self, what));
}

constexpr Builtin kListMethods[] = {
    {"count", &CountItem}, {"index", &IndexOfItem}, {"copy", &CopyOf},    {"append", nullptr},
    {"clear", nullptr},    {"pop", nullptr},        {"reverse", nullptr}, {"insert", nullptr},
    {"sort", nullptr},     {"extend", nullptr},     {"remove", nullptr},
};

constexpr Builtin kTupleMethods[] = {{"count", &CountItem}, {"index", &IndexOfItem}};

constexpr Builtin kDictMethods[] = {
    {"get", &Get},
    {"items", &ViewMethod<ViewOf::kItems>},
    {"keys", &ViewMethod<ViewOf::kKeys>},
    {"values", &ViewMethod<ViewOf::kValues>},
    {"copy", &CopyOf},
    {"clear", nullptr},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
};

}  // namespace

std::span<const Builtin> ListMethods() { return kListMethods; }
std::span<const Builtin> TupleMethods() { return kTupleMethods; }
std::span<const Builtin> DictMethods() { return kDictMethods; }

}  // namespace coxswain::data::jinja
