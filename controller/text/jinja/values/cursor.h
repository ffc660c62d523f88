// Iteration over any value, one item at a time.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CURSOR_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CURSOR_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

// A lazy sequence that can be read once. Next returns false at the end and after a failure.
struct Iterator : Object {
  virtual bool Next(Runtime& runtime, Value* item) = 0;
};

class Cursor {
 public:
  // False after a failure: a TypeError with the text `before`, the type's name, `after`.
  bool Open(Runtime& runtime, const Value& iterable, const char* before = "'",
            const char* after = "' object is not iterable");
  // False at the end and after a failure.
  bool Next(Runtime& runtime, Value* item);
  // Python's len() of the iterated value; -1: it has none.
  int64_t Length() const;

 private:
  Value iterable_;
  size_t at_ = 0;
};

bool IsIterable(const Value& value);
// Python's len(); -1: the type has none.
int64_t LengthOf(const Value& value);
// Reads all items. False after a failure.
bool Collect(Runtime& runtime, const Value& iterable, std::vector<Value>* items);

// An iterator over the items of a value, from `begin` on.
Value MakeIterator(Runtime& runtime, const Value& iterable);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CURSOR_H_
