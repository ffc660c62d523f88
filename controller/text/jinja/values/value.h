// A value of a template: 16 bytes, as cheap to copy as a counted pointer.
//
// Values in a template are immutable, except namespaces, iterators, loops, cyclers and joiners.
// Reference counts are not atomic: a value and its copies belong to one thread at a time. Constants
// of a parsed template are not counted, so that threads can share a template.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_VALUE_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_VALUE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace coxswain::data::jinja {

enum class Kind : uint8_t {
  kMissing,    // no value: a variable before it is set, an argument that was not given
  kFailed,     // evaluation failed; Runtime::failure has the reason
  kUndefined,  // jinja2's Undefined
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInt,  // an integer of the input above 64 bits, stored as digits
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,      // of a dict: its keys, values or items
  kIterator,  // result of filters such as map: lazy, can be read once
  kNamespace,
  kMacro,
  kFunction,  // a builtin function, or a method with its receiver
  kLoop,
  kCycler,
  kJoiner,
};

// The origin of an undefined value. It decides the message.
enum class UndefinedBy : uint8_t {
  kName,       // the object is the variable's name
  kAttribute,  // the object is the attribute's name
  kElement,    // the object is Python's representation of the subscript
  kHint,       // the object is the message
  kUnsafe,     // the object is the message of a SecurityError
};

struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  static constexpr uint32_t kUncounted = 1U << 31;
  uint32_t references = 0;
  int levels = 0;  // levels of nested values; bounded, so that walks and releases may recurse
  // The cost of a walk over the value: nodes, each as often as it is visited, and one per 64 bytes
  // of text.
  int64_t weight = 1;
};

struct String;
struct List;
struct Dict;

class Value {
 public:
  Value() noexcept : payload_{.integer = 0} {}
  Value(Kind kind, Object* object, uint8_t detail = 0) noexcept
      : kind_(kind), detail_(detail), payload_{.object = object} {
    Retain();
  }
  Value(const Value& other) noexcept { CopyBits(other), Retain(); }
  Value(Value&& other) noexcept {
    CopyBits(other);
    other.kind_ = Kind::kMissing;
  }
  Value& operator=(const Value& other) noexcept {
    Value copy(other);
    Swap(copy);
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~Value() { Release(); }

  static Value None() { return Value(Kind::kNone, int64_t{0}); }
  static Value Failed() { return Value(Kind::kFailed, int64_t{0}); }
  static Value Bool(bool value) { return Value(Kind::kBool, static_cast<int64_t>(value)); }
  static Value Int(int64_t value) { return Value(Kind::kInt, value); }
  static Value Float(double value);
  static Value Text(std::string text, bool markup = false);  // UTF-8
  // `name` is a string. `owner`: the kind of the object that lacks it.
  static Value Undefined(UndefinedBy by, const Value& name, Kind owner = Kind::kMissing);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool failed() const { return kind_ == Kind::kFailed; }
  bool missing() const { return kind_ == Kind::kMissing; }
  bool is_string() const { return kind_ == Kind::kString; }
  // A bool counts as an integer, as in Python.
  bool is_integer() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integer() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  int64_t integer() const { return payload_.integer; }  // kInt, kBool
  double number() const {
    return kind_ == Kind::kFloat ? payload_.real : static_cast<double>(payload_.integer);
  }
  Object* object() const { return payload_.object; }
  const String& string() const;
  std::string_view text() const;  // kString, kBigInt
  bool markup() const;            // a string that `safe` or `escape` made
  const List& list() const;       // kList, kTuple
  const Dict& dict() const;
  uint8_t detail() const { return detail_; }  // by kind: UndefinedBy, named tuples
  Kind owner() const { return owner_; }       // kUndefined

  int depth() const { return counted() ? payload_.object->levels : 0; }
  int64_t weight() const { return counted() ? payload_.object->weight : 1; }

 private:
  union Payload {
    int64_t integer;
    double real;
    Object* object;
  };

  Value(Kind kind, int64_t integer) noexcept : kind_(kind), payload_{.integer = integer} {}
  bool counted() const { return kind_ == Kind::kUndefined || kind_ > Kind::kFloat; }
  void CopyBits(const Value& other) {
    kind_ = other.kind_;
    detail_ = other.detail_;
    owner_ = other.owner_;
    payload_ = other.payload_;
  }
  void Swap(Value& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(detail_, other.detail_);
    std::swap(owner_, other.owner_);
    std::swap(payload_, other.payload_);
  }
  void Retain() const {
    if (counted() && payload_.object->references < Object::kUncounted) {
      ++payload_.object->references;
    }
  }
  void Release() {
    if (counted() && payload_.object->references < Object::kUncounted &&
        --payload_.object->references == 0) {
      delete payload_.object;
    }
  }

  Kind kind_ = Kind::kMissing;
  uint8_t detail_ = 0;
  Kind owner_ = Kind::kMissing;
  Payload payload_;
};

// A UTF-8 string. Its length counts code points, as in Python.
struct String : Object {
  String(std::string bytes, bool is_markup) : text(std::move(bytes)), markup(is_markup) {
    weight = 1 + static_cast<int64_t>(text.size() / 64);
  }
  int64_t Length() const;
  bool ascii() const { return Length() == static_cast<int64_t>(text.size()); }

  const std::string text;
  const bool markup;

 private:
  mutable int64_t length_ = -1;  // not counted yet
};

inline const String& Value::string() const { return *static_cast<const String*>(payload_.object); }
inline std::string_view Value::text() const { return string().text; }
inline bool Value::markup() const { return kind_ == Kind::kString && string().markup; }

// The name of the type in Python's messages.
std::string_view TypeName(Kind kind);
inline std::string_view TypeName(const Value& value) {
  return value.markup() ? "Markup" : TypeName(value.kind());
}

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_VALUE_H_
