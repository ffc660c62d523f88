// One pass, 12 bytes per output element forward and 20 backward; the logistic function is
// recomputed. A clamp is one comparison that a NaN fails, so that NaN stays.
#include "kernels/activations/gates.h"

#include "kernels/cpu/amax.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/norms/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_INLINE float Upper(float x, float limit) { return x > limit ? limit : x; }
COXSWAIN_INLINE float Within(float x, float limit) { return Upper(x < -limit ? -limit : x, limit); }
COXSWAIN_INLINE float Logistic(float x) { return 1.0f / (1.0f + cpu::Exp(-x)); }

COXSWAIN_VECTORIZE void ForwardRow(const ClampedSwigluSpec& spec, const float* gate,
                                   const float* up, float* y) {
  const float alpha = spec.alpha, limit = spec.limit;
  for (int64_t j = 0; j < spec.intermediate; ++j) {
    const float g = Upper(gate[j], limit);
    y[j] = (Within(up[j], limit) + 1.0f) * (g * Logistic(alpha * g));
  }
}

// `y` may be dy, and is written where it is another than null.
COXSWAIN_VECTORIZE void BackwardRow(const ClampedSwigluSpec& spec, const float* dy, float* gate,
                                    float* up, float* y) {
  const float alpha = spec.alpha, limit = spec.limit;
  for (int64_t j = 0; j < spec.intermediate; ++j) {
    const float a = gate[j], b = up[j], d = dy[j];
    const float g = Upper(a, limit), u = Within(b, limit) + 1.0f;
    const float s = Logistic(alpha * g), value = g * s;
    const float slope = s * (1.0f + alpha * g * (1.0f - s));
    gate[j] = a > limit ? 0.0f : d * u * slope;
    up[j] = b > limit || b < -limit ? 0.0f : d * value;
    if (y != nullptr) y[j] = u * value;
  }
}

}  // namespace

bool ClampedSwigluSupports(const ClampedSwigluSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.intermediate > 0 && spec.alpha > 0 && spec.limit > 0;
}

void ClampedSwigluForward(const ClampedSwigluForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(ClampedSwigluSupports(args.spec), "ClampedSwiglu");
  const int64_t n = args.spec.intermediate;
  cpu::ParallelFor(args.rows, 8 * n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* gate = static_cast<const float*>(args.gate_up) + t * 2 * n;
      ForwardRow(args.spec, gate, gate + n, static_cast<float*>(args.y) + t * n);
      cpu::RaiseAmax(static_cast<float*>(args.y) + t * n, n, args.amax);
    }
  });
}

void ClampedSwigluBackward(const ClampedSwigluBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(ClampedSwigluSupports(args.spec), "ClampedSwiglu");
  const int64_t n = args.spec.intermediate;
  cpu::ParallelFor(args.rows, 8 * n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* gate = cpu::RowForGradient(args.gate_up, args.gradient, t, 2 * n);
      float* y = args.y == nullptr ? nullptr : static_cast<float*>(args.y) + t * n;
      BackwardRow(args.spec, static_cast<const float*>(args.dy) + t * n, gate, gate + n, y);
      cpu::RaiseAmax(gate, 2 * n, args.amax);
    }
  });
}

}  // namespace coxswain::kernels
