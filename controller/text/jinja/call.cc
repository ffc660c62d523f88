// Calls, filters, tests and macros.
#include "absl/strings/str_cat.h"
#include "controller/text/jinja/functions/subscript.h"
#include "controller/text/jinja/interpreter.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/cycler.h"
#include "controller/text/jinja/values/loop.h"

namespace coxswain::data::jinja {

bool Interpreter::EvaluateArguments(const CallSite* call, Arguments* arguments) {
  if (call == nullptr) return true;
  for (const ExprPtr& argument : call->arguments) {
    arguments->positional.push_back(Evaluate(*argument));
    if (arguments->positional.back().failed()) return false;
  }
  for (const auto& [name, argument] : call->named) {
    Value value = Evaluate(*argument);
    if (value.failed()) return false;
    arguments->named.emplace_back(name, std::move(value));
  }
  if (call->star != nullptr && !AddStarred(*call->star, arguments)) return false;
  return call->double_star == nullptr || AddDoubleStarred(*call->double_star, arguments);
}

bool Interpreter::AddStarred(const Expr& expr, Arguments* arguments) {
  const Value value = Evaluate(expr);
  std::vector<Value> items;
  if (value.failed() || !Collect(*this, value, &items)) return false;
  for (Value& item : items) arguments->positional.push_back(std::move(item));
  return true;
}

bool Interpreter::AddDoubleStarred(const Expr& expr, Arguments* arguments) {
  const Value value = Evaluate(expr);
  if (value.failed()) return false;
  if (!value.is(Kind::kDict)) {
    Fail("TypeError",
         absl::StrCat("argument after ** must be a mapping, not ", std::string(TypeName(value))));
    return false;
  }
  for (const auto& [name, item] : value.dict().entries()) {
    if (!Step(static_cast<int64_t>(arguments->named.size()))) return false;
    if (!name.is_string()) {
      Fail("TypeError", "keywords must be strings");
      return false;
    }
    for (const auto& [other, unused] : arguments->named) {
      if (!Equal(other, name)) continue;
      Fail("TypeError", absl::StrCat("got multiple values for keyword argument '",
                                     std::string(name.text()), "'"));
      return false;
    }
    arguments->named.emplace_back(name, item);
  }
  return true;
}

Value Interpreter::EvaluateCall(const Expr& expr, const Value* caller) {
  const Expr& what = *expr.children[0];
  Value callee;
  Value owner;
  const Builtin* method = nullptr;
  if (what.kind == ExprKind::kAttribute) {  // a method is called without making a value of it
    owner = Evaluate(*what.children[0]);
    if (owner.failed()) return owner;
    method = MethodOf(owner, what.methods);
    if (method != nullptr && method->call == nullptr) method = nullptr;
    if (method == nullptr) callee = GetAttribute(*this, owner, what.value, what.methods);
  } else {
    callee = Evaluate(what);
  }
  if (callee.failed()) return callee;
  Arguments arguments;
  if (!EvaluateArguments(expr.call.get(), &arguments)) return Value::Failed();
  if (caller != nullptr) arguments.named.emplace_back(Value::Text("caller"), *caller);
  return method != nullptr ? method->call(*this, owner, arguments) : Call(callee, arguments);
}

Value Interpreter::Call(const Value& callee, Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kFunction: {
      const auto& function = *static_cast<const Function*>(callee.object());
      return function.builtin->call(*this, function.self, arguments);
    }
    case Kind::kMacro:
      return CallMacro(*static_cast<const Macro*>(callee.object()), arguments);
    case Kind::kLoop:
      return static_cast<Loop*>(callee.object())->Call(*this, arguments);
    case Kind::kJoiner: {
      auto& joiner = *static_cast<Joiner*>(callee.object());
      return std::exchange(joiner.used, true) ? joiner.separator : Value::Text("");
    }
    case Kind::kUndefined:
      return FailUndefined(*this, callee);
    default:
      return Fail("TypeError",
                  absl::StrCat("'", std::string(TypeName(callee)), "' object is not callable"));
  }
}

Value Interpreter::EvaluateFilter(const Expr& expr, const Value* input) {
  Value self;
  if (expr.children[0] == nullptr) {
    self = *input;
  } else if (input != nullptr) {
    self = EvaluateFilter(*expr.children[0], input);  // a chain that a block holds
  } else {
    self = Evaluate(*expr.children[0]);
  }
  if (self.failed()) return self;
  if (expr.builtin == nullptr) {
    return Fail("TemplateRuntimeError",
                absl::StrCat("No filter named '", std::string(expr.value.text()), "' found."));
  }
  Arguments arguments;
  if (!EvaluateArguments(expr.call.get(), &arguments)) return Value::Failed();
  return expr.builtin->call(*this, self, arguments);
}

Value Interpreter::EvaluateTest(const Expr& expr) {
  const Value self = Evaluate(*expr.children[0]);
  if (self.failed()) return self;
  if (expr.builtin == nullptr) {
    return Fail("TemplateRuntimeError",
                absl::StrCat("No test named '", std::string(expr.value.text()), "' found."));
  }
  Arguments arguments;
  if (!EvaluateArguments(expr.call.get(), &arguments)) return Value::Failed();
  return expr.builtin->call(*this, self, arguments);
}

// Source: jinja2 3.1, runtime.py, Macro.__call__.
bool Interpreter::PlaceArguments(const MacroInfo& macro, Arguments& arguments, Frame* frame) {
  const auto slot = [frame](int index) -> Value& {
    return frame->slots[static_cast<size_t>(index)];
  };
  const auto take = [&](std::string_view name) {
    for (auto it = arguments.named.begin(); it != arguments.named.end(); ++it) {
      if (it->first.text() != name) continue;
      Value value = std::move(it->second);
      arguments.named.erase(it);
      return value;
    }
    return Value();
  };
  const size_t parameters = macro.parameters.size();
  for (size_t i = 0; i < parameters; ++i) {
    const Expr& parameter = *macro.parameters[i];
    slot(parameter.place.index) =
        i < arguments.positional.size() ? arguments.positional[i] : take(parameter.value.text());
  }
  if (macro.caller_slot >= 0) {
    Value caller = take("caller");
    if (caller.missing() || caller.is(Kind::kNone)) {
      caller = Value::Undefined(UndefinedBy::kHint, Value::Text("No caller defined"));
    }
    slot(macro.caller_slot) = std::move(caller);
  }
  if (macro.kwargs_slot >= 0) {
    auto rest = std::make_unique<Dict>();
    for (const auto& [name, value] : arguments.named) rest->Set(name, value);
    slot(macro.kwargs_slot) = NewDict(std::move(rest));
  } else if (!arguments.named.empty()) {
    Fail("TypeError", absl::StrCat("macro '", macro.name, "' takes no keyword argument '",
                                   std::string(arguments.named[0].first.text()), "'"));
  }
  if (macro.varargs_slot >= 0) {
    std::vector<Value> rest;
    for (size_t i = parameters; i < arguments.positional.size(); ++i) {
      rest.push_back(arguments.positional[i]);
    }
    slot(macro.varargs_slot) = NewTuple(std::move(rest));
  } else if (arguments.positional.size() > parameters) {
    Fail("TypeError",
         absl::StrCat("macro '", macro.name, "' takes not more than ", parameters, " argument(s)"));
  }
  return !failed();
}

bool Interpreter::SetDefaults(const MacroInfo& macro) {
  const size_t plain = macro.parameters.size() - macro.defaults.size();
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Expr& parameter = *macro.parameters[i];
    const auto index = static_cast<size_t>(parameter.place.index);
    if (!frame_->slots[index].missing()) continue;
    Value value;
    if (i < plain) {
      value = Value::Undefined(UndefinedBy::kHint,
                               Text(absl::StrCat("parameter '", std::string(parameter.value.text()),
                                                 "' was not provided")));
    } else {
      value = Evaluate(*macro.defaults[i - plain]);
      if (value.failed()) return false;
    }
    frame_->slots[index] = std::move(value);
  }
  return true;
}

Value Interpreter::CallMacro(const Macro& macro, Arguments& arguments) {
  if (!Deeper()) return Value::Failed();
  Flow flow = Flow::kFail;
  OutputScope output(this);
  {
    std::unique_ptr<Frame> frame = NewFrame(macro.info->function, macro.frame);
    const bool placed = PlaceArguments(*macro.info, arguments, frame.get());
    const FrameScope scope(this, std::move(frame));
    if (placed) {
      Enter(macro.info->scope);
      if (SetDefaults(*macro.info)) flow = RunBody(macro.info->body);
    }
  }
  --depth_;
  return flow == Flow::kFail ? Value::Failed() : Text(std::move(output.text));
}

}  // namespace coxswain::data::jinja
