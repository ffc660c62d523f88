// One pass, 12 bytes per output element forward and 20 backward; GELU is recomputed
// (gelu.h).
#include "kernels/activations/gates.h"

#include "kernels/cpu/activations/gelu.h"
#include "kernels/cpu/amax.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/norms/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

template <bool kTanh>
COXSWAIN_INLINE void Forward(const float* gate, const float* up, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = cpu::Gelu<kTanh>(gate[j]).value * up[j];
}

// y may be dy.
template <bool kTanh, bool kWantsY>
COXSWAIN_INLINE void Backward(const float* dy, float* gate, float* up, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const cpu::GeluPoint gelu = cpu::Gelu<kTanh>(gate[j]);
    const float b = up[j], d = dy[j];
    gate[j] = d * b * gelu.slope;
    up[j] = d * gelu.value;
    if (kWantsY) y[j] = gelu.value * b;
  }
}

COXSWAIN_VECTORIZE void ForwardTanh(const float* gate, const float* up, float* y, int64_t n) {
  Forward<true>(gate, up, y, n);
}
COXSWAIN_VECTORIZE void ForwardErf(const float* gate, const float* up, float* y, int64_t n) {
  Forward<false>(gate, up, y, n);
}
COXSWAIN_VECTORIZE void BackwardTanh(const float* dy, float* gate, float* up, int64_t n) {
  Backward<true, false>(dy, gate, up, nullptr, n);
}
COXSWAIN_VECTORIZE void BackwardErf(const float* dy, float* gate, float* up, int64_t n) {
  Backward<false, false>(dy, gate, up, nullptr, n);
}
COXSWAIN_VECTORIZE void BackwardTanhWithOutput(const float* dy, float* gate, float* up, float* y,
                                               int64_t n) {
  Backward<true, true>(dy, gate, up, y, n);
}
COXSWAIN_VECTORIZE void BackwardErfWithOutput(const float* dy, float* gate, float* up, float* y,
                                              int64_t n) {
  Backward<false, true>(dy, gate, up, y, n);
}

void BackwardRow(bool tanh, const float* dy, float* gate, float* y, int64_t n) {
  float* up = gate + n;
  if (y == nullptr) {
    tanh ? BackwardTanh(dy, gate, up, n) : BackwardErf(dy, gate, up, n);
  } else {
    tanh ? BackwardTanhWithOutput(dy, gate, up, y, n) : BackwardErfWithOutput(dy, gate, up, y, n);
  }
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
      cpu::RaiseAmax(y, n, args.amax);
    }
  });
}

void GegluBackward(const GegluBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GegluSupports(args.spec), "Geglu");
  const int64_t n = args.spec.intermediate;
  cpu::ParallelFor(args.rows, 16 * n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* dy = static_cast<const float*>(args.dy) + t * n;
      float* gate = cpu::RowForGradient(args.gate_up, args.gradient, t, 2 * n);
      BackwardRow(args.spec.tanh, dy, gate,
                  args.y == nullptr ? nullptr : static_cast<float*>(args.y) + t * n, n);
      cpu::RaiseAmax(gate, 2 * n, args.amax);
    }
  });
}

}  // namespace coxswain::kernels
