// Global functions: those of jinja2, raise_exception and strftime_now.
#include <time.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/template.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/cycler.h"
#include "controller/text/jinja/values/repr.h"

namespace coxswain::data::jinja {
namespace {

constexpr int64_t kLongestRange = 100'000;  // of jinja2's sandbox

Value MakeRange(Runtime& runtime, const Value&, Arguments& arguments) {
  const auto& given = arguments.positional;
  if (!arguments.named.empty()) {
    return runtime.Fail("TypeError", "range() takes no keyword arguments");
  }
  if (given.empty() || given.size() > 3) {
    return runtime.Fail("TypeError",
                        absl::StrCat("range expected 1 to 3 arguments, got ", given.size()));
  }
  for (const Value& value : given) {
    if (value.is_integer()) continue;
    return runtime.Fail("TypeError", absl::StrCat("'", std::string(TypeName(value)),
                                                  "' object cannot be interpreted as an integer"));
  }
  const int64_t start = given.size() > 1 ? given[0].integer() : 0;
  const int64_t stop = given.size() > 1 ? given[1].integer() : given[0].integer();
  const int64_t step = given.size() > 2 ? given[2].integer() : 1;
  if (step == 0) return runtime.Fail("ValueError", "range() arg 3 must not be zero");
  constexpr int64_t kEdge = 1LL << 60;  // beyond it lengths would overflow
  const bool far = std::max({std::abs(start / 2), std::abs(stop / 2), std::abs(step / 2)}) > kEdge;
  auto range = std::make_unique<Range>(start, stop, step);
  if (far || range->Length() > kLongestRange) {
    return runtime.Fail("OverflowError",
                        absl::StrCat("Range too big. The sandbox blocks ranges larger than "
                                     "MAX_RANGE (",
                                     kLongestRange, ")."));
  }
  return runtime.New(Kind::kRange, std::move(range));
}

// Adds what dict(...) was given to a dict; false after a failure.
bool FillDict(Runtime& runtime, Arguments& arguments, Dict* dict) {
  if (arguments.positional.size() > 1) {
    runtime.Fail("TypeError", absl::StrCat("dict expected at most 1 argument, got ",
                                           arguments.positional.size()));
    return false;
  }
  const auto set = [&](const Value& key, const Value& value) {
    if (!runtime.Step(key.weight()) || !runtime.Allocate(64)) return false;
    if (!Hashable(key)) {
      runtime.Fail("TypeError",
                   absl::StrCat("unhashable type: '", std::string(TypeName(key)), "'"));
      return false;
    }
    dict->Set(key, value);
    return true;
  };
  if (!arguments.positional.empty() && arguments.positional[0].is(Kind::kDict)) {
    for (const auto& [key, value] : arguments.positional[0].dict().entries()) {
      if (!set(key, value)) return false;
    }
  } else if (!arguments.positional.empty()) {
    std::vector<Value> pairs;
    if (!Collect(runtime, arguments.positional[0], &pairs)) return false;
    for (const Value& pair : pairs) {
      std::vector<Value> items;
      if (!Collect(runtime, pair, &items)) return false;
      if (items.size() != 2) {
        runtime.Fail("ValueError", absl::StrCat("dictionary update sequence element has length ",
                                                items.size(), "; 2 is required"));
        return false;
      }
      if (!set(items[0], items[1])) return false;
    }
  }
  for (const auto& [name, value] : arguments.named) {
    if (!set(name, value)) return false;
  }
  return true;
}

Value MakeDictionary(Runtime& runtime, const Value&, Arguments& arguments) {
  auto dict = std::make_unique<Dict>();
  if (!FillDict(runtime, arguments, dict.get())) return Value::Failed();
  return runtime.NewDict(std::move(dict));
}

Value MakeNamespace(Runtime& runtime, const Value&, Arguments& arguments) {
  auto space = std::make_unique<Namespace>();
  if (!FillDict(runtime, arguments, &space->attributes)) return Value::Failed();
  for (const auto& [name, value] : space->attributes.entries()) {
    if (!name.is_string() || name.text().substr(0, 1) != "_") continue;
    return runtime.Fail(
        "SecurityError",
        absl::StrCat("Chat templates cannot store underscore-prefixed attributes on a namespace, "
                     "but got ",
                     ReprForMessage(name), ". Please rename the attribute."));
  }
  return runtime.NewNamespace(std::move(space));
}

Value MakeCycler(Runtime& runtime, const Value&, Arguments& arguments) {
  if (!arguments.named.empty()) {
    return runtime.Fail("TypeError", "cycler() got an unexpected keyword argument");
  }
  if (arguments.positional.empty()) {
    return runtime.Fail("RuntimeError", "at least one item has to be provided");
  }
  std::vector<Value> items(arguments.positional.begin(), arguments.positional.end());
  Value tuple = runtime.NewTuple(std::move(items));
  if (tuple.failed()) return tuple;
  return runtime.New(Kind::kCycler, std::make_unique<Cycler>(std::move(tuple)));
}

Value MakeJoiner(Runtime& runtime, const Value&, Arguments& arguments) {
  Value separator;
  if (!Bind(runtime, "joiner", arguments, {"sep"}, 0, &separator)) return Value::Failed();
  if (separator.missing()) separator = Value::Text(", ");
  return runtime.New(Kind::kJoiner, std::make_unique<Joiner>(separator));
}

Value RaiseException(Runtime& runtime, const Value&, Arguments& arguments) {
  Value message;
  if (!Bind(runtime, "raise_exception", arguments, {"message"}, 1, &message)) {
    return Value::Failed();
  }
  const Value text = Str(runtime, message);
  return text.failed() ? text : runtime.Fail(kTemplateError, std::string(text.text()));
}

Value StrftimeNow(Runtime& runtime, const Value&, Arguments& arguments) {
  Value format;
  if (!Bind(runtime, "strftime_now", arguments, {"format"}, 1, &format)) return Value::Failed();
  if (!format.is_string()) {
    return runtime.Fail("TypeError", absl::StrCat("strftime() argument 1 must be str, not ",
                                                  std::string(TypeName(format))));
  }
  if (format.text().empty()) return format;
  // The trailing mark tells an empty answer from a buffer that is too small.
  const std::string with_mark = std::string(format.text()) + "|";
  if (with_mark.size() > 4096) {
    return runtime.Fail("LimitError", "strftime_now: a format above 4096 bytes");
  }
  tm civil = absl::ToTM(runtime.now(), runtime.time_zone());
  std::string text(with_mark.size() * 64 + 256, '\0');
  const size_t size = strftime(text.data(), text.size(), with_mark.c_str(), &civil);
  if (size == 0) return runtime.Fail("ValueError", "Invalid format string");
  text.resize(size - 1);
  return runtime.Text(std::move(text));
}

Value NoLipsum(Runtime& runtime, const Value&, Arguments&) {
  return runtime.Fail("NotSupported", "lipsum: a rendering is a function of its variables");
}

constexpr Builtin kGlobals[] = {
    {"range", &MakeRange},
    {"dict", &MakeDictionary},
    {"namespace", &MakeNamespace},
    {"cycler", &MakeCycler},
    {"joiner", &MakeJoiner},
    {"lipsum", &NoLipsum},
    {"raise_exception", &RaiseException},
    {"strftime_now", &StrftimeNow},
};

}  // namespace

std::span<const Builtin> Globals() { return kGlobals; }

}  // namespace coxswain::data::jinja
