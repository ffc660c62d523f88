#include "worker/engine/ops/bind_ops.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/plan/buffer_names.h"
#include "common/plan/buffers/activation_rows.h"
#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/buffers/fp8_amaxes.h"
#include "common/plan/buffers/fp8_rows.h"
#include "common/plan/buffers/gradient_rows.h"
#include "common/plan/fp8_gather.h"
#include "common/plan/fp8_history.h"
#include "common/plan/fusions/fused_ops.h"
#include "common/plan/routers.h"
#include "worker/engine/memory/needed_gradients.h"
#include "worker/engine/ops/op_specs.h"

namespace coxswain::engine {
namespace {

using model::Op;
using model::Row;

// The number of an op; of what fusion made of two, that of the one whose gradients backward needs.
struct NumberOf {
  int32_t operator()(const model::GateDownOp& op) const { return op.down.id; }
  int32_t operator()(const model::RotatedAttentionOp& op) const { return op.attention.id; }
  int32_t operator()(const model::LinearRotateOp& op) const { return op.linear.id; }
  int32_t operator()(const model::LinearAddOp& op) const { return op.linear.id; }
  int32_t operator()(const model::AddNormOp& op) const { return op.norm.id; }
  int32_t operator()(const model::GatedLinearOp& op) const { return op.linear.id; }
  int32_t operator()(const model::GroupedGatedLinearOp& op) const { return op.linear.id; }
  template <typename Plain>
  int32_t operator()(const Plain& op) const {
    return op.id;
  }
};

BoundNorm SpecsOf(const Model& model, const model::NormOp& op, const Norm& norm) {
  BoundNorm bound;
  bound.norm = &norm;
  bound.layer_norm = op.is_layer_norm();
  if (bound.layer_norm) {
    bound.layer = LayerSpec(model, op, norm);
  } else {
    bound.rms = RmsSpec(model, op);
  }
  return bound;
}

float* AmaxAt(const Buffers& buffers, int64_t number) {
  return number == plan::kNoAmax ? nullptr : buffers.fp8_amaxes + number;
}

// Gives the ops of one block their operands.
class BlockBinder {
 public:
  BlockBinder(const plan::Plan& plan, const Model& model, const Buffers& buffers,
              const plan::Fp8AmaxesOfBlock& amaxes, int64_t layer)
      : plan_(plan),
        buffers_(buffers),
        amaxes_(amaxes),
        model_(model),
        block_(model.blocks[static_cast<size_t>(layer)]),
        layer_(layer),
        routers_(plan::RoutersOf(plan)),
        gradients_(plan::GradientRowsOf(plan.architecture.blocks[static_cast<size_t>(layer)])) {
    for (const plan::ActivationRow& row : plan::ActivationRows(plan, layer)) {
      again_.emplace(row.row, row.again);
    }
  }

  void Need(const model::PlainOp& op, NeededGradients needed) {
    needed_[std::visit(NumberOf{}, op)] = needed;
    if (const auto* route = std::get_if<model::RouteOp>(&op)) routes_[route->id] = *route;
  }

  void BindForward(const plan::Ops& ops, BoundBlock* out);
  // After BindForward.
  void BindBackward(const plan::Ops& ops, BoundBlock* out);
  // Below recompute "block".
  void BindAgain(const plan::Ops& forward, BoundBlock* out);

  BoundOp operator()(const model::NormOp& op) { return BindNorm(op); }
  BoundOp operator()(const model::LinearOp& op) { return BindLinear(op); }
  BoundOp operator()(const model::QkNormOp& op) {
    return BoundQkNorm{.norm = &block_.qk_norms.at(op.id),
                       .spec = QkSpec(model_, op),
                       .qkv = At(op.qkv),
                       .raw = At(op.raw),
                       .dqkv = GradientAt(op.qkv),
                       .rstd = FloatAt(op.rstd)};
  }
  BoundOp operator()(const model::RotateOp& op) { return BindRotation(op); }
  BoundOp operator()(const model::AttentionOp& op) { return BindAttention(op); }
  BoundOp operator()(const model::GateOp& op) { return BindGate(op); }
  BoundOp operator()(const model::ActivationOp& op) {
    return BoundActivation{.spec = GeluOf(model_, op),
                           .x = At(op.in),
                           .y = At(op.out),
                           .dy = GradientAt(op.out),
                           .amax = StoredAmaxOf(op.id)};
  }
  BoundOp operator()(const model::AddOp& op) { return BindAdd(op); }
  BoundOp operator()(const model::RouteOp& op) { return BindRoute(op); }
  BoundOp operator()(const model::DispatchOp& op) {
    BoundDispatch bound{
        .spec = {.dtype = model_.compute_dtype, .hidden = op.width, .chosen = op.routed.chosen},
        .rows = RowsOf(op.routed),
        .x = At(op.in),
        .y = At(op.out),
        .dy = GradientAt(op.out)};
    if (needed_.at(op.id).of_input) {
      bound.dx = GradientAt(op.in);
      bound.accumulates = Accumulates(op.in);
    }
    return bound;
  }
  BoundOp operator()(const model::GroupedLinearOp& op) { return BindExperts(op); }
  BoundOp operator()(const model::CombineOp& op) {
    const NeededGradients& needed = needed_.at(op.id);
    return BoundCombine{
        .spec = {.dtype = model_.compute_dtype, .hidden = op.width, .chosen = op.routed.chosen},
        .rows = RowsOf(op.routed),
        .x = At(op.in),
        .y = At(op.out),
        .dy = GradientAt(op.out),
        .dx = needed.of_input ? GradientAt(op.in) : nullptr,
        .wants_weights = needed.of_weights};
  }
  BoundOp operator()(const model::SigmoidGateOp& op) {
    const NeededGradients& needed = needed_.at(op.id);
    return BoundSigmoidGate{.spec = SigmoidGateOf(model_, op),
                            .x = At(op.in),
                            .logits = At(op.logit),
                            .y = At(op.out),
                            .dy = GradientAt(op.out),
                            .wants_x = needed.of_input,
                            .wants_logits = needed.of_weights};
  }
  BoundOp operator()(const model::SplitOp& op) {
    return BoundSplit{.spec = SplitSpec(model_, op),
                      .x = At(op.in),
                      .first = At(op.first),
                      .second = At(op.second),
                      .dfirst = GradientAt(op.first),
                      .dsecond = GradientAt(op.second),
                      .dx = GradientAt(op.in)};
  }
  BoundOp operator()(const model::LatentHeadsOp& op) {
    return BoundLatentHeads{.spec = LatentSpec(model_, op),
                            .cos = RopeTableAt(op.rope, plan::buffers::kCosines),
                            .sin = RopeTableAt(op.rope, plan::buffers::kSines),
                            .q = At(op.q),
                            .kv = At(op.kv),
                            .k_rope = At(op.k_rope),
                            .qkv = At(op.out),
                            .dqkv = GradientAt(op.out),
                            .dq = GradientAt(op.q),
                            .dkv = GradientAt(op.kv),
                            .dk_rope = GradientAt(op.k_rope)};
  }
  BoundOp operator()(const model::LinearRotateOp& op) {
    return BoundLinearRotation{.linear = BindLinear(op.linear),
                               .rotation = BindRotation(op.rotate)};
  }
  BoundOp operator()(const model::LinearAddOp& op) {
    return BoundLinearAdd{.linear = BindLinear(op.linear), .add = BindAdd(op.add)};
  }
  BoundOp operator()(const model::AddNormOp& op) {
    return BoundAddNorm{.add = BindAdd(op.add), .norm = BindNorm(op.norm)};
  }
  BoundOp operator()(const model::GatedLinearOp& op) { return BindGated(op); }
  BoundOp operator()(const model::GroupedGatedLinearOp& op) {
    BoundGroupedGatedLinear bound = BindGatedExperts(op);
    bound.keeps_gate_up = needed_.at(op.gate.id).of_output && !IsComputedAgain(op.linear.out);
    return bound;
  }
  BoundOp operator()(const model::GateDownOp& op) {
    const BoundLinear down = BindLinear(op.down);
    BoundOp bound(down);
    if (down.dx != nullptr) {
      bound = BoundGateDown{.spec = GatedLinearOf(model_, op.gate, op.down.out_features),
                            .gate = BindGate(op.gate),
                            .down = down,
                            .product_comes_back = ComesBack(op.gate)};
    }
    return bound;
  }
  BoundOp operator()(const model::RotatedAttentionOp& op) {
    return BoundRotatedAttention{.attention = BindAttention(op.attention),
                                 .rotation = BindRotation(op.rotate)};
  }

 private:
  BoundNorm BindNorm(const model::NormOp& op) {
    BoundNorm bound = SpecsOf(model_, op, block_.norms.at(op.id));
    bound.x = At(op.in);
    bound.y = At(op.out);
    bound.rstd = FloatAt(op.rstd);
    bound.mean = op.is_layer_norm() ? FloatAt(op.mean) : nullptr;
    bound.dy = GradientAt(op.out);
    bound.dx = GradientAt(op.in);
    bound.accumulates = Accumulates(op.in);
    bound.amax = StoredAmaxOf(op.id);
    return bound;
  }

  BoundGatedLinear BindGated(const model::GatedLinearOp& op) {
    return {.spec = GatedLinearOf(model_, op.gate, op.linear.in_features),
            .linear = BindLinear(op.linear),
            .gate = BindGate(op.gate)};
  }

  RoutedRows RowsOf(const model::Routed& routed) const {
    const model::RouteOp& route = routes_.at(routed.route);
    return {.chosen = route.chosen,
            .order = IdsAt(route.order),
            .places = IdsAt(route.places),
            .offsets = IdsAt(route.offsets),
            .weights = FloatAt(route.weights),
            .dweights = FloatGradientAt(route.weights)};
  }

  const plan::Router& PlaceOf(const model::RouteOp& op) const {
    return *std::find_if(routers_.begin(), routers_.end(), [&](const plan::Router& router) {
      return router.layer == layer_ && router.op == op.id;
    });
  }

  BoundRoute BindRoute(const model::RouteOp& op) {
    BoundRoute bound;
    bound.router = &block_.routers.at(op.id);
    bound.spec = RouterSpec(op);
    bound.rows = RowsOf({.route = op.id, .chosen = op.chosen});
    bound.width = op.width;
    bound.x = At(op.in);
    bound.logits = FloatAt(op.logits);
    bound.ids = IdsAt(op.ids);
    bound.counts = IdsAt(op.counts);
    const plan::Router& router = PlaceOf(op);
    if (buffers_.router_use != nullptr) bound.use = buffers_.router_use + router.use;
    bound.correction = router.moved >= 0
                           ? buffers_.router_corrections + router.moved
                           : static_cast<const float*>(bound.router->correction.value);
    bound.dlogits = FloatGradientAt(op.logits);
    if (plan_.trains()) bound.dscores = buffers_.At(plan::buffers::kDscores);
    if (bound.router->a.value != nullptr) {
      bound.h = At(plan::RouterAdapterRow(layer_));
      if (plan_.trains()) bound.dh = buffers_.At(plan::buffers::kRouterLoraDh);
    }
    if (needed_.at(op.id).of_input) {
      bound.dx = GradientAt(op.in);
      bound.accumulates = Accumulates(op.in);
    }
    return bound;
  }

  BoundGroupedLinear BindExperts(const model::GroupedLinearOp& op) {
    const ExpertLinear& experts = block_.experts.at(op.id);
    const bool adapted = experts.a.value != nullptr;
    const bool fp8 = plan::InFp8(plan_, op, layer_);
    return {.linear = &experts,
            .spec = ExpertsSpec(model_, op),
            .adapter = ExpertAdapterSpec(model_, op, experts),
            .h = adapted ? At(plan::ExpertAdapterRow(op, layer_)) : nullptr,
            .rows = RowsOf(op.routed),
            .x = At(op.in),
            .y = At(op.out),
            .dy = GradientAt(op.out),
            .dx = needed_.at(op.id).of_input ? GradientAt(op.in) : nullptr,
            .fp8 = fp8 ? RowsInFp8(op) : BoundFp8{}};
  }

  BoundGroupedGatedLinear BindGatedExperts(const model::GroupedGatedLinearOp& op) {
    return {.spec = GatedExpertsSpec(model_, op),
            .linear = BindExperts(op.linear),
            .gate = BindGate(op.gate)};
  }

  BoundLinear BindLinear(const model::LinearOp& op) {
    const Linear& linear = block_.linears.at(op.id);
    BoundLinear bound{.linear = &linear, .x = At(op.in), .y = At(op.out), .adds = op.adds};
    bound.dy = GradientAt(op.out);
    const bool needs_input = needed_.at(op.id).of_input;
    if (needs_input) {
      bound.dx = GradientAt(op.in);
      bound.accumulates = Accumulates(op.in);
    }
    if (plan::InFp8(plan_, op, layer_)) bound.fp8 = BindFp8(op, linear);
    if (linear.adapters.members.empty()) return bound;
    bound.lora_h = At(plan::LinearAdapterRow(layer_));
    if (!plan_.lora.dora) return bound;
    bound.u = At(plan::UnscaledRow(op, layer_));
    if (op.adds) bound.spare = buffers_.At(plan::buffers::kDshared);
    // The gradient of the stream is still wanted.
    const auto copy = gradients_.copy_of_output.find(op.id);
    const bool own = copy == gradients_.copy_of_output.end();
    bound.du = own ? const_cast<void*>(bound.dy) : At(copy->second);
    return bound;
  }

  BoundFp8Amax AmaxOf(int64_t operand) const {
    float* const observed = buffers_.fp8_observed;
    return {.expected = buffers_.fp8_expected + operand,
            .observed = observed == nullptr ? nullptr : observed + operand};
  }

  BoundStoredAmax StoredAmaxOf(int32_t op) const {
    const plan::AmaxNumbers made = amaxes_.MadeBy(op);
    return {AmaxAt(buffers_, made.value), AmaxAt(buffers_, made.gradient)};
  }

  // The operands of products that read rows.
  template <typename LinearOp>
  BoundFp8 RowsInFp8(const LinearOp& op) const {
    BoundFp8 bound{.on = true, .formats = plan::FormatsOf(plan_.fp8)};
    bound.keeps_weight = plan_.fp8.keeps_weights;
    bound.x = buffers_.At(plan::buffers::kFp8X);
    bound.dy = buffers_.At(plan::buffers::kFp8Dy);
    bound.weight = bound.weight_turned = buffers_.At(plan::buffers::kFp8Weight);
    if (bound.keeps_weight) {
      bound.weight = buffers_.At(plan::KeptWeightRow(op, layer_));
      bound.weight_turned = buffers_.At(plan::KeptTurnedWeightRow(op, layer_));
    }
    if (buffers_.fp8_expected == nullptr) return bound;
    const int64_t x = plan::Fp8OperandOf(plan_, op, layer_);
    bound.amax_of_x = AmaxOf(x);
    bound.amax_of_dy = AmaxOf(x + 1);
    return bound;
  }

  BoundFp8 BindFp8(const model::LinearOp& op, const Linear& linear) const {
    BoundFp8 bound = RowsInFp8(op);
    bound.keeps_x = linear.weight.gradient != nullptr && plan::IsKeptInFp8(plan_, op.in, layer_);
    bound.x_turned =
        buffers_.At(bound.keeps_x ? plan::KeptInputRow(op, layer_) : plan::buffers::kFp8XTurned);
    if (linear.weight.codes != nullptr) {
      bound.weight = linear.weight.codes;
      bound.weight_scale = buffers_.fp8_weight_scales +
                           plan::kFloatsOfScale * plan::CodedWeightOf(plan_, op, layer_);
    }
    bound.dy_turned = buffers_.At(plan::buffers::kFp8DyTurned);
    const plan::AmaxNumbers known = amaxes_.ReadBy(op.id);
    bound.amax_of_x.known = AmaxAt(buffers_, known.value);
    bound.amax_of_dy.known = AmaxAt(buffers_, known.gradient);
    bound.weight_amax = AmaxAt(buffers_, known.weight);
    return bound;
  }

  BoundRotation BindRotation(const model::RotateOp& op) {
    const model::Rope rope = plan_.model.ropes()[static_cast<size_t>(op.rope)];
    return {.spec = RotarySpec(model_, op),
            .cos = RopeTableAt(op.rope, plan::buffers::kCosines),
            .sin = RopeTableAt(op.rope, plan::buffers::kSines),
            .query_scale = rope.query_scale_beta > 0
                               ? RopeTableAt(op.rope, plan::buffers::kQueryScales)
                               : nullptr,
            .qkv = At(op.qkv),
            .dqkv = GradientAt(op.qkv)};
  }

  BoundAttention BindAttention(const model::AttentionOp& op) {
    return {.spec = HeadsSpec(model_, op),
            .sinks = &block_.sinks.at(op.id),
            .qkv = At(op.qkv),
            .out = At(op.out),
            .lse = FloatAt(op.lse),
            .dout = GradientAt(op.out),
            .dqkv = GradientAt(op.qkv),
            .cache = {CacheAt(plan::buffers::kCacheKeys, plan::CachedKeyBytes(plan_)),
                      CacheAt(plan::buffers::kCacheValues, plan::CachedValueBytes(plan_))}};
  }

  BoundGate BindGate(const model::GateOp& op) {
    return {.spec = GateOf(model_, op),
            .rows_per_token = std::max<int64_t>(1, op.routed.chosen),
            .gate_up = At(op.in),
            .y = At(op.out),
            .dy = GradientAt(op.out),
            .amax = StoredAmaxOf(op.id)};
  }

  BoundAdd BindAdd(const model::AddOp& op) {
    return {.width = op.width, .stream = At(op.stream), .branch = At(op.branch), .out = At(op.out)};
  }

  const float* RopeTableAt(int64_t rope, const char* name) const {
    return static_cast<const float*>(buffers_.At(plan::RopeRow(rope, name)));
  }
  void* At(const Row& row) const { return buffers_.At(plan::BufferName(row)); }
  void* CacheAt(const char* name, int64_t layer_bytes) const {
    if (!plan_.generates()) return nullptr;
    return static_cast<char*>(buffers_.At(name)) + layer_ * layer_bytes;
  }
  float* FloatAt(const Row& row) const { return static_cast<float*>(At(row)); }
  int32_t* IdsAt(const Row& row) const { return static_cast<int32_t*>(At(row)); }
  // Null where nothing is trained: the plan has no such rows then.
  void* GradientAt(const Row& row) const {
    const auto gradient = gradients_.of.find(row);
    return gradient == gradients_.of.end() ? nullptr : At(gradient->second);
  }
  float* FloatGradientAt(const Row& row) const {
    return plan_.trains() ? static_cast<float*>(GradientAt(row)) : nullptr;
  }

  // Asked once a reader, in the order of backward: all but the first find a gradient there. That of
  // the stream is there before the block.
  bool Accumulates(const Row& row) {
    const auto gradient = gradients_.of.find(row);
    if (gradient != gradients_.of.end() && gradient->second.name == plan::buffers::kDres)
      return true;
    return !written_.insert(row).second;
  }

  NeededGradients NeedOf(const Op& op) const { return needed_.at(std::visit(NumberOf{}, op)); }

  bool ComesBack(const model::GateOp& gate) const { return products_come_back_.count(gate.id) > 0; }

  // A row that layers share at the plan's level of recomputation.
  bool IsShared(const Row& row) const {
    const auto found = again_.find(row);
    return found != again_.end() && plan::ComputesAgain(plan_, found->second);
  }

  // The rows of the last block are still there in backward.
  bool IsLast() const { return layer_ + 1 == plan_.model.num_layers; }
  bool IsComputedAgain(const Row& row) const { return !IsLast() && IsShared(row); }

  // Whether an op at the end of a block writes what the block's own backward reads.
  bool WritesOwn(const Op& op) const {
    if (std::holds_alternative<model::AddOp>(op)) return false;
    if (const auto* both = std::get_if<model::LinearAddOp>(&op)) {
      return both->add.out.layer == layer_;
    }
    if (const auto* combine = std::get_if<model::CombineOp>(&op)) {
      return combine->out.layer == layer_;
    }
    if (const auto* gate = std::get_if<model::SigmoidGateOp>(&op)) {
      return gate->out.layer == layer_;
    }
    const auto* linear = std::get_if<model::LinearOp>(&op);
    return linear == nullptr || linear->out.layer == layer_ ||
           !block_.linears.at(linear->id).adapters.members.empty();
  }

  void BindOneAgain(const Op& op, std::vector<BoundOp>* out);

  const plan::Plan& plan_;
  const Buffers& buffers_;
  const plan::Fp8AmaxesOfBlock& amaxes_;
  const Model& model_;
  const Block& block_;
  const int64_t layer_;
  const std::vector<plan::Router> routers_;
  const plan::GradientRows gradients_;
  std::map<Row, plan::Again> again_;
  std::map<int32_t, NeededGradients> needed_;
  std::map<int32_t, model::RouteOp> routes_;
  std::set<Row> written_;
  std::set<int32_t> products_come_back_;  // of which gates: backward of the next linear gives them
};

void BlockBinder::BindForward(const plan::Ops& ops, BoundBlock* out) {
  for (const Op& op : ops) out->forward.push_back(std::visit(*this, op));
  const auto* both = std::get_if<BoundAddNorm>(&out->forward.front());
  out->first = both == nullptr ? out->forward.front() : BoundOp(both->norm);
  while (!WritesOwn(ops[ops.size() - 1 - out->only_for_next])) ++out->only_for_next;
}

void BlockBinder::BindBackward(const plan::Ops& ops, BoundBlock* out) {
  written_.clear();
  for (const Op& op : ops) {
    if (!NeedOf(op).of_output) continue;
    const auto* both = std::get_if<model::GateDownOp>(&op);
    const bool shared = both != nullptr && IsComputedAgain(both->gate.out);
    if (shared && NeedOf(op).of_input) products_come_back_.insert(both->gate.id);
    out->backward.push_back(std::visit(*this, op));
  }
}

void BlockBinder::BindOneAgain(const Op& op, std::vector<BoundOp>* out) {
  if (const auto* both = std::get_if<model::AddNormOp>(&op)) {
    if (IsShared(both->norm.out)) out->emplace_back(BindNorm(both->norm));
  } else if (const auto* norm = std::get_if<model::NormOp>(&op)) {
    if (IsShared(norm->out)) out->emplace_back(BindNorm(*norm));
  } else if (const auto* linear = std::get_if<model::LinearOp>(&op)) {
    if (IsShared(linear->out)) out->emplace_back(BindLinear(*linear));
  } else if (const auto* gated = std::get_if<model::GatedLinearOp>(&op)) {
    BoundGatedLinear bound = BindGated(*gated);
    bound.wants_product = !ComesBack(gated->gate);
    if (IsShared(gated->linear.out)) {
      out->emplace_back(bound);
    } else if (IsShared(gated->gate.out) && bound.wants_product) {
      out->emplace_back(bound.gate);
    }
  } else if (const auto* stack = std::get_if<model::GroupedGatedLinearOp>(&op)) {
    if (IsShared(stack->linear.out)) {
      out->emplace_back(BindGatedExperts(*stack));
    } else if (IsShared(stack->gate.out)) {
      out->emplace_back(BindGate(stack->gate));
    }
  } else if (const auto* gate = std::get_if<model::GateOp>(&op)) {
    if (IsShared(gate->out) && !ComesBack(*gate)) out->emplace_back(BindGate(*gate));
  } else if (const auto* activation = std::get_if<model::ActivationOp>(&op)) {
    if (IsShared(activation->out)) out->push_back((*this)(*activation));
  } else if (const auto* dispatch = std::get_if<model::DispatchOp>(&op)) {
    if (IsShared(dispatch->out)) out->push_back((*this)(*dispatch));
  } else if (const auto* experts = std::get_if<model::GroupedLinearOp>(&op)) {
    if (IsShared(experts->out)) out->emplace_back(BindExperts(*experts));
  }
}

void BlockBinder::BindAgain(const plan::Ops& forward, BoundBlock* out) {
  if (IsLast()) return;
  for (const Op& op : forward) BindOneAgain(op, &out->again);
}

BoundNorm BindFinalNorm(const model::NormOp& op, const Model& model, const Buffers& buffers) {
  const auto at = [&](const Row& row) { return buffers.At(plan::BufferName(row)); };
  BoundNorm norm = SpecsOf(model, op, model.final_norm);
  norm.x = at(op.in);
  norm.y = at(op.out);
  norm.rstd = static_cast<float*>(at(op.rstd));
  if (op.is_layer_norm()) norm.mean = static_cast<float*>(at(op.mean));
  norm.dy = buffers.dnorm;
  norm.dx = buffers.dres;
  norm.accumulates = false;
  return norm;
}

void MarkFirstRouter(BoundModel* bound) {
  for (BoundBlock& block : bound->blocks) {
    for (BoundOp& op : block.forward) {
      auto* route = std::get_if<BoundRoute>(&op);
      if (route == nullptr) continue;
      route->first = true;
      return;
    }
  }
}

BoundOp BindTail(const Op& op, const BoundNorm& norm, const Buffers& buffers) {
  const auto at = [&](const Row& row) { return buffers.At(plan::BufferName(row)); };
  BoundOp bound(norm);
  if (const auto* both = std::get_if<model::AddNormOp>(&op)) {
    const BoundAdd add{both->add.width, at(both->add.stream), at(both->add.branch),
                       at(both->add.out)};
    bound = BoundAddNorm{.add = add, .norm = norm};
  }
  return bound;
}

}  // namespace

BoundModel BindOps(const plan::Plan& plan, const Model& model, const Buffers& buffers) {
  const plan::OpLists lists = plan::OpListsOf(plan);
  const plan::Fp8Amaxes amaxes = plan::Fp8AmaxesOf(plan);
  BoundModel bound;
  bound.lowest = plan.model.num_layers;
  bound.values = {buffers.fp8_amaxes, amaxes.values};
  bound.gradients = {buffers.fp8_amaxes + amaxes.values, amaxes.gradients};
  GradientNeeds needs(model);
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    const auto i = static_cast<size_t>(layer);
    BlockBinder binder(plan, model, buffers, amaxes.blocks[i], layer);
    for (const model::PlainOp& op : plan.architecture.blocks[i].ops) {
      binder.Need(op, needs.Visit(op, layer));
    }
    BoundBlock& block = bound.blocks.emplace_back();
    binder.BindForward(lists.forward[i], &block);
    binder.BindBackward(lists.backward[i], &block);
    binder.BindAgain(lists.forward[i], &block);
    if (!block.backward.empty()) bound.lowest = std::min(bound.lowest, layer);
  }
  MarkFirstRouter(&bound);
  bound.final_norm = BindFinalNorm(plan.architecture.outside.norm, model, buffers);
  bound.final_norm.amax.gradient = AmaxAt(buffers, amaxes.final_gradient);
  for (const Op& op : lists.forward.back()) {
    bound.tail.push_back(BindTail(op, bound.final_norm, buffers));
  }
  bound.embedded = buffers.At(plan::BufferName(model::BlockInput(0)));
  return bound;
}

}  // namespace coxswain::engine
