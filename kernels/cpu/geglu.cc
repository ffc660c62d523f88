// One pass, 12 bytes per output element forward and 20 backward; GELU is recomputed
// (gelu_point.h).
#include "kernels/geglu.h"

#include "kernels/cpu/check.h"
#include "kernels/cpu/gelu_point.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

template <bool kTanh>
COXSWAIN_INLINE void Forward(const float* gate, const float* up, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = cpu::Gelu<kTanh>(gate[j]).value * up[j];
}

template <bool kTanh>
COXSWAIN_INLINE void Backward(const float* dy, float* gate, float* up, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const cpu::GeluPoint gelu = cpu::Gelu<kTanh>(gate[j]);
    const float d = dy[j];
    gate[j] = d * up[j] * gelu.slope;
    up[j] = d * gelu.value;
  }
}

COXSWAIN_VECTORIZE void ForwardTanh(const float* gate, const float* up, float* y, int64_t n) {
  Forward<true>(gate, up, y, n);
}
COXSWAIN_VECTORIZE void ForwardErf(const float* gate, const float* up, float* y, int64_t n) {
  Forward<false>(gate, up, y, n);
}
COXSWAIN_VECTORIZE void BackwardTanh(const float* dy, float* gate, float* up, int64_t n) {
  Backward<true>(dy, gate, up, n);
}
COXSWAIN_VECTORIZE void BackwardErf(const float* dy, float* gate, float* up, int64_t n) {
  Backward<false>(dy, gate, up, n);
}

}  // namespace

bool GegluSupports(const GegluSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.intermediate > 0;
}

void GegluForward(const GegluForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GegluSupports(args.spec), "Geglu");
  const int64_t n = args.spec.intermediate;
  cpu::ParallelFor(args.rows, 16 * n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* gate = static_cast<const float*>(args.gate_up) + t * 2 * n;
      float* y = static_cast<float*>(args.y) + t * n;
      args.spec.tanh ? ForwardTanh(gate, gate + n, y, n) : ForwardErf(gate, gate + n, y, n);
    }
  });
}

void GegluBackward(const GegluBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GegluSupports(args.spec), "Geglu");
  const int64_t n = args.spec.intermediate;
  cpu::ParallelFor(args.rows, 16 * n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* dy = static_cast<const float*>(args.dy) + t * n;
      float* gate = static_cast<float*>(args.gate_up) + t * 2 * n;
      args.spec.tanh ? BackwardTanh(dy, gate, gate + n, n) : BackwardErf(dy, gate, gate + n, n);
    }
  });
}

}  // namespace coxswain::kernels
