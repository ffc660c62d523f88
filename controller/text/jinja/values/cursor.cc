#include "controller/text/jinja/values/cursor.h"

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

struct CursorIterator : Iterator {
  bool Next(Runtime& runtime, Value* item) override { return cursor.Next(runtime, item); }
  Cursor cursor;
};

}  // namespace

bool IsIterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

int64_t LengthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return value.string().Length();
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.list().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().size());
    case Kind::kRange:
      return static_cast<const Range*>(value.object())->Length();
    case Kind::kView:
      return static_cast<int64_t>(static_cast<const View*>(value.object())->size());
    default:
      return -1;
  }
}

bool Cursor::Open(Runtime& runtime, const Value& iterable, const char* before, const char* after) {
  if (!IsIterable(iterable)) {
    runtime.Fail("TypeError", absl::StrCat(before, std::string(TypeName(iterable)), after));
    return false;
  }
  iterable_ = iterable;
  at_ = 0;
  return true;
}

int64_t Cursor::Length() const { return LengthOf(iterable_); }

bool Cursor::Next(Runtime& runtime, Value* item) {
  switch (iterable_.kind()) {
    case Kind::kString: {
      const std::string_view text = iterable_.text();
      if (at_ >= text.size()) return false;
      const size_t begin = at_;
      at_ = ByteOffset(text, 1, begin);
      *item = runtime.Text(std::string(text.substr(begin, at_ - begin)));
      return !item->failed();
    }
    case Kind::kList:
    case Kind::kTuple:
      if (at_ >= iterable_.list().items.size()) return false;
      *item = iterable_.list().items[at_++];
      return true;
    case Kind::kDict:
      if (at_ >= iterable_.dict().size()) return false;
      *item = iterable_.dict().entries()[at_++].first;
      return true;
    case Kind::kView: {
      const auto& view = *static_cast<const View*>(iterable_.object());
      if (at_ >= view.size()) return false;
      *item = view.At(at_++);
      return true;
    }
    case Kind::kRange: {
      const auto& range = *static_cast<const Range*>(iterable_.object());
      if (static_cast<int64_t>(at_) >= range.Length()) return false;
      *item = Value::Int(range.At(static_cast<int64_t>(at_++)));
      return true;
    }
    case Kind::kIterator:
    case Kind::kLoop:
      return runtime.Step() && static_cast<Iterator*>(iterable_.object())->Next(runtime, item);
    default:
      return false;
  }
}

bool Collect(Runtime& runtime, const Value& iterable, std::vector<Value>* items) {
  Cursor cursor;
  if (!cursor.Open(runtime, iterable)) return false;
  Value item;
  while (cursor.Next(runtime, &item)) {
    if (!runtime.Step() || !runtime.Allocate(16)) return false;
    items->push_back(std::move(item));
  }
  return !runtime.failed();
}

Value MakeIterator(Runtime& runtime, const Value& iterable) {
  auto iterator = std::make_unique<CursorIterator>();
  if (!iterator->cursor.Open(runtime, iterable)) return Value::Failed();
  iterator->levels = iterable.depth() + 1;
  return runtime.New(Kind::kIterator, std::move(iterator));
}

}  // namespace coxswain::data::jinja
