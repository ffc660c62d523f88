// One element of an AdamW update in float32 (kernels/optimizer/adamw.h has the formulas).
#ifndef COXSWAIN_KERNELS_CPU_OPTIMIZER_ADAMW_ELEMENT_H_
#define COXSWAIN_KERNELS_CPU_OPTIMIZER_ADAMW_ELEMENT_H_

#include <cmath>

#include "kernels/cpu/vectorize.h"
#include "kernels/optimizer/adamw.h"

namespace coxswain::kernels::cpu {

struct AdamWCoefficients {
  float decay;  // lr_j wd
  float clip;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;   // lr_j / (1 - b1^t)
  float root_scale;  // 1 / sqrt(1 - b2^t)
  float eps;
};

inline AdamWCoefficients MakeCoefficients(const OptimizerScalars& s, const AdamWTensor& tensor) {
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

COXSWAIN_INLINE void UpdateElement(const AdamWCoefficients& c, float g, float* p, float* m,
                                   float* v) {
  const float gradient = g * c.clip;
  const float first = c.beta1 * *m + c.one_minus_beta1 * gradient;
  const float second = c.beta2 * *v + c.one_minus_beta2 * (gradient * gradient);
  *m = first;
  *v = second;
  const float denominator = std::sqrt(second) * c.root_scale + c.eps;
  // Decay and step are subtracted together: 1 - decay would lose most bits of a small decay.
  *p = *p - (c.decay * *p + c.step_size * (first / denominator));
}

COXSWAIN_INLINE void UpdateElements(const AdamWCoefficients& c, float* p, const float* g, float* m,
                                    float* v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) UpdateElement(c, g[i], p + i, m + i, v + i);
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_OPTIMIZER_ADAMW_ELEMENT_H_
