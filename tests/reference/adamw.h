// One AdamW update of one element, in the order of torch.optim.AdamW.
#ifndef COXSWAIN_TESTS_REFERENCE_ADAMW_H_
#define COXSWAIN_TESTS_REFERENCE_ADAMW_H_

#include <cmath>
#include <cstdint>

namespace coxswain::reference {

template <typename T>
struct AdamWOptions {
  T lr, beta1, beta2, eps, weight_decay;
};

template <typename T>
struct AdamWElement {
  T p, m = 0, v = 0;
};

// update counts from 1.
template <typename T>
void AdamWUpdate(const AdamWOptions<T>& o, T gradient, int64_t update, AdamWElement<T>* e) {
  const T count = static_cast<T>(update);
  e->p *= 1 - o.lr * o.weight_decay;
  e->m = o.beta1 * e->m + (1 - o.beta1) * gradient;
  e->v = o.beta2 * e->v + (1 - o.beta2) * gradient * gradient;
  const T first = e->m / (1 - std::pow(o.beta1, count));
  const T second = e->v / (1 - std::pow(o.beta2, count));
  e->p -= o.lr * first / (std::sqrt(second) + o.eps);
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_ADAMW_H_
