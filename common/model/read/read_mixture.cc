#include "common/model/read/read_mixture.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

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

void ReadSigmoidRouter(ConfigKeys& keys, const Mixture& defaults, Mixture* mixture) {
  const char* experts = keys.Has("n_routed_experts") ? "n_routed_experts" : "num_local_experts";
  mixture->score = "sigmoid";
  mixture->experts = keys.Int(experts, defaults.experts);
  mixture->chosen = keys.Int("num_experts_per_tok", defaults.chosen);
  mixture->width = keys.Int("moe_intermediate_size", defaults.width);
  mixture->shared_width = keys.Count("n_shared_experts", 1) * mixture->width;
  mixture->groups = keys.Int("n_group", defaults.groups);
  mixture->top_groups = keys.Int("topk_group", defaults.top_groups);
  mixture->renormalise = keys.Bool("norm_topk_prob", true);
  mixture->scale = keys.Positive("routed_scaling_factor", defaults.scale);
  const int64_t of_group = mixture->experts / mixture->groups;
  if (mixture->experts <= kMostExperts && of_group >= 2 &&
      mixture->experts % mixture->groups == 0 && mixture->top_groups <= mixture->groups &&
      mixture->chosen <= mixture->top_groups * of_group) {
    return;
  }
  keys.Fail(absl::StrCat(
      "num_experts_per_tok ", mixture->chosen, " of ", experts, " ", mixture->experts, ", n_group ",
      mixture->groups, ", topk_group ", mixture->top_groups, " is not supported; at most ",
      kMostExperts,
      " experts in equal groups of 2 or more, and no more of a token than its groups ", "have"));
}

std::vector<int64_t> ReadFirstDense(ConfigKeys& keys, int64_t layers, int64_t otherwise) {
  const int64_t count = std::min(layers, keys.Count("first_k_dense_replace", otherwise));
  std::vector<int64_t> dense(static_cast<size_t>(count));
  std::iota(dense.begin(), dense.end(), 0);
  return dense;
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
