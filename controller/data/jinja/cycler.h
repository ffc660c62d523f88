// The objects that the globals cycler and joiner make.
#ifndef COXSWAIN_CONTROLLER_DATA_JINJA_CYCLER_H_
#define COXSWAIN_CONTROLLER_DATA_JINJA_CYCLER_H_

#include "controller/data/jinja/runtime.h"

namespace coxswain::data::jinja {

// Answers its items in turns.
class Cycler : public Object {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) { levels = items_.depth() + 1; }
  // next, reset and current; missing: it has no such attribute.
  Value Attribute(Runtime& runtime, const Value& self, std::string_view name) const;
  Value Next();
  void Reset() { at_ = 0; }

 private:
  const Value items_;  // a tuple that is not empty
  size_t at_ = 0;
};

// Answers nothing the first time it is called, then its separator.
struct Joiner : Object {
  explicit Joiner(Value text) : separator(std::move(text)) { levels = separator.depth() + 1; }
  const Value separator;
  bool used = false;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_DATA_JINJA_CYCLER_H_
