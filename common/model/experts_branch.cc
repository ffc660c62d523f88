// The part of a block that routes tokens to experts.
#include <utility>

#include "common/model/block_builder.h"

namespace coxswain::model {

const RouteOp& BlockBuilder::AddRouter(const ExpertNames& names, const Row& in) {
  const Mixture& mixture = config_.mixture;
  RouteOp route{.in = in};
  route.logits = Own("router_logits");
  route.weights = Own("router_weights");
  route.ids = Own("expert_ids");
  route.order = Own("expert_order");
  route.places = Own("expert_places");
  route.offsets = Own("expert_offsets");
  route.counts = Own("expert_counts");
  route.weight = AddTensor({.name = names.router + ".weight",
                            .kind = Kind::kRouter,
                            .rows = mixture.experts,
                            .cols = config_.hidden_size});
  if (mixture.router_bias) {
    route.bias = AddTensor(
        {.name = names.router + ".bias", .kind = Kind::kRouterBias, .rows = mixture.experts});
  }
  if (mixture.score == "sigmoid") {
    route.correction = AddTensor({.name = names.router + ".e_score_correction_bias",
                                  .kind = Kind::kRouterCorrection,
                                  .rows = mixture.experts});
  }
  route.width = config_.hidden_size;
  route.experts = mixture.experts;
  route.chosen = mixture.chosen;
  route.groups = mixture.groups;
  route.top_groups = mixture.top_groups;
  route.score = mixture.score == "sigmoid" ? Score::kSigmoid : Score::kSoftmax;
  route.renormalise = mixture.renormalise;
  route.scale = mixture.scale;
  return Append(std::move(route));
}

int32_t BlockBuilder::AddExpertBias(const std::string& name, int64_t rows,
                                    const std::vector<FileMember>& weights) {
  TensorSpec bias{
      .name = name, .kind = Kind::kExpertBias, .rows = rows, .batch = config_.mixture.experts};
  for (FileMember member : weights) {
    member.name = name;
    member.transposed = false;
    bias.members.push_back(std::move(member));
  }
  return AddTensor(std::move(bias));
}

GroupedLinearOp BlockBuilder::GateUpExperts(const ExpertNames& names) {
  const Mixture& mixture = config_.mixture;
  const int64_t inner = mixture.width;
  const std::string stack = names.stacks + ".gate_up_proj";
  TensorSpec weight{.name = stack,
                    .kind = Kind::kExperts,
                    .rows = 2 * inner,
                    .cols = config_.hidden_size,
                    .batch = mixture.experts};
  if (names.stacked) {
    weight.members = {
        {.name = stack, .row = 0, .rows = inner, .first = 0, .step = 2, .transposed = true},
        {.name = stack, .row = inner, .rows = inner, .first = 1, .step = 2, .transposed = true}};
  } else {
    weight.members = {{.name = names.gate + ".weight", .row = 0, .rows = inner},
                      {.name = names.up + ".weight", .row = inner, .rows = inner}};
  }
  GroupedLinearOp op{.name = "experts_gate_up",
                     .out = Own("expert_gate_up"),
                     .weight = AddTensor(weight),
                     .experts = mixture.experts,
                     .in_features = config_.hidden_size,
                     .out_features = 2 * inner,
                     .feeds_activation = true};
  if (names.stacked) op.bias = AddExpertBias(stack + "_bias", 2 * inner, weight.members);
  return op;
}

GroupedLinearOp BlockBuilder::DownExperts(const ExpertNames& names) {
  const Mixture& mixture = config_.mixture;
  const int64_t hidden = config_.hidden_size;
  const std::string stack = names.stacks + ".down_proj";
  TensorSpec weight{.name = stack,
                    .kind = Kind::kExperts,
                    .rows = hidden,
                    .cols = mixture.width,
                    .batch = mixture.experts};
  weight.members = {{.name = names.stacked ? stack : names.down + ".weight",
                     .row = 0,
                     .rows = hidden,
                     .transposed = names.stacked}};
  GroupedLinearOp op{.name = "experts_down",
                     .out = Own("expert_out"),
                     .weight = AddTensor(weight),
                     .experts = mixture.experts,
                     .in_features = mixture.width,
                     .out_features = hidden};
  if (names.stacked) op.bias = AddExpertBias(stack + "_bias", hidden, weight.members);
  return op;
}

Row BlockBuilder::RoutedExperts(const ExpertNames& names, const Row& in) {
  const Mixture& mixture = config_.mixture;
  const int64_t hidden = config_.hidden_size;
  const Routed routed{.route = AddRouter(names, in).id, .chosen = mixture.chosen};
  GroupedLinearOp gate_up = GateUpExperts(names), down = DownExperts(names);
  gate_up.routed = down.routed = routed;
  gate_up.in = Own("expert_in");
  down.in = Own("expert_act");
  GateOp gate{.in = gate_up.out,
              .out = down.in,
              .width = mixture.width,
              .activation = Activation::kSilu,
              .routed = routed};
  if (names.limit > 0) {
    gate.activation = Activation::kClampedSilu;
    gate.alpha = names.alpha;
    gate.limit = names.limit;
  }
  CombineOp combine{.routed = routed, .in = down.out, .out = kBranch, .width = hidden};
  Append(DispatchOp{.routed = routed, .in = in, .out = gate_up.in, .width = hidden});
  Append(std::move(gate_up));
  Append(std::move(gate));
  Append(std::move(down));
  Append(std::move(combine));
  return kBranch;
}

Row BlockBuilder::Experts(const ExpertNames& names, const Row& in) {
  const Mixture& mixture = config_.mixture;
  if (mixture.shared_width == 0) return RoutedExperts(names, in);
  const MlpNames shared{.gate = names.shared + ".gate_proj",
                        .up = names.shared + ".up_proj",
                        .down = names.shared + ".down_proj",
                        .width = mixture.shared_width};
  if (!mixture.shared_gate) {
    RoutedExperts(names, in);
    return GatedMlp(shared, in, {.adds = true});
  }
  // What only the next block reads comes last: recomputation leaves it out.
  const Row beside = GatedMlp(shared, in, {.kept = true});
  const Linear gate{.name = "shared_gate",
                    .in = in,
                    .out = Own("shared_gate"),
                    .in_features = config_.hidden_size,
                    .members = {{names.shared_gate, 1}}};
  AddLinear(gate);
  const Row out = RoutedExperts(names, in);
  Append(SigmoidGateOp{.in = beside, .logit = gate.out, .out = out, .width = config_.hidden_size});
  return out;
}

}  // namespace coxswain::model
