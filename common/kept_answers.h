// What a worker keeps of a gang for a controller that comes after the one that it serves.
#ifndef COXSWAIN_COMMON_KEPT_ANSWERS_H_
#define COXSWAIN_COMMON_KEPT_ANSWERS_H_

#include <cstddef>

namespace coxswain {

// Answers to the newest commands of its epoch; older ones cannot be asked for again.
inline constexpr size_t kKeptAnswers = 256;

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_KEPT_ANSWERS_H_
