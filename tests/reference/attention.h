// Causal grouped-query attention of one document, one head at a time, with the whole score row
// held.
#ifndef COXSWAIN_TESTS_REFERENCE_ATTENTION_H_
#define COXSWAIN_TESTS_REFERENCE_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace coxswain::reference {

template <typename T>
struct AttentionShape {
  int64_t length, num_heads, num_kv_heads, head_dim, window;
  T scale;
  T softcap = 0;
  int64_t value_dim = 0;  // of v and out; 0: head_dim

  int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  int64_t row() const { return (num_heads + num_kv_heads) * head_dim + num_kv_heads * values(); }
  int64_t q(int64_t t, int64_t h) const { return t * row() + h * head_dim; }
  int64_t k(int64_t t, int64_t h) const {
    return t * row() + (num_heads + h / (num_heads / num_kv_heads)) * head_dim;
  }
  int64_t v(int64_t t, int64_t h) const {
    return t * row() + (num_heads + num_kv_heads) * head_dim +
           h / (num_heads / num_kv_heads) * values();
  }
  int64_t out(int64_t t, int64_t h) const { return (t * num_heads + h) * values(); }
  int64_t first_key(int64_t i) const {
    return window == 0 ? 0 : std::max<int64_t>(0, i - window + 1);
  }
};

template <typename T>
struct Score {
  T value, slope;  // slope: derivative by the scaled dot product
};
template <typename T>
Score<T> MakeScore(const AttentionShape<T>& s, const T* qkv, int64_t h, int64_t i, int64_t j) {
  T dot = 0;
  for (int64_t c = 0; c < s.head_dim; ++c) dot += qkv[s.q(i, h) + c] * qkv[s.k(j, h) + c];
  if (s.softcap == 0) return {dot * s.scale, 1};
  const T t = std::tanh(dot * s.scale / s.softcap);
  return {s.softcap * t, 1 - t * t};
}

// Probabilities of query i of head h over keys 0 .. i (0 before the window), and log sum exp.
// `sinks` [nq] are one more logit of each head, without a value; null: none.
template <typename T>
std::vector<T> Probabilities(const AttentionShape<T>& s, const T* qkv, const T* sinks, int64_t h,
                             int64_t i, T* lse) {
  std::vector<T> p(static_cast<size_t>(i + 1), 0);
  T maximum = 0;
  for (int64_t j = s.first_key(i); j <= i; ++j) {
    const T score = MakeScore(s, qkv, h, i, j).value;
    p[static_cast<size_t>(j)] = score;
    maximum = j == s.first_key(i) ? score : std::max(maximum, score);
  }
  if (sinks != nullptr) maximum = std::max(maximum, sinks[h]);
  T sum = sinks != nullptr ? std::exp(sinks[h] - maximum) : T{0};
  for (int64_t j = s.first_key(i); j <= i; ++j) {
    p[static_cast<size_t>(j)] = std::exp(p[static_cast<size_t>(j)] - maximum);
    sum += p[static_cast<size_t>(j)];
  }
  for (T& value : p) value /= sum;
  *lse = maximum + std::log(sum);
  return p;
}

// qkv [L, row()], out [L, nq vd], lse [nq, L].
template <typename T>
void Attention(const AttentionShape<T>& s, const T* qkv, T* out, T* lse,
               const std::type_identity_t<T>* sinks = nullptr) {
  for (int64_t h = 0; h < s.num_heads; ++h) {
    for (int64_t i = 0; i < s.length; ++i) {
      const std::vector<T> p = Probabilities(s, qkv, sinks, h, i, &lse[h * s.length + i]);
      for (int64_t c = 0; c < s.values(); ++c) {
        T sum = 0;
        for (int64_t j = 0; j <= i; ++j) sum += p[static_cast<size_t>(j)] * qkv[s.v(j, h) + c];
        out[s.out(i, h) + c] = sum;
      }
    }
  }
}

// dqkv [L, row()] is overwritten, dsinks [nq] added to. `out`: what the forward gave, which a
// kernel reads again; null: the exact one.
template <typename T>
void AttentionBackward(const AttentionShape<T>& s, const T* qkv, const T* dout, T* dqkv,
                       const std::type_identity_t<T>* out = nullptr,
                       const std::type_identity_t<T>* sinks = nullptr,
                       std::type_identity_t<T>* dsinks = nullptr) {
  std::fill(dqkv, dqkv + s.length * s.row(), T{0});
  for (int64_t h = 0; h < s.num_heads; ++h) {
    for (int64_t i = 0; i < s.length; ++i) {
      T lse;
      const std::vector<T> p = Probabilities(s, qkv, sinks, h, i, &lse);
      std::vector<T> dp(p.size(), 0);
      T mean = 0;  // of dp under p
      for (int64_t j = 0; j <= i; ++j) {
        for (int64_t c = 0; c < s.values(); ++c) {
          dp[static_cast<size_t>(j)] += dout[s.out(i, h) + c] * qkv[s.v(j, h) + c];
          dqkv[s.v(j, h) + c] += p[static_cast<size_t>(j)] * dout[s.out(i, h) + c];
        }
        mean += p[static_cast<size_t>(j)] * dp[static_cast<size_t>(j)];
      }
      if (out != nullptr) {
        mean = 0;
        for (int64_t c = 0; c < s.values(); ++c) {
          mean += dout[s.out(i, h) + c] * out[s.out(i, h) + c];
        }
      }
      if (sinks != nullptr) dsinks[h] -= std::exp(sinks[h] - lse) * mean;
      for (int64_t j = 0; j <= i; ++j) {
        const T slope = s.softcap == 0 ? T{1} : MakeScore(s, qkv, h, i, j).slope;
        const T ds =
            p[static_cast<size_t>(j)] * (dp[static_cast<size_t>(j)] - mean) * slope * s.scale;
        for (int64_t c = 0; c < s.head_dim; ++c) {
          dqkv[s.q(i, h) + c] += ds * qkv[s.k(j, h) + c];
          dqkv[s.k(j, h) + c] += ds * qkv[s.q(i, h) + c];
        }
      }
    }
  }
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_ATTENTION_H_
