#include "kernels/tensors/scale.h"

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE void ScaleRange(float factor, float* x, int64_t n) {
  for (int64_t j = 0; j < n; ++j) x[j] *= factor;
}

}  // namespace

void Scale(const ScaleArgs& args, Stream* stream) {
  cpu::RequireSupported(args.dtype == DType::kFloat32, "Scale");
  const float factor = *args.factor;
  if (factor == 1.0f) return;
  float* x = static_cast<float*>(args.x);
  cpu::ParallelFor(args.count, 1,
                   [&](int64_t begin, int64_t end) { ScaleRange(factor, x + begin, end - begin); });
}

}  // namespace coxswain::kernels
