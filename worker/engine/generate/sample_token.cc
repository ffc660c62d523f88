#include "worker/engine/generate/sample_token.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "common/philox.h"

namespace coxswain::engine {
namespace {

// Uniform in [0, 1), 53 bits.
double Uniform(uint64_t seed, DrawPlace place) {
  const std::array<uint32_t, 4> bits =
      Philox4x32({place.position, place.text, 0, 0}, PhiloxKey(seed, RandomPurpose::kSampling));
  const uint64_t high = bits[0], low = bits[1];
  return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
}

// The `count` likeliest, the likeliest first.
std::vector<int32_t> Likeliest(const std::vector<float>& logits, size_t count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&logits](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                    before);
  order.resize(count);
  return order;
}

// exp((logit - highest) / temperature) of the tokens, in their order.
std::vector<double> Weights(const std::vector<float>& logits, double temperature) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weights;
  weights.reserve(logits.size());
  for (const float logit : logits) weights.push_back(std::exp((logit - highest) / temperature));
  return weights;
}

// Tokens that may be drawn and the sums of their weights up to each.
struct Choices {
  std::vector<int32_t> ids;
  std::vector<double> sums;

  void Fill(const std::vector<double>& weights) {
    sums.clear();
    double sum = 0;
    for (const int32_t id : ids) sums.push_back(sum += weights[static_cast<size_t>(id)]);
  }
  // What is left ends with the first that reaches `bound`; false: none does.
  bool CutAt(double bound) {
    const auto last = std::lower_bound(sums.begin(), sums.end(), bound);
    if (last == sums.end()) return false;
    sums.erase(last + 1, sums.end());
    ids.resize(sums.size());
    return true;
  }
};

// So many are sorted at first where the nucleus alone bounds them.
constexpr size_t kFirstSorted = 512;

Choices ChoicesOf(const std::vector<float>& logits, const Sampling& sampling) {
  const std::vector<double> weights = Weights(logits, sampling.temperature);
  const size_t all = logits.size();
  Choices choices;
  if (sampling.top_k == 0 && sampling.top_p == 1) {
    choices.ids.resize(all);
    std::iota(choices.ids.begin(), choices.ids.end(), 0);
    choices.Fill(weights);
    return choices;
  }
  if (sampling.top_k > 0) {
    choices.ids = Likeliest(logits, std::min(all, static_cast<size_t>(sampling.top_k)));
    choices.Fill(weights);
    choices.CutAt(sampling.top_p * choices.sums.back());
    return choices;
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t sorted = std::min(all, kFirstSorted);; sorted = std::min(all, 8 * sorted)) {
    choices.ids = Likeliest(logits, sorted);
    choices.Fill(weights);
    if (choices.CutAt(sampling.top_p * total) || sorted == all) return choices;
  }
}

}  // namespace

void SoftcapLogits(double cap, std::vector<float>* logits) {
  if (cap == 0) return;
  for (float& logit : *logits) logit = static_cast<float>(cap * std::tanh(logit / cap));
}

int32_t SampleToken(const std::vector<float>& logits, const Sampling& sampling, DrawPlace place) {
  const Choices choices = ChoicesOf(logits, sampling);
  const double drawn = Uniform(sampling.seed, place) * choices.sums.back();
  const auto found = std::upper_bound(choices.sums.begin(), choices.sums.end() - 1, drawn);
  return choices.ids[static_cast<size_t>(found - choices.sums.begin())];
}

}  // namespace coxswain::engine
