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

Row BlockBuilder::RoutedExperts(const ExpertNames& names, const Row& in) {
  const Mixture& mixture = config_.mixture;
  const int64_t hidden = config_.hidden_size, inner = mixture.width;
  const Routed routed{.route = AddRouter(names, in).id, .chosen = mixture.chosen};
  const int32_t gate_up = AddTensor(
      {.name = names.stacks + ".gate_up_proj",
       .kind = Kind::kExperts,
       .rows = 2 * inner,
       .cols = hidden,
       .batch = mixture.experts,
       .members = {{.name = names.gate + ".weight", .row = 0, .rows = inner},
                   {.name = names.up + ".weight", .row = inner, .rows = inner}}});
  const int32_t down = AddTensor(
      {.name = names.stacks + ".down_proj",
       .kind = Kind::kExperts,
       .rows = hidden,
       .cols = inner,
       .batch = mixture.experts,
       .members = {{.name = names.down + ".weight", .row = 0, .rows = hidden}}});
  const Row rows = Own("expert_in"), products = Own("expert_gate_up"), active = Own("expert_act"),
            back = Own("expert_out");
  Append(DispatchOp{.routed = routed, .in = in, .out = rows, .width = hidden});
  Append(GroupedLinearOp{.routed = routed,
                         .name = "experts_gate_up",
                         .in = rows,
                         .out = products,
                         .weight = gate_up,
                         .experts = mixture.experts,
                         .in_features = hidden,
                         .out_features = 2 * inner,
                         .feeds_activation = true});
  Append(GateOp{.in = products,
                .out = active,
                .width = inner,
                .activation = Activation::kSilu,
                .routed = routed});
  Append(GroupedLinearOp{.routed = routed,
                         .name = "experts_down",
                         .in = active,
                         .out = back,
                         .weight = down,
                         .experts = mixture.experts,
                         .in_features = inner,
                         .out_features = hidden});
  Append(CombineOp{.routed = routed, .in = back, .out = kBranch, .width = hidden});
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
  Append(SigmoidGateOp{
      .in = beside, .logit = gate.out, .out = out, .width = config_.hidden_size});
  return out;
}

}  // namespace coxswain::model
