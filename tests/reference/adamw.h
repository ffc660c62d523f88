// One AdamW update of one element, in the order of torch.optim.AdamW.
#ifndef COXSWAIN_TESTS_REFERENCE_ADAMW_H_
#define COXSWAIN_TESTS_REFERENCE_ADAMW_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

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

// One AdamW update of a tensor whose states are blocks of 256 8-bit codes, in the order of
// bitsandbytes 0.50: decode, update (adamw.h), measure, encode. The map is built here once more, in
// T.

// Source: bitsandbytes 0.50, functional.create_dynamic_map(signed, 7, 8).
template <typename T>
std::vector<T> DynamicMapValues(bool has_sign) {
  std::vector<T> values = {0, 1};
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = (has_sign ? 1 : 2) << decade;
    for (int k = 0; k < parts; ++k) {
      const T middle = T(0.1) + T(0.9) * (2 * k + 1) / (2 * parts);
      values.push_back(std::pow(T(10), decade - 6) * middle);
      if (has_sign) values.push_back(-values.back());
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

// Index of the nearest, the lower one in the middle of two.
template <typename T>
uint8_t NearestIndex(const std::vector<T>& values, T x) {
  const T* const sorted = values.data();
  size_t first = 0, last = values.size() - 1;
  while (first < last) {
    const size_t middle = (first + last) / 2;
    if ((sorted[middle] + sorted[middle + 1]) / 2 < x) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return static_cast<uint8_t>(first);
}

// As bitsandbytes looks it up on a CPU: x is rounded to one of 65,536 points of [-1, 1] first.
template <typename T>
uint8_t NearestIndexOnGrid(const std::vector<T>& values, T x) {
  const T point = std::floor((x + 1) / 2 * 65535 + T(0.5));
  return NearestIndex(values, 2 * point / 65535 - 1);
}

template <typename T>
struct BlockStates {
  std::vector<uint8_t> codes;
  std::vector<T> absmax;
};

template <typename T>
struct AdamW8bitState {
  std::vector<T> p;
  BlockStates<T> m, v;
};

// gradient: [p.size()]. `nearest` is one of the two above.
template <typename T, typename Nearest>
void AdamW8bitUpdate(const AdamWOptions<T>& o, const std::vector<T>& gradient, int64_t update,
                     const Nearest& nearest, AdamW8bitState<T>* state) {
  static const std::vector<T> signed_map = DynamicMapValues<T>(true);
  static const std::vector<T> unsigned_map = DynamicMapValues<T>(false);
  constexpr size_t kBlock = 256;
  for (size_t first = 0; first < gradient.size(); first += kBlock) {
    const size_t block = first / kBlock, end = std::min(first + kBlock, gradient.size());
    std::vector<AdamWElement<T>> elements;
    T m_absmax = 0, v_absmax = 0;
    for (size_t i = first; i < end; ++i) {
      AdamWElement<T> e{state->p[i], signed_map[state->m.codes[i]] * state->m.absmax[block],
                        unsigned_map[state->v.codes[i]] * state->v.absmax[block]};
      AdamWUpdate(o, gradient[i], update, &e);
      state->p[i] = e.p;
      m_absmax = std::max(m_absmax, std::abs(e.m));
      v_absmax = std::max(v_absmax, e.v);
      elements.push_back(e);
    }
    state->m.absmax[block] = m_absmax;
    state->v.absmax[block] = v_absmax;
    for (size_t i = first; i < end; ++i) {
      const AdamWElement<T>& e = elements[i - first];
      state->m.codes[i] = nearest(signed_map, m_absmax > 0 ? e.m / m_absmax : 0);
      state->v.codes[i] = nearest(unsigned_map, v_absmax > 0 ? e.v / v_absmax : 0);
    }
  }
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_ADAMW_H_
