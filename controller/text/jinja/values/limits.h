// Limits on the cost of a template, because templates are untrusted.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_LIMITS_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_LIMITS_H_

#include <cstdint>

namespace coxswain::data::jinja {

// Defaults are far above the needs of published models: their templates render a conversation of a
// hundred turns in some ten thousand steps.
struct Limits {
  int64_t steps = 20'000'000;          // evaluated nodes, plus read bytes / 16
  int depth = 1000;                    // nested evaluations; a macro call has about ten
  int64_t output_bytes = 256LL << 20;  // of the rendering
  int64_t value_bytes = 1024LL << 20;  // of all values that the template makes
};

// Levels of lists and dicts in a value. Python's own limit for json and repr is near 1000.
inline constexpr int kMaxValueDepth = 200;
// Largest Value::weight of a list or dict. Lists that hold one list twice, level by level, grow
// like 2^n.
inline constexpr int64_t kMaxValueWeight = 1 << 24;

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_LIMITS_H_
