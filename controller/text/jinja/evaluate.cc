// The expressions of a template.
#include "absl/strings/str_cat.h"
#include "controller/text/jinja/functions/subscript.h"
#include "controller/text/jinja/interpreter.h"
#include "controller/text/jinja/values/repr.h"

namespace coxswain::data::jinja {

Value Interpreter::Evaluate(const Expr& expr) {
  if (expr.kind == ExprKind::kConstant) return expr.value;
  if (expr.kind == ExprKind::kName) return EvaluateName(expr);
  if (!Deeper()) return Value::Failed();
  Value value = EvaluateKind(expr);
  --depth_;
  if (value.failed() && failure_line_ == 0) failure_line_ = expr.line;
  return value;
}

Value Interpreter::EvaluateKind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.value;
    case ExprKind::kName:
      return EvaluateName(expr);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return EvaluateSequence(expr);
    case ExprKind::kDict:
      return EvaluateDict(expr);
    case ExprKind::kAttribute:
      return EvaluateAttribute(expr);
    case ExprKind::kItem: {
      const Value owner = Evaluate(*expr.children[0]);
      if (owner.failed()) return owner;
      const Value key = Evaluate(*expr.children[1]);
      return key.failed() ? key : GetItem(*this, owner, key);
    }
    case ExprKind::kSlice:
      return EvaluateSlice(expr);
    case ExprKind::kCall:
      return EvaluateCall(expr);
    case ExprKind::kFilter:
      return EvaluateFilter(expr);
    case ExprKind::kTest:
      return EvaluateTest(expr);
    case ExprKind::kNegate:
    case ExprKind::kPositive: {
      const Value operand = Evaluate(*expr.children[0]);
      if (operand.failed()) return operand;
      return expr.kind == ExprKind::kNegate ? Negate(*this, operand) : Positive(*this, operand);
    }
    case ExprKind::kNot: {
      const Value operand = Evaluate(*expr.children[0]);
      return operand.failed() ? operand : Value::Bool(!Truth(operand));
    }
    case ExprKind::kBinary:
      return EvaluateBinary(expr);
    case ExprKind::kConcat:
      return EvaluateConcat(expr);
    case ExprKind::kCompare:
      return EvaluateCompare(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value value;
      for (const ExprPtr& child : expr.children) {
        value = Evaluate(*child);
        if (value.failed() || Truth(value) == (expr.kind == ExprKind::kOr)) break;
      }
      return value;
    }
    case ExprKind::kCondition:
      return EvaluateCondition(expr);
    case ExprKind::kNamespaceAttribute:
      break;
  }
  return Fail("TemplateRuntimeError", "not an expression");
}

Value Interpreter::EvaluateName(const Expr& expr) {
  const Value& value = At(expr.place);
  if (!value.missing()) return value;
  return Value::Undefined(UndefinedBy::kName, expr.value);
}

Value Interpreter::EvaluateAttribute(const Expr& expr) {
  const Expr& owner = *expr.children[0];
  if (owner.kind == ExprKind::kName) {
    const Value& value = At(owner.place);
    if (!value.missing()) return GetAttribute(*this, value, expr.value, expr.methods);
  }
  const Value value = Evaluate(owner);
  return value.failed() ? value : GetAttribute(*this, value, expr.value, expr.methods);
}

Value Interpreter::EvaluateSequence(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) {
    items.push_back(Evaluate(*child));
    if (items.back().failed()) return Value::Failed();
  }
  return expr.kind == ExprKind::kList ? NewList(std::move(items)) : NewTuple(std::move(items));
}

Value Interpreter::EvaluateDict(const Expr& expr) {
  auto dict = std::make_unique<Dict>();
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    const Value key = Evaluate(*expr.children[i]);
    if (key.failed()) return key;
    const Value value = Evaluate(*expr.children[i + 1]);
    if (value.failed()) return value;
    if (!Step(key.weight())) return Value::Failed();
    if (!Hashable(key)) {
      return Fail("TypeError", absl::StrCat("unhashable type: '", std::string(TypeName(key)), "'"));
    }
    dict->Set(key, value);
  }
  return NewDict(std::move(dict));
}

Value Interpreter::EvaluateSlice(const Expr& expr) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    if (expr.children[i] == nullptr) continue;
    parts[i] = Evaluate(*expr.children[i]);
    if (parts[i].failed()) return Value::Failed();
  }
  return GetSlice(*this, parts[0], parts[1], parts[2], parts[3]);
}

Value Interpreter::EvaluateBinary(const Expr& expr) {
  if (expr.op == Operator::kAdd) {
    Parts parts;
    return EvaluateSum(expr, &parts) ? Join(parts) : Value::Failed();
  }
  const Value left = Evaluate(*expr.children[0]);
  if (left.failed()) return left;
  const Value right = Evaluate(*expr.children[1]);
  return right.failed() ? right : Arithmetic(*this, expr.op, left, right);
}

bool Interpreter::EvaluateSum(const Expr& expr, Parts* parts) {
  absl::InlinedVector<const Expr*, 16> operands;  // from the right
  const Expr* at = &expr;
  for (; at->kind == ExprKind::kBinary && at->op == Operator::kAdd; at = at->children[0].get()) {
    operands.push_back(at->children[1].get());
  }
  const auto plain = [](const Value& value) { return value.is_string() && !value.markup(); };
  parts->push_back(Evaluate(*at));
  if (parts->back().failed()) return false;
  bool all_plain = plain(parts->back());
  for (size_t i = operands.size(); i-- > 0;) {
    Value operand = Evaluate(*operands[i]);
    if (operand.failed()) return false;
    if (all_plain && plain(operand)) {
      parts->push_back(std::move(operand));
      continue;
    }
    Value sum = Arithmetic(*this, Operator::kAdd, Join(*parts), operand);
    if (sum.failed()) return false;
    all_plain = plain(sum);
    parts->clear();
    parts->push_back(std::move(sum));
  }
  return true;
}

Value Interpreter::Join(const Parts& parts) {
  if (parts.size() == 1) return parts[0];
  size_t size = 0;
  for (const Value& part : parts) size += part.text().size();
  std::string text;
  text.reserve(size);
  for (const Value& part : parts) text.append(part.text());
  return Text(std::move(text));
}

Value Interpreter::EvaluateConcat(const Expr& expr) {
  std::string text;
  std::vector<Value> values;
  for (const ExprPtr& child : expr.children) {
    values.push_back(Evaluate(*child));
    if (values.back().failed()) return Value::Failed();
  }
  for (const Value& value : values) {
    if (!AppendStr(*this, value, &text)) return Value::Failed();
  }
  return Text(std::move(text));
}

Value Interpreter::EvaluateCompare(const Expr& expr) {
  Value left = Evaluate(*expr.children[0]);
  Value result = left;
  for (size_t i = 0; i < expr.operators.size() && !result.failed(); ++i) {
    Value right = Evaluate(*expr.children[i + 1]);
    if (right.failed()) return right;
    result = Compare(*this, expr.operators[i], left, right);
    if (result.failed() || !Truth(result)) break;
    left = std::move(right);
  }
  return result;
}

Value Interpreter::EvaluateCondition(const Expr& expr) {
  const Value condition = Evaluate(*expr.children[1]);
  if (condition.failed()) return condition;
  if (Truth(condition)) return Evaluate(*expr.children[0]);
  if (expr.children.size() > 2) return Evaluate(*expr.children[2]);
  static constexpr char kHint[] =
      "the inline if-expression evaluated to false and no else section was defined.";
  return Value::Undefined(UndefinedBy::kHint, Value::Text(kHint));
}

}  // namespace coxswain::data::jinja
