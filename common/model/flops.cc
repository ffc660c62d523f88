#include "common/model/flops.h"

#include <algorithm>

namespace coxswain::model {
namespace {

// Magnitudes of DoRA scale elementwise, A of an embedding is looked up: no product.
bool IsAdapterMatrix(const Parameter& parameter) {
  if (parameter.kind == Kind::kEmbedding && IsLoraA(parameter)) return false;
  return IsLoraA(parameter) || IsLoraB(parameter);
}

// Whether the tensor of the base is an operand of a matrix product.
bool IsMatmulWeight(const Parameter& parameter, bool tied) {
  return IsLinear(parameter) || IsBase(parameter, Kind::kRouter) || IsHead(parameter) ||
         (tied && IsEmbedding(parameter));
}

// The part of a tensor's elements that a token meets: of experts, those of its own.
double ActiveElements(const ModelConfig& config, const Parameter& parameter) {
  const auto elements = static_cast<double>(parameter.elements());
  if (parameter.kind != Kind::kExperts) return elements;
  return elements * static_cast<double>(config.mixture.chosen) /
         static_cast<double>(config.mixture.experts);
}

// QK^T and PV, two operations each, forward and twice that backward.
double AttentionFlopsPerToken(const ModelConfig& config, int64_t sequence_len) {
  double positions = 0;
  for (const int64_t window : config.layer_windows) {
    positions += static_cast<double>(window > 0 ? std::min(window, sequence_len) : sequence_len);
  }
  const int64_t widths = config.head_dim + config.value_dim();
  return 6.0 * static_cast<double>(config.num_heads * widths) * positions;
}

}  // namespace

FlopsPerToken TrainingFlops(const ModelConfig& config, const std::vector<Parameter>& table,
                            int64_t sequence_len) {
  FlopsPerToken flops;
  for (const Parameter& parameter : table) {
    const double elements = ActiveElements(config, parameter);
    if (IsAdapterMatrix(parameter)) {
      flops.adapter += 6.0 * elements;
    } else if (IsMatmulWeight(parameter, config.tie_embeddings)) {
      flops.base += (parameter.trainable() ? 6.0 : 4.0) * elements;
    }
  }
  flops.attention = AttentionFlopsPerToken(config, sequence_len);
  return flops;
}

int64_t ActiveParameters(const ModelConfig& config, const std::vector<Parameter>& table) {
  double elements = 0;
  for (const Parameter& parameter : table) elements += ActiveElements(config, parameter);
  return static_cast<int64_t>(elements);
}

double AttentionFlops(const ModelConfig& config, int64_t length) {
  return static_cast<double>(length) * AttentionFlopsPerToken(config, length);
}

double ForwardFlopsPerToken(const ModelConfig& config, const std::vector<Parameter>& table,
                            int64_t sequence_len) {
  double elements = 0;
  for (const Parameter& parameter : table) {
    if (IsAdapterMatrix(parameter) || IsMatmulWeight(parameter, config.tie_embeddings)) {
      elements += ActiveElements(config, parameter);
    }
  }
  return 2.0 * elements + AttentionFlopsPerToken(config, sequence_len) / 3.0;
}

double ModelFlopsUtilisation(double flops_per_token, double tokens_per_second,
                             double peak_flops_per_second) {
  if (peak_flops_per_second <= 0) return 0;
  return flops_per_token * tokens_per_second / peak_flops_per_second;
}

}  // namespace coxswain::model
