// The services of a rendering for builtins: to fail, to charge for new values, to call back.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_RUNTIME_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_RUNTIME_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "controller/text/jinja/values/containers.h"
#include "controller/text/jinja/values/limits.h"
#include "controller/text/jinja/values/value.h"

namespace coxswain::data::jinja {

// Arguments of a call: by position, then by name (a string and its value).
struct Arguments {
  absl::InlinedVector<Value, 4> positional;
  absl::InlinedVector<std::pair<Value, Value>, 2> named;
};

class Runtime;

// A filter, test, method or global function. `self` is the filtered or tested value, or the
// receiver of a method. A method without `call` changes its receiver, which the sandbox refuses.
struct Builtin {
  std::string_view name;
  Value (*call)(Runtime& runtime, const Value& self, Arguments& arguments);
};

// A builtin as a value.
struct Function : Object {
  Function(Value receiver, const Builtin* function) : self(std::move(receiver)), builtin(function) {
    levels = self.depth() + 1;
  }
  const Value self;
  const Builtin* const builtin;
};

// The type of a Python exception, and its text.
struct Failure {
  std::string kind;
  std::string message;
};

class Runtime {
 public:
  explicit Runtime(const Limits& limits) : limits_(limits) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime();

  // Records a failure unless there is one; returns Value::Failed().
  Value Fail(std::string_view kind, std::string message);
  bool failed() const { return !failure_.kind.empty(); }
  const Failure& failure() const { return failure_; }

  // Count work and memory against the limits. False after a failure, which names the limit.
  bool Step(int64_t steps = 1) {
    return (steps_ += steps) <= limits_.steps ? true : Exceeded("steps", limits_.steps);
  }
  bool Allocate(int64_t bytes) {
    return (bytes_ += bytes) <= limits_.value_bytes ? true
                                                    : Exceeded("value_bytes", limits_.value_bytes);
  }
  bool Exceeded(const char* limit, int64_t value);

  // Make new values and charge for them. Containers deeper than the limit are refused.
  Value Text(std::string text, bool markup = false);
  Value NewList(std::vector<Value> items) { return NewSequence(Kind::kList, std::move(items)); }
  Value NewTuple(std::vector<Value> items) { return NewSequence(Kind::kTuple, std::move(items)); }
  // `object` must have its `levels` set.
  Value New(Kind kind, std::unique_ptr<Object> object);
  Value NewDict(std::unique_ptr<Dict> dict);
  Value NewNamespace(std::unique_ptr<Namespace> space);

  virtual Value Call(const Value& callee, Arguments& arguments) = 0;
  virtual absl::TimeZone time_zone() const = 0;
  virtual absl::Time now() const = 0;

  const Limits& limits() const { return limits_; }

 private:
  Value NewSequence(Kind kind, std::vector<Value> items);
  Value Checked(Value value);

  const Limits limits_;
  Failure failure_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  std::vector<Value> namespaces_;  // all namespaces of this rendering
};

// Places arguments by `names` into out[0..names.size()). Absent arguments stay missing. False after
// a TypeError: there are too many arguments, one is unknown or given twice, or one of the first
// `required` is missing.
bool Bind(Runtime& runtime, std::string_view function, Arguments& arguments,
          std::initializer_list<std::string_view> names, size_t required, Value* out);

// Messages of Python that are used in many places.
Value FailUndefined(Runtime& runtime, const Value& undefined);
std::string UndefinedMessage(const Value& undefined);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_RUNTIME_H_
