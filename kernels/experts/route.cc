// What a spec must be for the CPU and for CUDA.
#include "kernels/experts/route.h"

namespace coxswain::kernels {

bool RouteSupports(const RouteSpec& spec) {
  const bool counts = spec.experts > 0 && spec.experts <= kMostExperts && spec.chosen > 0 &&
                      spec.chosen <= spec.experts;
  if (!counts || spec.groups < 1 || spec.top_groups < 1 || spec.top_groups > spec.groups ||
      spec.experts % spec.groups != 0) {
    return false;
  }
  if (spec.score == RouterScore::kSoftmax) return spec.groups == 1;
  return spec.score == RouterScore::kSigmoid &&
         spec.experts / spec.groups * spec.top_groups >= spec.chosen;
}

}  // namespace coxswain::kernels
