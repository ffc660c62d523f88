// Logits, targets and the hits they have, for both libraries.
#ifndef COXSWAIN_TESTS_KERNELS_LOSS_TARGET_HITS_CASES_H_
#define COXSWAIN_TESTS_KERNELS_LOSS_TARGET_HITS_CASES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/loss/cross_entropy.h"

namespace coxswain::kernels {

struct TargetHitsCase {
  std::vector<float> logits;
  std::vector<int32_t> targets;
  std::vector<float> hits;
};

// Every other target is the first maximum of its row of `normal`, which is rounded to have many
// equal ones.
inline TargetHitsCase RoundedTargetHits(std::vector<float> normal, int64_t vocab) {
  for (float& z : normal) z = std::round(z);
  TargetHitsCase result{.logits = std::move(normal), .targets = {}, .hits = {}};
  const auto rows = static_cast<int64_t>(result.logits.size()) / vocab;
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = result.logits.data() + i * vocab;
    const auto first = static_cast<int32_t>(std::max_element(row, row + vocab) - row);
    result.targets.push_back(i % 2 == 0 ? first : static_cast<int32_t>(i * 31 % vocab));
    result.hits.push_back(result.targets.back() == first ? 1.0f : 0.0f);
  }
  return result;
}

// Rows that are ignored or hold a NaN.
inline TargetHitsCase NoTargetHits() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {.logits = {5, 1, nan, 5, nan, 5, nan, 1, 5, 1},
          .targets = {kIgnoreTarget, 1, 1, 0, 2},
          .hits = {0, 0, 0, 0, 0}};
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_LOSS_TARGET_HITS_CASES_H_
