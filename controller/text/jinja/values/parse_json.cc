#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/operators.h"

namespace coxswain::data::jinja {
namespace {

absl::Status TooDeep() {
  return absl::InvalidArgumentError(
      absl::StrCat("JSON is nested deeper than ", kMaxValueDepth, " levels"));
}

Value Unsigned(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX)) return Value::Int(static_cast<int64_t>(value));
  return Value(Kind::kBigInt, new String(absl::StrCat(value), false));
}

// Builds a value from the events of nlohmann's parser, which does not recurse.
class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add(Value::None()); }
  bool boolean(bool value) override { return Add(Value::Bool(value)); }
  bool number_integer(int64_t value) override { return Add(Value::Int(value)); }
  bool number_unsigned(uint64_t value) override { return Add(Unsigned(value)); }
  bool number_float(double value, const std::string& token) override {
    if (token.find_first_of(".eE") != std::string::npos) return Add(Value::Float(value));
    return Add(Value(Kind::kBigInt, new String(token, false)));
  }
  bool string(std::string& value) override { return Add(Value::Text(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(std::make_unique<Dict>()); }
  bool key(std::string& value) override {
    open_.back().key = Value::Text(std::move(value));
    return true;
  }
  bool end_object() override {
    Value dict = MakeDict(std::move(open_.back().dict));
    return Close(std::move(dict));
  }
  bool start_array(size_t) override { return Open(nullptr); }
  bool end_array() override {
    Value list = MakeList(std::move(open_.back().items));
    return Close(std::move(list));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    status_ = absl::InvalidArgumentError(absl::StrCat("not JSON at byte ", position));
    return false;
  }

  const absl::Status& status() const { return status_; }
  Value result;

 private:
  struct Level {
    std::unique_ptr<Dict> dict;  // null: an array
    std::vector<Value> items;
    Value key;
  };

  bool Open(std::unique_ptr<Dict> dict) {
    if (open_.size() >= static_cast<size_t>(kMaxValueDepth)) {
      status_ = TooDeep();
      return false;
    }
    open_.push_back({std::move(dict), {}, {}});
    return true;
  }
  bool Close(Value value) {
    open_.pop_back();
    return Add(std::move(value));
  }
  bool Add(Value value) {
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().dict != nullptr) {
      open_.back().dict->Set(open_.back().key, value);
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Level> open_;
  absl::Status status_;
};

absl::StatusOr<Value> FromJsonAt(const nlohmann::ordered_json& json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > kMaxValueDepth) return TooDeep();
  switch (json.type()) {
    case Type::boolean:
      return Value::Bool(json.get<bool>());
    case Type::number_integer:
      return Value::Int(json.get<int64_t>());
    case Type::number_unsigned:
      return Unsigned(json.get<uint64_t>());
    case Type::number_float:
      return Value::Float(json.get<double>());
    case Type::string:
      return Value::Text(json.get_ref<const std::string&>());
    case Type::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) {
        absl::StatusOr<Value> value = FromJsonAt(item, depth + 1);
        if (!value.ok()) return value.status();
        items.push_back(*std::move(value));
      }
      return MakeList(std::move(items));
    }
    case Type::object: {
      auto dict = std::make_unique<Dict>();
      for (const auto& [key, item] : json.items()) {
        absl::StatusOr<Value> value = FromJsonAt(item, depth + 1);
        if (!value.ok()) return value.status();
        dict->Set(Value::Text(key), *value);
      }
      return MakeDict(std::move(dict));
    }
    default:
      return Value::None();
  }
}

}  // namespace

absl::StatusOr<Value> ParseJson(std::string_view text) {
  JsonBuilder builder;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return builder.result;
  if (!builder.status().ok()) return builder.status();
  return absl::InvalidArgumentError("not JSON");
}

absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json) { return FromJsonAt(json, 1); }

}  // namespace coxswain::data::jinja
