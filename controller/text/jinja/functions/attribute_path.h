// The argument `attribute` of filters: a name, an index, or a path of these with dots.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_FUNCTIONS_ATTRIBUTE_PATH_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_FUNCTIONS_ATTRIBUTE_PATH_H_

#include <vector>

#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

class AttributePath {
 public:
  AttributePath() = default;  // the item itself
  // `attribute` may be missing or None. With `ignores_case`, Get returns text in lower case.
  explicit AttributePath(const Value& attribute, bool ignores_case = false,
                         Value otherwise = Value());

  // The value at this path in `item`; `otherwise`, if given, when it is undefined.
  Value Get(Runtime& runtime, const Value& item) const;
  int levels() const { return otherwise_.depth(); }

 private:
  std::vector<Value> parts_;
  bool ignores_case_ = false;
  Value otherwise_;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_FUNCTIONS_ATTRIBUTE_PATH_H_
