// Containers of values: lists, tuples, dicts, views of dicts, ranges and namespaces.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CONTAINERS_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CONTAINERS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/text/jinja/values/value.h"

namespace coxswain::data::jinja {

struct List : Object {
  explicit List(std::vector<Value> values) : items(std::move(values)) {
    levels = 1;
    for (const Value& item : items) {
      levels = std::max(levels, item.depth() + 1);
      weight += item.weight();
    }
  }
  const std::vector<Value> items;
};

// Marks a tuple of groupby: its items are also its attributes `grouper` and `list`.
inline constexpr uint8_t kGroupTuple = 1;

inline Value MakeList(std::vector<Value> items) {
  return Value(Kind::kList, new List(std::move(items)));
}
inline Value MakeTuple(std::vector<Value> items, uint8_t detail = 0) {
  return Value(Kind::kTuple, new List(std::move(items)), detail);
}

// -1, 0 or 1; 2 when a NaN makes all comparisons false. Integers beyond 2^53 compare exactly.
int CompareNumbers(const Value& a, const Value& b);
// Python's ==.
bool Equal(const Value& a, const Value& b);

struct KeyHash {
  size_t operator()(const Value& key) const;
};
struct KeyEqual {
  bool operator()(const Value& a, const Value& b) const;
};

// Keeps the order of insertion. Keys are equal as in Python: 1, 1.0 and True are one key. Every key
// must be hashable (see Hashable); the code that builds a dict checks it.
struct Dict : Object {
  using Entry = std::pair<Value, Value>;

  Dict() { levels = 1; }
  const Value* Find(const Value& key) const;  // nullptr: not there
  const Value* Find(std::string_view key) const;
  // Sets or replaces a value. Call it only while nothing else refers to the dict.
  void Set(const Value& key, const Value& value);
  void Clear();
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }

 private:
  // Up to so many entries are searched one by one; more get an index.
  static constexpr size_t kScanned = 8;
  using Index = absl::flat_hash_map<Value, size_t, KeyHash, KeyEqual>;

  const Entry* Locate(const Value& key) const;
  std::vector<Entry> entries_;
  std::unique_ptr<Index> index_;
};

inline Value MakeDict(std::unique_ptr<Dict> dict) { return Value(Kind::kDict, dict.release()); }

// range(start, stop, step); step is not 0.
struct Range : Object {
  Range(int64_t first, int64_t end, int64_t stride) : start(first), stop(end), step(stride) {}
  int64_t Length() const;
  int64_t At(int64_t i) const { return start + i * step; }
  const int64_t start;
  const int64_t stop;
  const int64_t step;
};

enum class ViewOf : uint8_t { kKeys, kValues, kItems };

struct View : Object {
  View(Value of, ViewOf what) : dict(std::move(of)), view(what) {
    levels = dict.depth() + 2;
    weight = dict.weight();
  }
  Value At(size_t i) const;
  size_t size() const { return dict.dict().size(); }
  const Value dict;
  const ViewOf view;
};

// The only object that a template can change: {% set ns.name = value %}. A namespace may hold
// itself, so Runtime empties all namespaces at the end of a rendering.
struct Namespace : Object {
  Dict attributes;
};

inline const List& Value::list() const { return *static_cast<const List*>(object()); }
inline const Dict& Value::dict() const { return *static_cast<const Dict*>(object()); }

// True when Python's hash() accepts the value: it is no list, dict or view, and no tuple with one
// of these.
bool Hashable(const Value& value);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_CONTAINERS_H_
