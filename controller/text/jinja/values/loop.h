// The variable `loop` of a running for statement.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_LOOP_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_LOOP_H_

#include <cstdint>
#include <deque>
#include <functional>

#include "controller/text/jinja/values/cursor.h"

namespace coxswain::data::jinja {

// Reads items one by one. As in jinja2 it reads ahead only for `last`, `nextitem` or a length, so
// that the loop's condition sees changes by the body.
class Loop : public Iterator {
 public:
  // Gives the next item that fulfils the loop's condition. False at the end or after a failure.
  using Pull = std::function<bool(Runtime&, Value*)>;
  // Renders the body for an inner iterable; empty unless the loop is recursive.
  using Recurse = std::function<Value(const Value& iterable, int depth)>;

  // `length`: of the iterated value; -1: not known before its end.
  Loop(Pull pull, int64_t length, Recurse recurse, int depth)
      : pull_(std::move(pull)), recurse_(std::move(recurse)), length_(length), depth_(depth) {}

  bool Next(Runtime& runtime, Value* item) override;
  // Ends the items: the for statement is over, although a namespace may still hold its loop.
  void End();

  // Returns missing for a name that is no attribute of loops.
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
  int depth_;  // level of recursion; 0: the outermost loop
  int64_t index_ = -1;
  std::deque<Value> ahead_;
  Value before_;
  Value current_;
  Value changed_;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_LOOP_H_
