#include "controller/text/jinja/functions/subscript.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/cycler.h"
#include "controller/text/jinja/values/loop.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

// Attributes that are no methods and no items. Missing: none.
Value PlainAttribute(Runtime& runtime, const Value& owner, std::string_view name) {
  switch (owner.kind()) {
    case Kind::kNamespace: {
      const Value* found = static_cast<Namespace*>(owner.object())->attributes.Find(name);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kLoop:
      return static_cast<Loop*>(owner.object())->Attribute(runtime, owner, name);
    case Kind::kCycler:
      return static_cast<Cycler*>(owner.object())->Attribute(runtime, owner, name);
    case Kind::kTuple:
      if (owner.detail() != kGroupTuple) return Value();
      if (name == "grouper") return owner.list().items[0];
      if (name == "list") return owner.list().items[1];
      return Value();
    case Kind::kBool:
    case Kind::kInt:
      if (name == "real" || name == "numerator") return Value::Int(owner.integer());
      if (name == "imag") return Value::Int(0);
      if (name == "denominator") return Value::Int(1);
      return Value();
    case Kind::kFloat:
      if (name == "real") return owner;
      if (name == "imag") return Value::Float(0);
      return Value();
    default:
      return Value();
  }
}

bool IsDunder(std::string_view name) {
  return name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
}

Value AttributeOrMethod(Runtime& runtime, const Value& owner, const Value& name,
                        const AttributeMethods& methods) {
  if (const Builtin* method = MethodOf(owner, methods); method != nullptr) {
    if (method->call == nullptr) return UnsafeAttribute(owner, name.text());
    return runtime.New(Kind::kFunction, std::make_unique<Function>(owner, method));
  }
  if (IsDunder(name.text())) return UnsafeAttribute(owner, name.text());
  return PlainAttribute(runtime, owner, name.text());
}

Value ItemAt(Runtime& runtime, const Value& owner, int64_t index) {
  const int64_t length = owner.is_string()     ? owner.string().Length()
                         : owner.is_sequence() ? static_cast<int64_t>(owner.list().items.size())
                                               : static_cast<Range*>(owner.object())->Length();
  if (index < 0) index += length;
  if (index < 0 || index >= length) return Value();
  if (owner.is_sequence()) return owner.list().items[static_cast<size_t>(index)];
  if (!owner.is_string()) return Value::Int(static_cast<Range*>(owner.object())->At(index));
  const std::string_view text = owner.text();
  if (owner.string().ascii()) {
    return runtime.Text(std::string(1, text[static_cast<size_t>(index)]), owner.markup());
  }
  if (!runtime.Step(index / 16)) return Value::Failed();
  const size_t begin = ByteOffset(text, index);
  const size_t end = ByteOffset(text, 1, begin);
  return runtime.Text(std::string(text.substr(begin, end - begin)), owner.markup());
}

// The item itself; missing: there is none, or the type has none.
Value PlainItem(Runtime& runtime, const Value& owner, const Value& key) {
  switch (owner.kind()) {
    case Kind::kDict: {
      if (!Hashable(key)) return Value();
      const Value* found = owner.dict().Find(key);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return key.is_integer() ? ItemAt(runtime, owner, key.integer()) : Value();
    default:
      return Value();
  }
}

struct SliceBounds {
  int64_t start;
  int64_t stop;
  int64_t step;
};

bool ReadBound(Runtime& runtime, const Value& bound, int64_t* value) {
  if (bound.is_integer()) {
    *value = bound.integer();
    return true;
  }
  runtime.Fail("TypeError", "slice indices must be integers or None or have an __index__ method");
  return false;
}

// Python's slice.indices(length); false after a failure.
bool ReadBounds(Runtime& runtime, const Value (&given)[3], int64_t length, SliceBounds* bounds) {
  const auto absent = [](const Value& v) { return v.missing() || v.is(Kind::kNone); };
  bounds->step = 1;
  if (!absent(given[2]) && !ReadBound(runtime, given[2], &bounds->step)) return false;
  if (bounds->step == 0) {
    runtime.Fail("ValueError", "slice step cannot be zero");
    return false;
  }
  bounds->step = std::clamp<int64_t>(bounds->step, -INT64_MAX, INT64_MAX);
  const bool down = bounds->step < 0;
  const int64_t lowest = down ? -1 : 0;
  const int64_t highest = down ? length - 1 : length;
  const auto read = [&](const Value& bound, int64_t if_absent, int64_t* value) {
    *value = if_absent;
    if (absent(bound)) return true;
    if (!ReadBound(runtime, bound, value)) return false;
    if (*value < 0) *value += length;
    *value = std::clamp(*value, lowest, highest);
    return true;
  };
  return read(given[0], down ? highest : lowest, &bounds->start) &&
         read(given[1], down ? lowest : highest, &bounds->stop);
}

int64_t CountOf(const SliceBounds& bounds) {
  return Range(bounds.start, bounds.stop, bounds.step).Length();
}

Value SliceText(Runtime& runtime, const Value& owner, const SliceBounds& bounds) {
  const std::string_view text = owner.text();
  const int64_t count = CountOf(bounds);
  std::string out;
  if (!runtime.Step(static_cast<int64_t>(text.size()) / 64)) return Value::Failed();
  if (count > 0 && bounds.step == 1) {
    const bool ascii = owner.string().ascii();
    const size_t begin = ascii ? static_cast<size_t>(bounds.start) : ByteOffset(text, bounds.start);
    const size_t end = ascii ? begin + static_cast<size_t>(count) : ByteOffset(text, count, begin);
    out = text.substr(begin, end - begin);
  } else if (count > 0) {
    std::vector<size_t> offsets;
    for (size_t at = 0; at < text.size(); at = ByteOffset(text, 1, at)) offsets.push_back(at);
    offsets.push_back(text.size());
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(bounds.start + i * bounds.step);
      out.append(text.substr(offsets[at], offsets[at + 1] - offsets[at]));
    }
  }
  return runtime.Text(std::move(out), owner.markup());
}

Value SliceList(Runtime& runtime, const Value& owner, const SliceBounds& bounds) {
  const int64_t count = CountOf(bounds);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    items.push_back(owner.list().items[static_cast<size_t>(bounds.start + i * bounds.step)]);
  }
  return owner.is(Kind::kList) ? runtime.NewList(std::move(items))
                               : runtime.NewTuple(std::move(items));
}

Value SliceRange(Runtime& runtime, const Range& range, const SliceBounds& bounds) {
  int64_t step = 0;
  if (__builtin_mul_overflow(range.step, bounds.step, &step)) step = range.step;
  return runtime.New(Kind::kRange,
                     std::make_unique<Range>(range.At(bounds.start), range.At(bounds.stop), step));
}

}  // namespace

const Builtin* MethodOf(const Value& owner, const AttributeMethods& methods) {
  switch (owner.kind()) {
    case Kind::kString:
      return methods.of_string;
    case Kind::kList:
      return methods.of_list;
    case Kind::kTuple:
      return methods.of_tuple;
    case Kind::kDict:
      return methods.of_dict;
    default:
      return nullptr;
  }
}

Value UnsafeAttribute(const Value& owner, std::string_view name) {
  return Value::Undefined(
      UndefinedBy::kUnsafe,
      Value::Text(absl::StrCat("access to attribute '", std::string(name), "' of '",
                               std::string(TypeName(owner)), "' object is unsafe.")));
}

Value GetAttribute(Runtime& runtime, const Value& owner, const Value& name,
                   const AttributeMethods& methods) {
  if (owner.is(Kind::kUndefined)) {
    return IsDunder(name.text()) ? UnsafeAttribute(owner, name.text())
                                 : FailUndefined(runtime, owner);
  }
  Value found = AttributeOrMethod(runtime, owner, name, methods);
  if (found.missing()) found = PlainItem(runtime, owner, name);
  if (!found.missing()) return found;
  return Value::Undefined(UndefinedBy::kAttribute, name, owner.kind());
}

Value GetItem(Runtime& runtime, const Value& owner, const Value& key) {
  if (owner.is(Kind::kUndefined)) return FailUndefined(runtime, owner);
  Value found = PlainItem(runtime, owner, key);
  if (!found.missing()) return found;
  if (key.is_string()) {
    found = AttributeOrMethod(runtime, owner, key, FindMethods(key.text()));
    if (!found.missing()) return found;
    return Value::Undefined(UndefinedBy::kAttribute, key, owner.kind());
  }
  return Value::Undefined(UndefinedBy::kElement, Value::Text(ReprForMessage(key)), owner.kind());
}

Value GetSlice(Runtime& runtime, const Value& owner, const Value& start, const Value& stop,
               const Value& step) {
  const Value given[3] = {start, stop, step};
  if (owner.is(Kind::kUndefined)) return FailUndefined(runtime, owner);
  const bool sliced = owner.is_string() || owner.is_sequence() || owner.is(Kind::kRange);
  if (owner.is(Kind::kDict)) return runtime.Fail("TypeError", "unhashable type: 'slice'");
  if (!sliced) {
    return runtime.Fail("TypeError", absl::StrCat("'", std::string(TypeName(owner)),
                                                  "' object is not subscriptable"));
  }
  int64_t length = 0;
  if (owner.is_string()) {
    length = owner.string().Length();
  } else if (owner.is_sequence()) {
    length = static_cast<int64_t>(owner.list().items.size());
  } else {
    length = static_cast<Range*>(owner.object())->Length();
  }
  SliceBounds bounds;
  if (!ReadBounds(runtime, given, length, &bounds)) return Value::Failed();
  if (owner.is_string()) return SliceText(runtime, owner, bounds);
  if (owner.is_sequence()) return SliceList(runtime, owner, bounds);
  return SliceRange(runtime, *static_cast<Range*>(owner.object()), bounds);
}

}  // namespace coxswain::data::jinja
