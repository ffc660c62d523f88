#include "common/model/config_keys.h"

#include <limits>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain::model {

using Json = nlohmann::json;

ConfigKeys::ConfigKeys(const Json& object, std::string where)
    : object_(object), where_(std::move(where)) {}

bool ConfigKeys::Has(const char* key) { return !(*this)[key].is_null(); }

bool ConfigKeys::IsNull(const char* key) { return object_.contains(key) && (*this)[key].is_null(); }

const Json& ConfigKeys::operator[](const char* key) {
  static const Json kNull;
  read_.insert(key);
  if (const auto it = object_.find(key); it != object_.end()) return *it;
  const auto usual = defaults_.find(key);
  return usual == defaults_.end() ? kNull : usual->second;
}

void ConfigKeys::Default(const char* key, int64_t value) { defaults_[key] = value; }

template <typename T>
T ConfigKeys::Absent(const char* key, const std::optional<T>& fallback) {
  if (fallback.has_value()) return *fallback;
  Fail(absl::StrCat(key, " is missing"));
  return T{1};
}

template <typename T>
T ConfigKeys::Wrong(const char* key, const char* expected) {
  Fail(absl::StrCat(key, " is ", (*this)[key].dump(), ", expected ", expected));
  if constexpr (std::is_arithmetic_v<T>) return T{1};
  return T{};
}

int64_t ConfigKeys::Int(const char* key, std::optional<int64_t> fallback) {
  if (!Has(key)) return Absent(key, fallback);
  if (!(*this)[key].is_number_integer()) return Wrong<int64_t>(key, "an integer");
  const int64_t value = (*this)[key].get<int64_t>();
  if (value < 1 || value > std::numeric_limits<int32_t>::max()) {
    return Wrong<int64_t>(key, "between 1 and 2147483647");
  }
  return value;
}

int64_t ConfigKeys::Count(const char* key, std::optional<int64_t> fallback) {
  return Has(key) && (*this)[key] == 0 ? 0 : Int(key, fallback);
}

double ConfigKeys::Positive(const char* key, std::optional<double> fallback) {
  if (!Has(key)) return Absent(key, fallback);
  if (!(*this)[key].is_number() || !((*this)[key].get<double>() > 0)) {
    return Wrong<double>(key, "a number above 0");
  }
  return (*this)[key].get<double>();
}

bool ConfigKeys::Bool(const char* key, bool fallback) {
  if (!Has(key)) return fallback;
  if (!(*this)[key].is_boolean()) return Wrong<bool>(key, "true or false");
  return (*this)[key].get<bool>();
}

std::string ConfigKeys::String(const char* key, const std::string& fallback) {
  if (!Has(key)) return fallback;
  if (!(*this)[key].is_string()) return Wrong<std::string>(key, "a string");
  return (*this)[key].get<std::string>();
}

void ConfigKeys::OnlyZero(const char* key) {
  if (!Has(key) || (*this)[key] == 0 || not_applied_.count(key) != 0) return;
  Fail(absl::StrCat(key, " is ", (*this)[key].dump(), ", only 0 is supported"));
}

void ConfigKeys::NotApplied(const char* key) {
  not_applied_.insert(key);
  if (!Has(key) || (*this)[key] == 0) return;
  warnings_.push_back(
      absl::StrCat(where_, ": ", key, " ", (*this)[key].dump(), " is not applied in training"));
}

void ConfigKeys::Fail(const std::string& what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", what));
}

std::vector<std::string> ConfigKeys::Unread() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : object_.items()) {
    if (read_.count(key) == 0) unread.push_back(key);
  }
  return unread;
}

}  // namespace coxswain::model
