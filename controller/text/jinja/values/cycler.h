// The objects of the globals cycler and joiner.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CYCLER_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CYCLER_H_

#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

// Returns its items in turn.
class Cycler : public Object {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) { levels = items_.depth() + 1; }
  // The attributes next, reset and current; missing for any other name.
  Value Attribute(Runtime& runtime, const Value& self, std::string_view name) const;
  Value Next();
  void Reset() { at_ = 0; }

 private:
  const Value items_;  // a tuple that is not empty
  size_t at_ = 0;
};

// Returns an empty text at the first call, then its separator.
struct Joiner : Object {
  explicit Joiner(Value text) : separator(std::move(text)) { levels = separator.depth() + 1; }
  const Value separator;
  bool used = false;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CYCLER_H_
