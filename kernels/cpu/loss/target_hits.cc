// One read of a row: no logit before the target's may reach it, none behind it may exceed it. What
// does is counted, so that the loops have no exit and vectorise.
#include "kernels/loss/target_hits.h"

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE int64_t CountNotBelow(const float* z, float bound, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += !(z[i] < bound);
  return count;
}

COXSWAIN_VECTORIZE int64_t CountNotAtMost(const float* z, float bound, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += !(z[i] <= bound);
  return count;
}

bool IsHit(const float* z, int32_t target, int64_t vocab) {
  if (target < 0 || target >= vocab) return false;
  const float at_target = z[target];
  return CountNotBelow(z, at_target, target) == 0 &&
         CountNotAtMost(z + target, at_target, vocab - target) == 0;
}

}  // namespace

bool TargetHitsSupports(const TargetHitsSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.vocab > 0;
}

void TargetHits(const TargetHitsArgs& args, Stream* stream) {
  cpu::RequireSupported(TargetHitsSupports(args.spec), "TargetHits");
  const auto* logits = static_cast<const float*>(args.logits);
  const int64_t ld = cpu::RowStride(args.ld, args.spec.vocab, "TargetHits");
  cpu::ParallelFor(args.rows, args.spec.vocab, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* z = logits + row * ld;
      args.hits[row] = IsHit(z, args.targets[row], args.spec.vocab) ? 1.0f : 0.0f;
    }
  });
}

}  // namespace coxswain::kernels
