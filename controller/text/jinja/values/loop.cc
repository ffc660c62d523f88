#include "controller/text/jinja/values/loop.h"

#include "controller/text/jinja/values/operators.h"

namespace coxswain::data::jinja {
namespace {

const Builtin kCycle = {"cycle", [](Runtime& runtime, const Value& self, Arguments& arguments) {
                          return static_cast<Loop*>(self.object())->Cycle(runtime, arguments);
                        }};
const Builtin kChanged = {"changed", [](Runtime& runtime, const Value& self, Arguments& arguments) {
                            return static_cast<Loop*>(self.object())->Changed(runtime, arguments);
                          }};

Value NoItem(const char* message) {
  return Value::Undefined(UndefinedBy::kHint, Value::Text(message));
}

}  // namespace

bool Loop::Next(Runtime& runtime, Value* item) {
  if (!ahead_.empty()) {
    *item = std::move(ahead_.front());
    ahead_.pop_front();
  } else if (pull_ == nullptr || !pull_(runtime, item)) {
    return false;
  }
  ++index_;
  before_ = std::move(current_);
  current_ = *item;
  return true;
}

void Loop::End() {
  pull_ = nullptr;
  recurse_ = nullptr;
  ahead_.clear();
  before_ = current_ = changed_ = Value();
}

bool Loop::Peek(Runtime& runtime) {
  if (!ahead_.empty()) return true;
  Value item;
  if (pull_ == nullptr || !pull_(runtime, &item)) return false;
  ahead_.push_back(std::move(item));
  return true;
}

Value Loop::Length(Runtime& runtime, int64_t minus) {
  if (length_ < 0) {
    Value item;
    while (pull_ != nullptr && pull_(runtime, &item)) {
      if (!runtime.Allocate(16)) return Value::Failed();
      ahead_.push_back(std::move(item));
    }
    if (runtime.failed()) return Value::Failed();
    length_ = index_ + 1 + static_cast<int64_t>(ahead_.size());
  }
  return Value::Int(length_ - minus);
}

Value Loop::Attribute(Runtime& runtime, const Value& self, std::string_view name) {
  if (name == "index0") return Value::Int(index_);
  if (name == "index") return Value::Int(index_ + 1);
  if (name == "first") return Value::Bool(index_ == 0);
  if (name == "last") {
    const bool more = Peek(runtime);
    return runtime.failed() ? Value::Failed() : Value::Bool(!more);
  }
  if (name == "length") return Length(runtime, 0);
  if (name == "revindex") return Length(runtime, index_);
  if (name == "revindex0") return Length(runtime, index_ + 1);
  if (name == "depth") return Value::Int(depth_ + 1);
  if (name == "depth0") return Value::Int(depth_);
  if (name == "previtem") return index_ == 0 ? NoItem("there is no previous item") : before_;
  if (name == "nextitem") {
    if (Peek(runtime)) return ahead_.front();
    return runtime.failed() ? Value::Failed() : NoItem("there is no next item");
  }
  if (name == "cycle") return Value(Kind::kFunction, new Function(self, &kCycle));
  if (name == "changed") return Value(Kind::kFunction, new Function(self, &kChanged));
  return Value();
}

Value Loop::Call(Runtime& runtime, Arguments& arguments) {
  Value iterable;
  if (!Bind(runtime, "loop", arguments, {"iterable"}, 1, &iterable)) return Value::Failed();
  if (recurse_ == nullptr) {
    return runtime.Fail("TypeError",
                        "The loop must have the 'recursive' marker to be called recursively.");
  }
  return recurse_(iterable, depth_ + 1);
}

Value Loop::Cycle(Runtime& runtime, Arguments& arguments) const {
  if (!arguments.named.empty()) {
    return runtime.Fail("TypeError", "cycle() got an unexpected keyword argument");
  }
  if (arguments.positional.empty()) {
    return runtime.Fail("TypeError", "no items for cycling given");
  }
  const auto count = static_cast<int64_t>(arguments.positional.size());
  const int64_t index = index_ < 0 ? count - 1 : index_ % count;
  return arguments.positional[static_cast<size_t>(index)];
}

Value Loop::Changed(Runtime& runtime, Arguments& arguments) {
  std::vector<Value> values(arguments.positional.begin(), arguments.positional.end());
  Value tuple = runtime.NewTuple(std::move(values));
  if (tuple.failed()) return tuple;
  if (!changed_.missing() && Equal(tuple, changed_)) return Value::Bool(false);
  if (pull_ != nullptr) changed_ = std::move(tuple);  // End breaks circles through this
  return Value::Bool(true);
}

}  // namespace coxswain::data::jinja
