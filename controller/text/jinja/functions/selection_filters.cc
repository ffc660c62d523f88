// Lazy filters over sequences: map, select, reject and their kin.
#include "absl/strings/str_cat.h"
#include "controller/text/jinja/functions/attribute_path.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/operators.h"

namespace coxswain::data::jinja {
namespace {

// The levels of an iterator over `source` that keeps `arguments`.
int LevelsOver(const Value& source, const Arguments& arguments) {
  int levels = source.depth();
  for (const Value& value : arguments.positional) levels = std::max(levels, value.depth());
  for (const auto& [name, value] : arguments.named) levels = std::max(levels, value.depth());
  return levels + 1;
}

// Opens its source when it is first read: until then nothing can fail, as in Python.
struct LazyIterator : Iterator {
  explicit LazyIterator(Value of) : source(std::move(of)) {}

  bool NextOfSource(Runtime& runtime, Value* item) {
    if (!opened) {
      opened = true;
      // Filters ask whether there is anything before they look at their arguments.
      if (!Truth(source)) {
        source = Value();
        return false;
      }
      if (!Prepare(runtime) || !cursor.Open(runtime, source)) return false;
    }
    return !source.missing() && cursor.Next(runtime, item);
  }
  virtual bool Prepare(Runtime& runtime) { return true; }

  Value source;
  Cursor cursor;
  bool opened = false;
};

struct MapIterator : LazyIterator {
  MapIterator(Value of, Arguments with) : LazyIterator(std::move(of)), arguments(std::move(with)) {}

  bool Prepare(Runtime& runtime) override {
    if (arguments.positional.empty() && !arguments.named.empty() && HasAttribute()) {
      return PreparePath(runtime);
    }
    if (arguments.positional.empty()) {
      runtime.Fail("FilterArgumentError", "map requires a filter argument");
      return false;
    }
    const Value name = arguments.positional[0];
    filter = name.is_string() ? FindFilter(name.text()) : nullptr;
    if (filter == nullptr) {
      runtime.Fail("TemplateRuntimeError",
                   absl::StrCat("No filter named '",
                                name.is_string() ? std::string(name.text()) : "?", "'."));
      return false;
    }
    arguments.positional.erase(arguments.positional.begin());
    return true;
  }

  bool HasAttribute() const {
    for (const auto& [name, value] : arguments.named) {
      if (name.text() == "attribute") return true;
    }
    return false;
  }

  bool PreparePath(Runtime& runtime) {
    Value given[2];
    if (!Bind(runtime, "map", arguments, {"attribute", "default"}, 1, given)) return false;
    path = AttributePath(given[0], false, given[1]);
    return true;
  }

  bool Next(Runtime& runtime, Value* item) override {
    Value value;
    if (!NextOfSource(runtime, &value)) return false;
    if (filter != nullptr) {
      Arguments copy = arguments;
      *item = filter->call(runtime, value, copy);
    } else {
      *item = path.Get(runtime, value);
    }
    return !item->failed();
  }

  Arguments arguments;
  const Builtin* filter = nullptr;
  AttributePath path;
};

struct SelectIterator : LazyIterator {
  SelectIterator(Value of, Arguments with, bool keeps, bool by_attribute)
      : LazyIterator(std::move(of)),
        arguments(std::move(with)),
        keeps_true(keeps),
        has_attribute(by_attribute) {}

  bool Prepare(Runtime& runtime) override {
    auto& given = arguments.positional;
    if (has_attribute) {
      if (given.empty()) {
        runtime.Fail("FilterArgumentError", "Missing parameter for attribute name");
        return false;
      }
      path = AttributePath(given[0]);
      given.erase(given.begin());
    }
    if (given.empty()) return true;
    const Value name = given[0];
    test = name.is_string() ? FindTest(name.text()) : nullptr;
    if (test == nullptr) {
      runtime.Fail(
          "TemplateRuntimeError",
          absl::StrCat("No test named '", name.is_string() ? std::string(name.text()) : "?", "'."));
      return false;
    }
    given.erase(given.begin());
    return true;
  }

  bool Next(Runtime& runtime, Value* item) override {
    while (NextOfSource(runtime, item)) {
      const Value asked = has_attribute ? path.Get(runtime, *item) : *item;
      if (asked.failed()) return false;
      bool truth = Truth(asked);
      if (test != nullptr) {
        Arguments copy = arguments;
        const Value answer = test->call(runtime, asked, copy);
        if (answer.failed()) return false;
        truth = Truth(answer);
      }
      if (truth == keeps_true) return true;
    }
    return false;
  }

  Arguments arguments;
  const bool keeps_true;
  const bool has_attribute;
  const Builtin* test = nullptr;
  AttributePath path;
};

struct UniqueIterator : Iterator {
  bool Next(Runtime& runtime, Value* item) override {
    if (!opened && !cursor.Open(runtime, source)) return false;
    opened = true;
    while (cursor.Next(runtime, item)) {
      const Value key = path.Get(runtime, *item);
      if (key.failed() || !runtime.Step(key.weight()) || !runtime.Allocate(64)) return false;
      if (!Hashable(key)) {
        runtime.Fail("TypeError",
                     absl::StrCat("unhashable type: '", std::string(TypeName(key)), "'"));
        return false;
      }
      if (seen.Find(key) != nullptr) continue;
      seen.Set(key, Value::None());
      return true;
    }
    return false;
  }

  Value source;
  Cursor cursor;
  bool opened = false;
  AttributePath path;
  Dict seen;
};

struct BatchIterator : Iterator {
  bool Next(Runtime& runtime, Value* item) override {
    if (!opened && !cursor.Open(runtime, source)) return false;
    opened = true;
    std::vector<Value> batch;
    Value next;
    while ((size <= 0 || static_cast<int64_t>(batch.size()) < size) &&
           cursor.Next(runtime, &next)) {
      if (!runtime.Allocate(16)) return false;
      batch.push_back(std::move(next));
    }
    if (runtime.failed() || batch.empty()) return false;
    const bool fills = !fill.missing() && !fill.is(Kind::kNone);
    while (fills && static_cast<int64_t>(batch.size()) < size) {
      if (!runtime.Allocate(16) || !runtime.Step()) return false;
      batch.push_back(fill);
    }
    *item = runtime.NewList(std::move(batch));
    return !item->failed();
  }

  Value source;
  Cursor cursor;
  bool opened = false;
  int64_t size = 0;
  Value fill;
};

struct ItemsIterator : Iterator {
  bool Next(Runtime& runtime, Value* item) override {
    if (mapping.is(Kind::kUndefined)) return false;
    if (!mapping.is(Kind::kDict)) {
      runtime.Fail("TypeError", "Can only get item pairs from a mapping.");
      return false;
    }
    if (at >= mapping.dict().size()) return false;
    const Dict::Entry& entry = mapping.dict().entries()[at++];
    *item = runtime.NewTuple({entry.first, entry.second});
    return !item->failed();
  }

  Value mapping;
  size_t at = 0;
};

Value Map(Runtime& runtime, const Value& self, Arguments& arguments) {
  const int levels = LevelsOver(self, arguments);
  auto iterator = std::make_unique<MapIterator>(self, std::move(arguments));
  iterator->levels = levels;
  return runtime.New(Kind::kIterator, std::move(iterator));
}

template <bool keeps, bool by_attribute>
Value Select(Runtime& runtime, const Value& self, Arguments& arguments) {
  const int levels = LevelsOver(self, arguments);
  auto iterator = std::make_unique<SelectIterator>(self, std::move(arguments), keeps, by_attribute);
  iterator->levels = levels;
  return runtime.New(Kind::kIterator, std::move(iterator));
}

Value Unique(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_unique", arguments, {"case_sensitive", "attribute"}, 0, given)) {
    return Value::Failed();
  }
  auto iterator = std::make_unique<UniqueIterator>();
  iterator->source = self;
  iterator->path = AttributePath(given[1], !Truth(given[0]));
  iterator->levels = self.depth() + 1;
  return runtime.New(Kind::kIterator, std::move(iterator));
}

Value Batch(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_batch", arguments, {"linecount", "fill_with"}, 1, given)) {
    return Value::Failed();
  }
  if (!given[0].is_integer()) return runtime.Fail("TypeError", "batch: linecount is no integer");
  auto iterator = std::make_unique<BatchIterator>();
  iterator->source = self;
  iterator->size = given[0].integer();
  iterator->fill = given[1];
  iterator->levels = std::max(self.depth(), given[1].depth()) + 1;
  return runtime.New(Kind::kIterator, std::move(iterator));
}

Value Items(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "do_items", arguments, {}, 0, nullptr)) return Value::Failed();
  auto iterator = std::make_unique<ItemsIterator>();
  iterator->mapping = self;
  iterator->levels = self.depth() + 1;
  return runtime.New(Kind::kIterator, std::move(iterator));
}

constexpr Builtin kSelectionFilters[] = {
    {"map", &Map},
    {"select", &Select<true, false>},
    {"reject", &Select<false, false>},
    {"selectattr", &Select<true, true>},
    {"rejectattr", &Select<false, true>},
    {"unique", &Unique},
    {"batch", &Batch},
    {"items", &Items},
};

}  // namespace

std::span<const Builtin> SelectionFilters() { return kSelectionFilters; }

}  // namespace coxswain::data::jinja
