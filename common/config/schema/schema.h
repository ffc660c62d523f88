// The one table of the job YAML. Validation, defaults, the effective job and the reference page all
// read it; nothing else knows a key's type, range or default.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_SCHEMA_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_SCHEMA_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/config/schema/key.h"

namespace coxswain::config {

// At most one of the two keys may be set to something other than null (or an empty list).
struct Exclusive {
  std::string_view first, second;
};

// Rows in the order of the reference page; a map stands before its keys.
const std::vector<Key>& Schema();
const std::vector<Exclusive>& ExclusiveKeys();

// Rows directly below a map row ("spec.train") or below the items of a list row
// ("spec.datasets[]"). The empty path gives the top level.
std::vector<const Key*> Children(std::string_view path);

// The row of a path; null: no such row.
const Key* FindKey(std::string_view path);

// Last part of a row's path: "seed".
std::string_view KeyName(const Key& key);

// "0 <= x < 1", ">= 1"; empty without limits.
std::string RangeText(const Range& range);

// Names of other tools that mean one of ours: "lora_r" -> "spec.lora.r", or a value of it,
// "load_in_4bit" -> "spec.adapter: qlora"; empty: none known.
std::string_view KnownAs(std::string_view foreign_key);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_SCHEMA_H_
