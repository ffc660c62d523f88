// One pass, 8 bytes per element forward and 12 backward; GELU is recomputed (gelu.h).
#include "kernels/cpu/activations/gelu.h"

#include "kernels/activations/gates.h"
#include "kernels/cpu/amax.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/norms/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

template <bool kTanh>
COXSWAIN_INLINE void Forward(const float* x, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = cpu::Gelu<kTanh>(x[j]).value;
}

template <bool kTanh>
COXSWAIN_INLINE void Backward(const float* dy, float* x, int64_t n) {
  for (int64_t j = 0; j < n; ++j) x[j] = dy[j] * cpu::Gelu<kTanh>(x[j]).slope;
}

COXSWAIN_VECTORIZE void ForwardTanh(const float* x, float* y, int64_t n) { Forward<true>(x, y, n); }
COXSWAIN_VECTORIZE void ForwardErf(const float* x, float* y, int64_t n) { Forward<false>(x, y, n); }
COXSWAIN_VECTORIZE void BackwardTanh(const float* dy, float* x, int64_t n) {
  Backward<true>(dy, x, n);
}
COXSWAIN_VECTORIZE void BackwardErf(const float* dy, float* x, int64_t n) {
  Backward<false>(dy, x, n);
}

}  // namespace

bool GeluSupports(const GeluSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.columns > 0;
}

void GeluForward(const GeluForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GeluSupports(args.spec), "Gelu");
  const int64_t n = args.spec.columns;
  cpu::ParallelFor(args.rows, 16 * n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = static_cast<const float*>(args.x) + t * n;
      float* y = static_cast<float*>(args.y) + t * n;
      args.spec.tanh ? ForwardTanh(x, y, n) : ForwardErf(x, y, n);
      cpu::RaiseAmax(y, n, args.amax);
    }
  });
}

void GeluBackward(const GeluBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GeluSupports(args.spec), "Gelu");
  const int64_t n = args.spec.columns;
  cpu::ParallelFor(args.rows, 16 * n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* dy = static_cast<const float*>(args.dy) + t * n;
      float* x = cpu::RowForGradient(args.x, args.gradient, t, n);
      args.spec.tanh ? BackwardTanh(dy, x, n) : BackwardErf(dy, x, n);
      cpu::RaiseAmax(x, n, args.amax);
    }
  });
}

}  // namespace coxswain::kernels
