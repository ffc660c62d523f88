// One pass over p, g, m, v: 28 bytes per element. Every element is independent of every other.
#include "kernels/adamw.h"

#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

struct Coefficients {
  float decay;  // lr_j wd
  float clip;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;   // lr_j / (1 - b1^t)
  float root_scale;  // 1 / sqrt(1 - b2^t)
  float eps;
};

COXSWAIN_VECTORIZE void UpdateElements(const Coefficients& c, float* p, const float* g, float* m,
                                       float* v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * c.clip;
    const float first = c.beta1 * m[i] + c.one_minus_beta1 * gradient;
    const float second = c.beta2 * v[i] + c.one_minus_beta2 * (gradient * gradient);
    m[i] = first;
    v[i] = second;
    const float denominator = std::sqrt(second) * c.root_scale + c.eps;
    // Decay and step are subtracted together: 1 - decay would lose most bits of a small decay.
    p[i] = p[i] - (c.decay * p[i] + c.step_size * (first / denominator));
  }
}

Coefficients MakeCoefficients(const OptimizerScalars& s, const AdamWTensor& tensor) {
  const double t = static_cast<double>(s.applied_updates + 1);
  const double lr = s.lr * tensor.lr_scale;
  return {.decay = static_cast<float>(lr * tensor.weight_decay),
          .clip = static_cast<float>(s.clip_factor),
          .beta1 = static_cast<float>(s.beta1),
          .one_minus_beta1 = static_cast<float>(1.0 - s.beta1),
          .beta2 = static_cast<float>(s.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - s.beta2),
          .step_size = static_cast<float>(lr / (1.0 - std::pow(s.beta1, t))),
          .root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(s.beta2, t))),
          .eps = static_cast<float>(s.eps)};
}

}  // namespace

bool AdamWSupports(DType p_dtype, DType g_dtype, bool master) {
  return p_dtype == DType::kFloat32 && g_dtype == DType::kFloat32 && !master;
}

void AdamW(const AdamWArgs& args, Stream* stream) {
  if (args.scalars->skip != 0) return;
  for (int64_t i = 0; i < args.count; ++i) {
    const AdamWTensor& tensor = args.tensors[i];
    cpu::RequireSupported(AdamWSupports(tensor.p_dtype, tensor.g_dtype, tensor.master != nullptr),
                          "AdamW");
    const Coefficients coefficients = MakeCoefficients(*args.scalars, tensor);
    float* p = static_cast<float*>(tensor.p);
    const float* g = static_cast<const float*>(tensor.g);
    cpu::ParallelFor(tensor.n, 4, [&](int64_t begin, int64_t end) {
      UpdateElements(coefficients, p + begin, g + begin, tensor.m + begin, tensor.v + begin,
                     end - begin);
    });
  }
  if (args.last) ++args.scalars->applied_updates;
}

}  // namespace coxswain::kernels
