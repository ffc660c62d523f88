#include "kernels/quantize/fp8_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/check.h"

namespace coxswain::kernels {
namespace {

// Reads and clears what all ranks observed of operand i.
float TakeObserved(const Fp8MoveHistoryArgs& args, int64_t i) {
  float largest = 0.0f;
  for (int64_t rank = 0; rank < args.ranks; ++rank) {
    float& observed = args.observed[rank * args.stride + i];
    largest = std::max(largest, observed);
    observed = 0.0f;
  }
  return largest;
}

}  // namespace

void Fp8JudgeObserved(const Fp8JudgeObservedArgs& args, Stream* stream) {
  cpu::RequireExtent(args.ranks, "Fp8JudgeObserved", "ranks");
  cpu::RequireExtent(args.operands, "Fp8JudgeObserved", "operands");
  int64_t nonfinite = 0;
  for (int64_t rank = 0; rank < args.ranks; ++rank) {
    const float* const observed = args.observed + rank * args.stride;
    nonfinite += std::count_if(observed, observed + args.operands,
                               [](float amax) { return !std::isfinite(amax); });
  }
  if (nonfinite == 0) return;
  args.sums->nonfinite += static_cast<double>(nonfinite);
  args.sums->sum_squares = std::numeric_limits<double>::quiet_NaN();
}

void Fp8MoveHistory(const Fp8MoveHistoryArgs& args, Stream* stream) {
  cpu::RequireExtent(args.ranks, "Fp8MoveHistory", "ranks");
  cpu::RequireExtent(args.operands, "Fp8MoveHistory", "operands");
  for (int64_t i = 0; i < args.operands; ++i) {
    float* const history = args.history + i * kFp8History;
    if (args.observed != nullptr) {
      const float observed = TakeObserved(args, i);
      if (*args.skip == 0) history[*args.updates % kFp8History] = observed;
    }
    const float largest = *std::max_element(history, history + kFp8History);
    args.expected[i] = std::min(kFp8Margin * largest, std::numeric_limits<float>::max());
  }
}

}  // namespace coxswain::kernels
