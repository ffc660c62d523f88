#include "common/model/read_mixture.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

constexpr int64_t kMostExperts = 1024;

}  // namespace

void ReadExperts(ConfigKeys& keys, int64_t experts, int64_t chosen, Mixture* mixture) {
  mixture->experts = keys.Has("num_local_experts") ? keys.Int("num_local_experts")
                                                   : keys.Int("num_experts", experts);
  mixture->chosen = keys.Int("num_experts_per_tok", chosen);
  if (mixture->experts > kMostExperts || mixture->chosen > mixture->experts) {
    keys.Fail(absl::StrCat("num_experts_per_tok ", mixture->chosen, " of num_experts ",
                           mixture->experts, " is not supported; at most ", kMostExperts,
                           " experts, and no more of a token than there are"));
  }
}

double ReadAuxLoss(ConfigKeys& keys) {
  const nlohmann::json& coef = keys["router_aux_loss_coef"];
  const bool zero = coef.is_number() && coef.get<double>() == 0;
  const double factor = zero ? 0 : keys.Positive("router_aux_loss_coef", 0.001);
  return keys.Bool("output_router_logits", false) ? factor : 0;
}

std::vector<int64_t> ReadDenseLayers(ConfigKeys& keys, int64_t layers) {
  std::vector<int64_t> named;
  const nlohmann::json& only = keys["mlp_only_layers"];
  for (const nlohmann::json& layer : only.is_array() ? only : nlohmann::json::array()) {
    if (!layer.is_number_integer()) {
      keys.Fail(absl::StrCat("mlp_only_layers has ", layer.dump(), ", expected numbers of layers"));
      return {};
    }
    named.push_back(layer.get<int64_t>());
  }
  const int64_t step = keys.Int("decoder_sparse_step", 1);
  std::vector<int64_t> dense;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool is_named = std::find(named.begin(), named.end(), layer) != named.end();
    if (is_named || (layer + 1) % step != 0) dense.push_back(layer);
  }
  return dense;
}

}  // namespace coxswain::model
