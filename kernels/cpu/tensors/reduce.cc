#include "kernels/tensors/reduce.h"

#include "kernels/cpu/check.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE double SumValues(const float* values, int64_t n) {
  double lanes[cpu::kLanes] = {};
  int64_t i = 0;
  for (; i + cpu::kLanes <= n; i += cpu::kLanes) {
    for (int64_t j = 0; j < cpu::kLanes; ++j) lanes[j] += static_cast<double>(values[i + j]);
  }
  for (int64_t j = 0; i + j < n; ++j) lanes[j] += static_cast<double>(values[i + j]);
  return cpu::SumLanes(lanes);
}

}  // namespace

void Sum(const SumArgs& args, Stream* stream) {
  cpu::RequireExtent(args.count, "Sum", "count");
  const double sum = SumValues(args.values, args.count);
  *args.sum = args.accumulate ? *args.sum + sum : sum;
}

}  // namespace coxswain::kernels
