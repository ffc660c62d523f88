// The entropy of a router's scores of one token, in nats.
#ifndef COXSWAIN_TESTS_REFERENCE_ROUTER_ENTROPY_H_
#define COXSWAIN_TESTS_REFERENCE_ROUTER_ENTROPY_H_

#include <algorithm>
#include <cmath>
#include <vector>

namespace coxswain::reference {

// Of the softmax of `logits`, or of the logistic values over their sum.
template <typename T>
T RouterEntropy(const std::vector<T>& logits, bool sigmoid) {
  const T maximum = *std::max_element(logits.begin(), logits.end());
  std::vector<T> scores;
  T sum = 0, entropy = 0;
  for (const T l : logits) {
    scores.push_back(sigmoid ? 1 / (1 + std::exp(-l)) : std::exp(l - maximum));
    sum += scores.back();
  }
  for (const T score : scores) {
    if (score > 0) entropy -= score / sum * std::log(score / sum);
  }
  return entropy;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_ROUTER_ENTROPY_H_
