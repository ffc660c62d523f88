// A row of the schema: what one key of a job may be.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_KEY_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_KEY_H_

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "common/config/local_path.h"

namespace coxswain::config {

enum class Type {
  kMap,        // keys are the rows below it
  kMapList,    // list of maps whose keys are the rows below "<path>[]"
  kStringMap,  // free string keys, string values
  kString,
  kName,     // DNS-1123 label
  kWord,     // one of `words`
  kModules,  // a module or a list of modules: words, paths behind a dot, regular expressions
  kStringList,
  kWordList,    // one of `words`, or a list of them
  kNumberList,  // of numbers in `range`
  kBool,
  kInt,
  kIntOrAuto,  // integer or "auto"
  kNumber,
  kNumberOrAuto,
  kNumberPair,  // list of two numbers
  kSize,        // bytes: integer or integer with KB MB GB TB KiB MiB GiB TiB
  kPath,        // local path, made absolute
  kResume,      // auto | never | <job>[:step] | path
  kTemplate,    // one of `words`, or the path of a Jinja file
  kValueMap,    // free keys, values of any kind
};

struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;  // min itself is outside
  bool max_open = false;
};

struct Key {
  std::string_view path;  // "spec.train.seed"; in a list "spec.datasets[].path"
  Type type = Type::kMap;
  // Default as YAML text; nullptr: required (maps: all defaults).
  const char* def = nullptr;
  Range range = {};                          // of numbers; of a list: of each number in it
  std::vector<std::string_view> words = {};  // allowed words
  std::vector<std::string_view> later = {};  // known words that are refused: not supported yet
  std::string_view doc = {};
  bool nullable = false;      // null is a value of its own, else only absence means the default
  bool only_default = false;  // known key, but any value except the default is not supported yet
  PathUse path_use = PathUse::kRead;  // of a path
  std::string_view count_key = {};  // of a word: a map {count_key: integer in range} is a value too
  std::vector<std::pair<std::string_view, std::string_view>> short_forms = {};  // bf16 -> bfloat16
  std::string_view shorthand = {};  // a scalar in place of this map means {shorthand: scalar}
  // What jobs did that were accepted before the key existed (stored_job.h), as YAML text; nullptr:
  // what the default says.
  const char* before = nullptr;
  std::string_view children_of = {};  // list whose item keys are these rows instead of its own
};

// Ranges of numbers that many rows of the schema share.

inline constexpr double kMaxCount = 9007199254740992.0;  // 2^53: exact in a double
inline constexpr Range kAtLeastZero = {.min = 0, .max = kMaxCount};
inline constexpr Range kAtLeastOne = {.min = 1, .max = kMaxCount};
inline constexpr Range kNonNegative = {.min = 0};
inline constexpr Range kPositive = {.min = 0, .min_open = true};
inline constexpr Range kFraction = {.min = 0, .max = 1};
inline constexpr Range kBelowOne = {.min = 0, .max = 1, .max_open = true};

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_KEY_H_
