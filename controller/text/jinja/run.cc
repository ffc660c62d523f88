// The statements of a template.
#include "absl/strings/str_cat.h"
#include "controller/text/jinja/interpreter.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/loop.h"
#include "controller/text/jinja/values/repr.h"

namespace coxswain::data::jinja {

// Frames and globals may hold what holds a frame: all is emptied before anything is freed.
Interpreter::~Interpreter() {
  for (const auto& frame : kept_) {
    for (Value& slot : frame->slots) slot = Value();
  }
}

bool Interpreter::Run(const Value& variables, Rendering* rendering) {
  SetGlobals(variables);
  Flow flow;
  {
    const FrameScope scope(this, NewFrame(program_.function, nullptr));
    Enter(program_.scope);
    flow = RunBody(program_.body);
  }
  rendering->text = std::move(root_);
  rendering->spans = std::move(spans_);
  for (GenerationSpan& span : rendering->spans) {
    span.begin = std::min(span.begin, rendering->text.size());
    span.end = std::min(span.end, rendering->text.size());
  }
  return flow != Flow::kFail && !failed();
}

void Interpreter::SetGlobals(const Value& variables) {
  globals_.resize(program_.globals.size());
  for (size_t i = 0; i < globals_.size(); ++i) {
    const std::string_view name = program_.globals[i].text();
    if (const Value* given = variables.dict().Find(name); given != nullptr) {
      globals_[i] = *given;
    } else if (const Builtin* builtin = FindGlobal(name); builtin != nullptr) {
      globals_[i] = Value(Kind::kFunction, new Function(Value(), builtin));
    }
  }
}

std::unique_ptr<Interpreter::Frame> Interpreter::NewFrame(const FunctionInfo& function,
                                                          Frame* outer) {
  std::unique_ptr<Frame> frame;
  if (free_.empty()) {
    frame = std::make_unique<Frame>();
  } else {
    frame = std::move(free_.back());
    free_.pop_back();
  }
  frame->slots.resize(static_cast<size_t>(function.slots));
  frame->outer = outer;
  return frame;
}

Interpreter::Frame* Interpreter::FrameAt(int hops) const {
  Frame* frame = frame_;
  for (; hops > 0; --hops) frame = frame->outer;
  return frame;
}

const Value& Interpreter::At(const Place& place) const {
  if (place.in == Place::In::kGlobals) return globals_[static_cast<size_t>(place.index)];
  return FrameAt(place.hops)->slots[static_cast<size_t>(place.index)];
}

void Interpreter::Enter(const ScopeEntry& scope) {
  for (const ScopeEntry::Load& load : scope.loads) {
    Value value;
    if (load.is_set) value = At(load.from);
    frame_->slots[static_cast<size_t>(load.slot)] = std::move(value);
  }
}

// Before one more level of evaluation; who calls it takes the level back.
bool Interpreter::Deeper() {
  if (!Step()) return false;
  if (++depth_ <= limits().depth) return true;
  --depth_;
  Fail("RecursionError", absl::StrCat("the template nests more than ", limits().depth,
                                      " evaluations: the limit of depth"));
  return false;
}

Interpreter::Flow Interpreter::RunBody(const Body& body) {
  for (const auto& statement : body) {
    if (!Deeper()) {
      if (failure_line_ == 0) failure_line_ = statement->line;
      return Flow::kFail;
    }
    const Flow flow = RunStatement(*statement);
    --depth_;
    if (flow == Flow::kNext) continue;
    if (flow == Flow::kFail && failure_line_ == 0) failure_line_ = statement->line;
    return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunStatement(const Stmt& statement) {
  switch (statement.kind) {
    case StmtKind::kText:
      return Emit(statement.text) ? Flow::kNext : Flow::kFail;
    case StmtKind::kPrint:
      return RunPrint(statement);
    case StmtKind::kIf:
      return RunIf(statement);
    case StmtKind::kFor:
      return RunFor(statement);
    case StmtKind::kSet:
      return RunSet(statement);
    case StmtKind::kSetBlock:
      return RunSetBlock(statement);
    case StmtKind::kWith:
      return RunWith(statement);
    case StmtKind::kMacro:
      return RunMacro(statement);
    case StmtKind::kCallBlock:
      return RunCallBlock(statement);
    case StmtKind::kFilterBlock:
      return RunFilterBlock(statement);
    case StmtKind::kGeneration:
      return RunGeneration(statement);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kFail;
}

bool Interpreter::CheckOutput() {
  return static_cast<int64_t>(out_->size()) <= limits().output_bytes ||
         Exceeded("output_bytes", limits().output_bytes);
}

bool Interpreter::Emit(std::string_view text) {
  out_->append(text);
  return CheckOutput();
}

bool Interpreter::EmitValue(const Value& value) {
  return AppendStr(*this, value, out_) && CheckOutput();
}

Interpreter::Flow Interpreter::RunPrint(const Stmt& statement) {
  for (const ExprPtr& expr : statement.exprs) {
    Parts parts;
    if (expr->kind == ExprKind::kBinary && expr->op == Operator::kAdd) {
      if (!EvaluateSum(*expr, &parts)) return Flow::kFail;
    } else {
      parts.push_back(Evaluate(*expr));
      if (parts[0].failed()) return Flow::kFail;
    }
    for (const Value& part : parts) {
      if (!EmitValue(part)) return Flow::kFail;
    }
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunIf(const Stmt& statement) {
  for (const auto& [condition, body] : statement.branches) {
    const Value value = Evaluate(*condition);
    if (value.failed()) return Flow::kFail;
    if (Truth(value)) return RunBody(body);
  }
  return RunBody(statement.otherwise);
}

Interpreter::Flow Interpreter::RunFor(const Stmt& statement) {
  const Value iterable = Evaluate(*statement.loop->iterable);
  if (iterable.failed()) return Flow::kFail;
  if (!statement.loop->recursive) return RunLoop(statement, iterable, 0);
  const Value text = RunRecursively(statement, frame_, iterable, 0);
  return !text.failed() && EmitValue(text) ? Flow::kNext : Flow::kFail;
}

Value Interpreter::RunRecursively(const Stmt& statement, Frame* outer, const Value& iterable,
                                  int depth) {
  if (!Deeper()) return Value::Failed();
  OutputScope output(this);
  const FrameScope scope(this, NewFrame(statement.loop->function, outer));
  const Flow flow = RunLoop(statement, iterable, depth);
  --depth_;
  return flow == Flow::kFail ? Value::Failed() : Text(std::move(output.text));
}

Interpreter::Flow Interpreter::RunLoop(const Stmt& statement, const Value& iterable, int depth) {
  const ForLoop& loop = *statement.loop;
  Cursor cursor;
  if (!cursor.Open(*this, iterable)) return Flow::kFail;
  const int64_t length = loop.condition == nullptr ? cursor.Length() : -1;
  Frame* const frame = frame_;
  const auto pull = [this, &loop, frame, cursor](Runtime& runtime, Value* item) mutable {
    while (cursor.Next(runtime, item)) {
      if (loop.condition == nullptr) return true;
      Frame* const before = std::exchange(frame_, frame);  // a macro may have asked
      Enter(loop.condition_scope);
      const bool assigned = Assign(*loop.condition_target, *item);
      const Value taken = assigned ? Evaluate(*loop.condition) : Value::Failed();
      frame_ = before;
      if (taken.failed()) return false;
      if (Truth(taken)) return true;
    }
    return false;
  };
  Loop::Recurse recurse;
  if (loop.recursive) {
    recurse = [this, &statement, frame](const Value& inner, int level) {
      return RunRecursively(statement, frame->outer, inner, level);
    };
  }
  auto* running = new Loop(pull, length, recurse, depth);
  const Value loop_value(Kind::kLoop, running);
  Value item;
  Flow flow = Flow::kNext;
  bool any = false;
  while (flow != Flow::kBreak && flow != Flow::kFail && running->Next(*this, &item)) {
    any = true;
    Enter(statement.scope);
    frame_->slots[static_cast<size_t>(loop.loop_slot)] = loop_value;
    flow = Assign(*loop.target, item) ? RunBody(statement.body) : Flow::kFail;
  }
  running->End();
  if (flow == Flow::kFail || failed()) return Flow::kFail;
  if (any || statement.otherwise.empty()) return Flow::kNext;
  Enter(loop.else_scope);
  return RunBody(statement.otherwise);
}

bool Interpreter::Assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) {
    FrameAt(target.place.hops)->slots[static_cast<size_t>(target.place.index)] = value;
    return true;
  }
  if (target.kind == ExprKind::kNamespaceAttribute) return AssignAttribute(target, value);
  return Unpack(target, value);
}

bool Interpreter::AssignAttribute(const Expr& target, const Value& value) {
  const Value space = Evaluate(*target.children[0]);
  if (!space.is(Kind::kNamespace)) {
    Fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
    return false;
  }
  if (target.value.text()[0] == '_') {
    Fail("SecurityError",
         absl::StrCat("Chat templates cannot store underscore-prefixed attributes on a namespace, "
                      "but got '",
                      std::string(target.value.text()), "'. Please rename the attribute."));
    return false;
  }
  static_cast<Namespace*>(space.object())->attributes.Set(target.value, value);
  return true;
}

bool Interpreter::Unpack(const Expr& target, const Value& value) {
  const size_t wanted = target.children.size();
  Cursor cursor;
  if (!cursor.Open(*this, value, "cannot unpack non-iterable ", " object")) return false;
  std::vector<Value> items;
  Value item;
  while (items.size() <= wanted && cursor.Next(*this, &item)) items.push_back(std::move(item));
  if (failed()) return false;
  if (items.size() != wanted) {
    Fail("ValueError", items.size() > wanted
                           ? absl::StrCat("too many values to unpack (expected ", wanted, ")")
                           : absl::StrCat("not enough values to unpack (expected ", wanted,
                                          ", got ", items.size(), ")"));
    return false;
  }
  for (size_t i = 0; i < wanted; ++i) {
    if (!Assign(*target.children[i], items[i])) return false;
  }
  return true;
}

Interpreter::Flow Interpreter::RunSet(const Stmt& statement) {
  const Value value = Evaluate(*statement.exprs[1]);
  if (value.failed()) return Flow::kFail;
  return Assign(*statement.exprs[0], value) ? Flow::kNext : Flow::kFail;
}

Interpreter::Flow Interpreter::RunSetBlock(const Stmt& statement) {
  Value value;
  {
    OutputScope output(this);
    Enter(statement.scope);
    if (const Flow flow = RunBody(statement.body); flow != Flow::kNext) return flow;
    value = Text(std::move(output.text));
  }
  const Expr* filter = statement.exprs[1].get();
  if (!value.failed() && filter != nullptr) value = EvaluateFilter(*filter, &value);
  if (value.failed()) return Flow::kFail;
  return Assign(*statement.exprs[0], value) ? Flow::kNext : Flow::kFail;
}

Interpreter::Flow Interpreter::RunWith(const Stmt& statement) {
  std::vector<Value> values;
  for (size_t i = 1; i < statement.exprs.size(); i += 2) {
    values.push_back(Evaluate(*statement.exprs[i]));
    if (values.back().failed()) return Flow::kFail;
  }
  Enter(statement.scope);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!Assign(*statement.exprs[2 * i], values[i])) return Flow::kFail;
  }
  return RunBody(statement.body);
}

Interpreter::Flow Interpreter::RunMacro(const Stmt& statement) {
  frame_->kept = true;
  const Value macro = New(Kind::kMacro, std::make_unique<Macro>(statement.macro.get(), frame_));
  if (macro.failed()) return Flow::kFail;
  return Assign(*statement.exprs[0], macro) ? Flow::kNext : Flow::kFail;
}

Interpreter::Flow Interpreter::RunCallBlock(const Stmt& statement) {
  frame_->kept = true;
  const Value caller = New(Kind::kMacro, std::make_unique<Macro>(statement.macro.get(), frame_));
  if (caller.failed()) return Flow::kFail;
  const Value value = EvaluateCall(*statement.exprs[0], &caller);
  return !value.failed() && EmitValue(value) ? Flow::kNext : Flow::kFail;
}

Interpreter::Flow Interpreter::RunFilterBlock(const Stmt& statement) {
  Value value;
  {
    OutputScope output(this);
    Enter(statement.scope);
    if (const Flow flow = RunBody(statement.body); flow != Flow::kNext) return flow;
    value = Text(std::move(output.text));
  }
  if (!value.failed()) value = EvaluateFilter(*statement.exprs[0], &value);
  return !value.failed() && EmitValue(value) ? Flow::kNext : Flow::kFail;
}

Interpreter::Flow Interpreter::RunGeneration(const Stmt& statement) {
  std::string text;
  {
    OutputScope output(this);
    Enter(statement.scope);
    if (const Flow flow = RunBody(statement.body); flow != Flow::kNext) return flow;
    text = std::move(output.text);
  }
  if (!Allocate(static_cast<int64_t>(text.size()) + 16)) return Flow::kFail;
  spans_.push_back({root_.size(), root_.size() + text.size()});
  return Emit(text) ? Flow::kNext : Flow::kFail;
}

}  // namespace coxswain::data::jinja
