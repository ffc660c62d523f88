// Runs a program over variables.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_INTERPRETER_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_INTERPRETER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "controller/text/jinja/rendering.h"
#include "controller/text/jinja/syntax/ast.h"
#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

// One rendering. Failures travel as values (Value::failed) and flows; nothing throws.
class Interpreter final : public Runtime {
 public:
  Interpreter(const Program& program, const Clock& clock, const Limits& limits)
      : Runtime(limits), program_(program), clock_(clock) {}
  ~Interpreter() override;

  // False after a failure; failure_line() has its line.
  bool Run(const Value& variables, Rendering* rendering);
  int failure_line() const { return failure_line_; }

  Value Call(const Value& callee, Arguments& arguments) override;
  absl::TimeZone time_zone() const override { return clock_.zone; }
  absl::Time now() const override { return clock_.now; }

 private:
  enum class Flow { kNext, kBreak, kContinue, kFail };

  // The variables of a running function. A frame that a macro may still read is kept until the end.
  struct Frame {
    std::vector<Value> slots;
    Frame* outer = nullptr;
    bool kept = false;
  };
  // A macro with the variables around its definition.
  struct Macro;
  class FrameScope;
  class OutputScope;
  using Parts = absl::InlinedVector<Value, 8>;

  void SetGlobals(const Value& variables);
  void Enter(const ScopeEntry& scope);
  const Value& At(const Place& place) const;
  Frame* FrameAt(int hops) const;
  std::unique_ptr<Frame> NewFrame(const FunctionInfo& function, Frame* outer);
  bool Deeper();

  // statements: run.cc
  Flow RunBody(const Body& body);
  Flow RunStatement(const Stmt& statement);
  Flow RunPrint(const Stmt& statement);
  Flow RunIf(const Stmt& statement);
  Flow RunFor(const Stmt& statement);
  Flow RunLoop(const Stmt& statement, const Value& iterable, int depth);
  Flow RunSet(const Stmt& statement);
  Flow RunSetBlock(const Stmt& statement);
  Flow RunWith(const Stmt& statement);
  Flow RunMacro(const Stmt& statement);
  Flow RunCallBlock(const Stmt& statement);
  Flow RunFilterBlock(const Stmt& statement);
  Flow RunGeneration(const Stmt& statement);
  Value RunRecursively(const Stmt& statement, Frame* outer, const Value& iterable, int depth);
  bool Assign(const Expr& target, const Value& value);
  bool AssignAttribute(const Expr& target, const Value& value);
  bool Unpack(const Expr& target, const Value& value);
  bool Emit(std::string_view text);
  bool EmitValue(const Value& value);
  bool CheckOutput();

  // expressions: evaluate.cc
  Value Evaluate(const Expr& expr);
  Value EvaluateKind(const Expr& expr);
  Value EvaluateName(const Expr& expr);
  Value EvaluateAttribute(const Expr& expr);
  Value EvaluateSequence(const Expr& expr);
  Value EvaluateDict(const Expr& expr);
  Value EvaluateSlice(const Expr& expr);
  Value EvaluateBinary(const Expr& expr);
  Value EvaluateConcat(const Expr& expr);
  Value EvaluateCompare(const Expr& expr);
  Value EvaluateCondition(const Expr& expr);
  // Evaluates the operands of a chain of +. `parts` gets strings only, or the single sum.
  bool EvaluateSum(const Expr& expr, Parts* parts);
  Value Join(const Parts& parts);

  // calls: call.cc
  Value EvaluateCall(const Expr& expr, const Value* caller = nullptr);
  Value EvaluateFilter(const Expr& expr, const Value* input = nullptr);
  Value EvaluateTest(const Expr& expr);
  bool EvaluateArguments(const CallSite* call, Arguments* arguments);
  bool AddStarred(const Expr& expr, Arguments* arguments);
  bool AddDoubleStarred(const Expr& expr, Arguments* arguments);
  Value CallMacro(const Macro& macro, Arguments& arguments);
  bool PlaceArguments(const MacroInfo& macro, Arguments& arguments, Frame* frame);
  bool SetDefaults(const MacroInfo& macro);

  const Program& program_;
  const Clock clock_;
  std::vector<Value> globals_;
  std::vector<std::unique_ptr<Frame>> kept_;
  std::vector<std::unique_ptr<Frame>> free_;
  Frame* frame_ = nullptr;
  std::string root_;  // output of the template outside of blocks that capture it
  std::string* out_ = &root_;
  std::vector<GenerationSpan> spans_;
  int depth_ = 0;
  int failure_line_ = 0;
};

struct Interpreter::Macro : Object {
  Macro(const MacroInfo* what, Frame* around) : info(what), frame(around) {}
  const MacroInfo* const info;
  Frame* const frame;
};

// Makes a frame current while it lives, then restores the previous one.
class Interpreter::FrameScope {
 public:
  FrameScope(Interpreter* interpreter, std::unique_ptr<Frame> frame)
      : interpreter_(interpreter), before_(interpreter->frame_), frame_(std::move(frame)) {
    interpreter_->frame_ = frame_.get();
  }
  ~FrameScope() {
    interpreter_->frame_ = before_;
    auto& where = frame_->kept ? interpreter_->kept_ : interpreter_->free_;
    if (!frame_->kept) {
      for (Value& slot : frame_->slots) slot = Value();
    }
    where.push_back(std::move(frame_));
  }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  Interpreter* const interpreter_;
  Frame* const before_;
  std::unique_ptr<Frame> frame_;
};

// Captures printed text while it lives.
class Interpreter::OutputScope {
 public:
  explicit OutputScope(Interpreter* interpreter)
      : interpreter_(interpreter), before_(interpreter->out_) {
    interpreter_->out_ = &text;
  }
  ~OutputScope() { interpreter_->out_ = before_; }
  OutputScope(const OutputScope&) = delete;
  OutputScope& operator=(const OutputScope&) = delete;

  std::string text;

 private:
  Interpreter* const interpreter_;
  std::string* const before_;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_INTERPRETER_H_
