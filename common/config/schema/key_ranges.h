// Ranges of numbers that many rows of the schema share.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_KEY_RANGES_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_KEY_RANGES_H_

#include "common/config/schema/key.h"

namespace coxswain::config {

inline constexpr double kMaxCount = 9007199254740992.0;  // 2^53: exact in a double
inline constexpr Range kAtLeastZero = {.min = 0, .max = kMaxCount};
inline constexpr Range kAtLeastOne = {.min = 1, .max = kMaxCount};
inline constexpr Range kNonNegative = {.min = 0};
inline constexpr Range kPositive = {.min = 0, .min_open = true};
inline constexpr Range kFraction = {.min = 0, .max = 1};
inline constexpr Range kBelowOne = {.min = 0, .max = 1, .max_open = true};

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_KEY_RANGES_H_
