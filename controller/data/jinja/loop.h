// The variable `loop` of a running for statement.
#ifndef COXSWAIN_CONTROLLER_DATA_JINJA_LOOP_H_
#define COXSWAIN_CONTROLLER_DATA_JINJA_LOOP_H_

#include <cstdint>
#include <deque>
#include <functional>

#include "controller/data/jinja/cursor.h"

namespace coxswain::data::jinja {

// Reads its items one by one, and ahead only when asked for `last`, `nextitem` or a length, as
// jinja2 does: what the body changes is seen by the loop's own condition.
class Loop : public Iterator {
 public:
  // The next item that the loop's condition takes; false at the end or after a failure.
  using Pull = std::function<bool(Runtime&, Value*)>;
  // Renders the body for an inner iterable; empty unless the loop is recursive.
  using Recurse = std::function<Value(const Value& iterable, int depth)>;

  // `length` is that of what is iterated; -1: not known before its end.
  Loop(Pull pull, int64_t length, Recurse recurse, int depth)
      : pull_(std::move(pull)), recurse_(std::move(recurse)), length_(length), depth_(depth) {}

  bool Next(Runtime& runtime, Value* item) override;
  // No more items: the for statement is over, though a namespace may still hold its loop.
  void End();

  // Missing: loops have no such attribute.
  Value Attribute(Runtime& runtime, const Value& self, std::string_view name);
  Value Call(Runtime& runtime, Arguments& arguments);
  Value Cycle(Runtime& runtime, Arguments& arguments) const;
  Value Changed(Runtime& runtime, Arguments& arguments);

 private:
  bool Peek(Runtime& runtime);
  Value Length(Runtime& runtime, int64_t minus);

  Pull pull_;
  Recurse recurse_;
  int64_t length_;
  int depth_;  // 0: not inside of itself
  int64_t index_ = -1;
  std::deque<Value> ahead_;
  Value before_;
  Value current_;
  Value changed_;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_DATA_JINJA_LOOP_H_
