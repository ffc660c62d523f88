// A router at a time: they are few.
#include "kernels/experts/balance_bias.h"

namespace coxswain::kernels {

void BalanceBias(const BalanceBiasArgs& args, Stream* /*stream*/) {
  if (*args.skip != 0 || *args.rate == 0.0f) return;
  for (int64_t r = 0; r < args.routers; ++r) {
    const double* counts = args.counts + r * args.stride;
    float* bias = args.bias + r * args.experts;
    double all = 0.0;
    for (int64_t e = 0; e < args.experts; ++e) all += counts[e];
    for (int64_t e = 0; e < args.experts; ++e) {
      const double own = counts[e] * static_cast<double>(args.experts);
      if (own < all) bias[e] += *args.rate;
      if (own > all) bias[e] -= *args.rate;
    }
  }
}

}  // namespace coxswain::kernels
