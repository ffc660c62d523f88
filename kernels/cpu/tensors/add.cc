#include "kernels/tensors/add.h"

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"

namespace coxswain::kernels {
void Add(const AddArgs& args, Stream* stream) {
  cpu::RequireSupported(args.dtype == DType::kFloat32 && args.x_dtype == DType::kFloat32, "Add");
  const float* x = static_cast<const float*>(args.x);
  float* y = static_cast<float*>(args.y);
  cpu::ParallelFor(args.count, 1, [&](int64_t begin, int64_t end) {
    cpu::AddScaled(args.alpha, x + begin, y + begin, end - begin);
  });
}

}  // namespace coxswain::kernels
