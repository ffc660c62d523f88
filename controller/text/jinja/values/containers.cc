#include "controller/text/jinja/values/containers.h"

#include <cmath>
#include <functional>

#include "absl/hash/hash.h"

namespace coxswain::data::jinja {
namespace {

bool EqualSequences(const List& a, const List& b) {
  return a.items.size() == b.items.size() &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), Equal);
}

bool EqualDicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = b.Find(entry.first);
    return other != nullptr && Equal(entry.second, *other);
  });
}

bool EqualRanges(const Range& a, const Range& b) {
  const int64_t length = a.Length();
  if (length != b.Length()) return false;
  return length == 0 || (a.start == b.start && (length == 1 || a.step == b.step));
}

}  // namespace

int CompareNumbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  const auto x = a.is(Kind::kFloat) ? static_cast<long double>(a.number())
                                    : static_cast<long double>(a.integer());
  const auto y = b.is(Kind::kFloat) ? static_cast<long double>(b.number())
                                    : static_cast<long double>(b.integer());
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y ? 1 : 0;
}

bool Equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
    case Kind::kBigInt:
      return a.object() == b.object() || a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return a.object() == b.object() || EqualSequences(a.list(), b.list());
    case Kind::kDict:
      return a.object() == b.object() || EqualDicts(a.dict(), b.dict());
    case Kind::kRange:
      return EqualRanges(*static_cast<const Range*>(a.object()),
                         *static_cast<const Range*>(b.object()));
    default:
      return a.object() == b.object();
  }
}

size_t KeyHash::operator()(const Value& key) const {
  switch (key.kind()) {
    case Kind::kString:
    case Kind::kBigInt:
      return absl::HashOf(key.text());
    case Kind::kBool:
    case Kind::kInt:
      return absl::HashOf(key.integer());
    case Kind::kFloat: {
      const double number = key.number();
      if (std::abs(number) < 9e18 && number == std::floor(number)) {
        return absl::HashOf(static_cast<int64_t>(number));
      }
      return absl::HashOf(number);
    }
    case Kind::kTuple: {
      size_t hash = 0;
      for (const Value& item : key.list().items) hash = absl::HashOf(hash, (*this)(item));
      return hash;
    }
    default:
      return static_cast<size_t>(key.kind());
  }
}

bool KeyEqual::operator()(const Value& a, const Value& b) const { return Equal(a, b); }

const Dict::Entry* Dict::Locate(const Value& key) const {
  if (index_ != nullptr) {
    const auto found = index_->find(key);
    return found == index_->end() ? nullptr : &entries_[found->second];
  }
  for (const Entry& entry : entries_) {
    if (Equal(entry.first, key)) return &entry;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const {
  const Entry* entry = Locate(key);
  return entry == nullptr ? nullptr : &entry->second;
}

const Value* Dict::Find(std::string_view key) const {
  if (index_ != nullptr) return Find(Value::Text(std::string(key)));
  for (const Entry& entry : entries_) {
    if (entry.first.is_string() && entry.first.text() == key) return &entry.second;
  }
  return nullptr;
}

void Dict::Set(const Value& key, const Value& value) {
  levels = std::max({levels, value.depth() + 1, key.depth() + 1});
  weight += key.weight() + value.weight();
  if (const Entry* entry = Locate(key); entry != nullptr) {
    entries_[static_cast<size_t>(entry - entries_.data())].second = value;
    return;
  }
  if (index_ != nullptr) index_->emplace(key, entries_.size());
  entries_.emplace_back(key, value);
  if (index_ == nullptr && entries_.size() > kScanned) {
    index_ = std::make_unique<Index>();
    for (size_t i = 0; i < entries_.size(); ++i) index_->emplace(entries_[i].first, i);
  }
}

void Dict::Clear() {
  index_.reset();
  std::vector<Entry>().swap(entries_);
}

int64_t Range::Length() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value View::At(size_t i) const {
  const Dict::Entry& entry = dict.dict().entries()[i];
  if (view == ViewOf::kKeys) return entry.first;
  if (view == ViewOf::kValues) return entry.second;
  return MakeTuple({entry.first, entry.second});
}

bool Hashable(const Value& value) {
  if (value.is(Kind::kTuple)) {
    return std::all_of(value.list().items.begin(), value.list().items.end(), Hashable);
  }
  return !value.is(Kind::kList) && !value.is(Kind::kDict) && !value.is(Kind::kView);
}

}  // namespace coxswain::data::jinja
