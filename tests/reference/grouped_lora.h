// Adapters of a mixture's experts as loops over the rows of each expert, and their gradients.
#ifndef COXSWAIN_TESTS_REFERENCE_GROUPED_LORA_H_
#define COXSWAIN_TESTS_REFERENCE_GROUPED_LORA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::reference {

// offsets [E + 1]: the rows of each expert; x [R, K]; a [E, r, K]; b [E, N, r].
template <typename T>
struct GroupedLoraProblem {
  int64_t rows, experts, in, out, rank;
  T scale;
  const int32_t* offsets;
  const T *x, *a, *b;

  // Calls use(row, expert) for every row of an expert.
  template <typename Use>
  void ForRows(const Use& use) const {
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t t = offsets[e]; t < offsets[e + 1]; ++t) use(t, e);
    }
  }
};

// h [R, r] = A_e x; 0 behind the last expert.
template <typename T>
std::vector<T> GroupedLoraHidden(const GroupedLoraProblem<T>& p) {
  std::vector<T> h(static_cast<size_t>(p.rows * p.rank), 0);
  p.ForRows([&](int64_t t, int64_t e) {
    for (int64_t j = 0; j < p.rank; ++j) {
      T& sum = h[static_cast<size_t>(t * p.rank + j)];
      for (int64_t k = 0; k < p.in; ++k)
        sum += p.a[(e * p.rank + j) * p.in + k] * p.x[t * p.in + k];
    }
  });
  return h;
}

// What is added to y [R, N]: scale B_e h.
template <typename T>
std::vector<T> GroupedLoraOutput(const GroupedLoraProblem<T>& p, const T* h) {
  std::vector<T> y(static_cast<size_t>(p.rows * p.out), 0);
  p.ForRows([&](int64_t t, int64_t e) {
    for (int64_t n = 0; n < p.out; ++n) {
      T sum = 0;
      for (int64_t j = 0; j < p.rank; ++j)
        sum += p.b[(e * p.out + n) * p.rank + j] * h[t * p.rank + j];
      y[static_cast<size_t>(t * p.out + n)] = p.scale * sum;
    }
  });
  return y;
}

template <typename T>
struct GroupedLoraGradient {
  std::vector<T> x, a, b;
};

// What is added to the gradients, for the h of forward and dy [R, N].
template <typename T>
GroupedLoraGradient<T> GroupedLoraBackward(const GroupedLoraProblem<T>& p, const T* h,
                                           const T* dy) {
  const auto zeros = [](int64_t n) { return std::vector<T>(static_cast<size_t>(n), 0); };
  GroupedLoraGradient<T> d{zeros(p.rows * p.in), zeros(p.experts * p.rank * p.in),
                           zeros(p.experts * p.out * p.rank)};
  p.ForRows([&](int64_t t, int64_t e) {
    for (int64_t j = 0; j < p.rank; ++j) {
      T dh = 0;
      for (int64_t n = 0; n < p.out; ++n) {
        const auto at = static_cast<size_t>((e * p.out + n) * p.rank + j);
        dh += p.scale * p.b[at] * dy[t * p.out + n];
        d.b[at] += p.scale * dy[t * p.out + n] * h[t * p.rank + j];
      }
      for (int64_t k = 0; k < p.in; ++k) {
        const auto at = static_cast<size_t>((e * p.rank + j) * p.in + k);
        d.a[at] += dh * p.x[t * p.in + k];
        d.x[static_cast<size_t>(t * p.in + k)] += dh * p.a[at];
      }
    }
  });
  return d;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_GROUPED_LORA_H_
