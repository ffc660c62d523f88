// Typed access to the keys of a config.json.
#ifndef COXSWAIN_COMMON_MODEL_CONFIG_KEYS_H_
#define COXSWAIN_COMMON_MODEL_CONFIG_KEYS_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::model {

// Of one JSON object, which must outlive it. The first wrong key is kept as the error. A null
// counts as absent.
class ConfigKeys {
 public:
  // `where` names the object in messages.
  ConfigKeys(const nlohmann::json& object, std::string where);

  bool Has(const char* key);
  // The key is there, with null as its value.
  bool IsNull(const char* key);
  // Null when absent.
  const nlohmann::json& operator[](const char* key);

  // What an absent integer is: it counts as there.
  void Default(const char* key, int64_t value);

  // In 1..2^31-1, which keeps every product of two extents inside int64. Without a fallback an
  // absent key is an error.
  int64_t Int(const char* key, std::optional<int64_t> fallback = std::nullopt);
  // Likewise in 0..2^31-1.
  int64_t Count(const char* key, std::optional<int64_t> fallback = std::nullopt);
  double Positive(const char* key, std::optional<double> fallback = std::nullopt);
  bool Bool(const char* key, bool fallback);
  std::string String(const char* key, const std::string& fallback);

  // Fails a value other than 0 (absent, null: 0), but after NotApplied, which warns of it instead.
  void OnlyZero(const char* key);
  void NotApplied(const char* key);

  void Fail(const std::string& what);
  const absl::Status& status() const { return status_; }

  // Keys of the object that nobody asked for, in its order.
  std::vector<std::string> Unread() const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  template <typename T>
  T Absent(const char* key, const std::optional<T>& fallback);
  template <typename T>
  T Wrong(const char* key, const char* expected);

  const nlohmann::json& object_;
  const std::string where_;
  std::map<std::string, nlohmann::json> defaults_;
  std::set<std::string> read_, not_applied_;
  std::vector<std::string> warnings_;
  absl::Status status_;
};

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_CONFIG_KEYS_H_
