#include "worker/engine/bind_ops.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/model/family.h"
#include "common/plan/activation_rows.h"
#include "common/plan/buffer_rows.h"
#include "common/plan/fused_ops.h"
#include "common/plan/gradient_rows.h"
#include "worker/engine/needed_gradients.h"

namespace coxswain::engine {
namespace {

using model::Op;
using model::Row;

// Finds an op of a block again: it has one norm of each weight, one linear of each pack, one of
// each other kind.
std::pair<size_t, uint32_t> KeyOf(const Op& op) {
  uint32_t which = 0;
  if (const auto* norm = std::get_if<model::NormOp>(&op))
    which = static_cast<uint32_t>(norm->weight);
  if (const auto* linear = std::get_if<model::LinearOp>(&op)) {
    which = static_cast<uint32_t>(linear->pack);
  }
  return {op.index(), which};
}

// Gives the ops of one block their operands.
class BlockBinder {
 public:
  BlockBinder(const plan::Plan& plan, const Model& model, const Buffers& buffers, int64_t layer)
      : plan_(plan),
        buffers_(buffers),
        block_(model.blocks[static_cast<size_t>(layer)]),
        layer_(layer),
        gradients_(plan::GradientRows(plan.model, layer)) {
    for (const plan::ActivationRow& row : plan::ActivationRows(plan, layer)) {
      again_.emplace(row.row, row.again);
    }
  }

  void Need(const Op& op, NeededGradients needed) { needed_[KeyOf(op)] = needed; }

  void BindForward(const plan::Ops& ops, BoundBlock* out);
  // After BindForward.
  void BindBackward(const plan::Ops& ops, BoundBlock* out);
  // Below recompute "block".
  void BindAgain(const plan::Ops& forward, BoundBlock* out);

  BoundOp operator()(const model::NormOp& op) { return BindNorm(op); }
  BoundOp operator()(const model::LinearOp& op) { return BindLinear(op); }
  BoundOp operator()(const model::QkNormOp& op) {
    return BoundQkNorm{.q = &block_.q_norm,
                       .k = &block_.k_norm,
                       .whole = op.whole,
                       .qkv = At(op.qkv),
                       .raw = At(op.raw),
                       .dqkv = GradientAt(op.qkv),
                       .rstd = FloatAt(op.rstd)};
  }
  BoundOp operator()(const model::RotateOp& op) { return BindRotation(op); }
  BoundOp operator()(const model::AttentionOp& op) { return BindAttention(op); }
  BoundOp operator()(const model::GateOp& op) { return BindGate(op); }
  BoundOp operator()(const model::ActivationOp& op) {
    return BoundActivation{.x = At(op.in), .y = At(op.out), .dy = GradientAt(op.out)};
  }
  BoundOp operator()(const model::AddOp& op) { return BindAdd(op); }
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
  BoundOp operator()(const model::GatedLinearOp& op) {
    return BoundGatedLinear{.linear = BindLinear(op.linear), .gate = BindGate(op.gate)};
  }
  BoundOp operator()(const model::GateDownOp& op) {
    const BoundLinear down = BindLinear(op.down);
    BoundOp bound(down);
    if (down.dx != nullptr) {
      bound = BoundGateDown{
          .gate = BindGate(op.gate), .down = down, .product_comes_back = product_comes_back_};
    }
    return bound;
  }
  BoundOp operator()(const model::RotatedAttentionOp& op) {
    return BoundRotatedAttention{.attention = BindAttention(op.attention),
                                 .rotation = BindRotation(op.rotate)};
  }

 private:
  BoundNorm BindNorm(const model::NormOp& op) {
    return {.norm = &block_.norms.at(op.weight),
            .x = At(op.in),
            .y = At(op.out),
            .rstd = FloatAt(op.rstd),
            .mean = op.is_layer_norm() ? FloatAt(op.mean) : nullptr,
            .dy = GradientAt(op.out),
            .dx = GradientAt(op.in),
            .accumulates = Accumulates(op.in)};
  }

  BoundLinear BindLinear(const model::LinearOp& op) {
    const Linear& linear = block_.linear(op.pack);
    BoundLinear bound{.linear = &linear, .x = At(op.in), .y = At(op.out), .adds = op.adds};
    bound.dy = GradientAt(op.out);
    const bool needs_input = needed_.at(KeyOf(op)).of_input;
    if (needs_input) {
      bound.dx = GradientAt(op.in);
      bound.accumulates = Accumulates(op.in);
    }
    if (linear.adapters.members.empty()) return bound;
    bound.lora_h = At({layer_, "lora_h"});
    if (!plan_.lora.dora) return bound;
    bound.u = At(plan::UnscaledRow(op.pack, layer_));
    if (op.adds) bound.spare = buffers_.At("dshared");
    // The gradient of the stream is still wanted.
    const bool of_stream = gradients_.at(op.out).name == "dres";
    bound.du = of_stream ? buffers_.At("dnorm") : const_cast<void*>(bound.dy);
    return bound;
  }

  BoundRotation BindRotation(const model::RotateOp& op) {
    const model::Rope rope = plan_.model.ropes()[static_cast<size_t>(op.rope)];
    const auto table = [&](const char* name) {
      return static_cast<const float*>(buffers_.At(plan::RopeRow(op.rope, name)));
    };
    return {.cos = table("cos"),
            .sin = table("sin"),
            .query_scale = rope.query_scale_beta > 0 ? table("query_scale") : nullptr,
            .qkv = At(op.qkv),
            .dqkv = GradientAt(op.qkv)};
  }

  BoundAttention BindAttention(const model::AttentionOp& op) {
    return {.window = op.window,
            .qkv = At(op.qkv),
            .out = At(op.out),
            .lse = FloatAt(op.lse),
            .dout = GradientAt(op.out),
            .dqkv = GradientAt(op.qkv),
            .cache = {CacheAt("cache.keys"), CacheAt("cache.values")}};
  }

  BoundGate BindGate(const model::GateOp& op) {
    return {.gate_up = At(op.in), .y = At(op.out), .dy = GradientAt(op.out)};
  }

  BoundAdd BindAdd(const model::AddOp& op) {
    return {.stream = At(op.stream), .branch = At(op.branch), .out = At(op.out)};
  }

  void* At(const Row& row) const { return buffers_.At(plan::BufferName(row)); }
  void* CacheAt(const char* name) const {
    if (!plan_.generates()) return nullptr;
    return static_cast<char*>(buffers_.At(name)) + layer_ * plan::CachedLayerBytes(plan_);
  }
  float* FloatAt(const Row& row) const { return static_cast<float*>(At(row)); }
  void* GradientAt(const Row& row) const {
    const auto gradient = gradients_.find(row);
    return gradient == gradients_.end() ? nullptr : At(gradient->second);
  }

  // Asked once a reader, in the order of backward: all but the first find a gradient there. That of
  // the stream is there before the block.
  bool Accumulates(const Row& row) {
    const auto gradient = gradients_.find(row);
    if (gradient != gradients_.end() && gradient->second.name == "dres") return true;
    return !written_.insert(row).second;
  }

  NeededGradients NeedOf(const Op& op) const {
    if (const auto* both = std::get_if<model::GateDownOp>(&op)) {
      return needed_.at(KeyOf(both->down));
    }
    if (const auto* both = std::get_if<model::RotatedAttentionOp>(&op)) {
      return needed_.at(KeyOf(both->attention));
    }
    return needed_.at(KeyOf(op));
  }

  // A row that layers share at the plan's level of recomputation.
  bool IsShared(const Row& row) const {
    const auto found = again_.find(row);
    if (found == again_.end() || found->second == plan::Again::kNever) return false;
    if (plan_.recompute == "ffn") return true;
    return plan_.recompute == "norm_swiglu" && found->second == plan::Again::kElementwise;
  }

  // Whether an op at the end of a block writes what the block's own backward reads.
  bool WritesOwn(const Op& op) const {
    if (std::holds_alternative<model::AddOp>(op)) return false;
    if (const auto* both = std::get_if<model::LinearAddOp>(&op)) {
      return both->add.out.layer == layer_;
    }
    const auto* linear = std::get_if<model::LinearOp>(&op);
    return linear == nullptr || linear->out.layer == layer_ ||
           !block_.linear(linear->pack).adapters.members.empty();
  }

  void BindOneAgain(const Op& op, std::vector<BoundOp>* out);

  const plan::Plan& plan_;
  const Buffers& buffers_;
  const Block& block_;
  const int64_t layer_;
  const std::map<Row, Row> gradients_;
  std::map<Row, plan::Again> again_;
  std::map<std::pair<size_t, uint32_t>, NeededGradients> needed_;
  std::set<Row> written_;
  bool product_comes_back_ = false;
};

void BlockBinder::BindForward(const plan::Ops& ops, BoundBlock* out) {
  for (const Op& op : ops) out->forward.push_back(std::visit(*this, op));
  const auto* both = std::get_if<BoundAddNorm>(&out->forward.front());
  out->first = both == nullptr ? out->forward.front() : BoundOp(both->norm);
  while (!WritesOwn(ops[ops.size() - 1 - out->only_for_next])) ++out->only_for_next;
}

void BlockBinder::BindBackward(const plan::Ops& ops, BoundBlock* out) {
  written_.clear();
  const bool again = layer_ + 1 < plan_.model.num_layers;
  for (const Op& op : ops) {
    if (!NeedOf(op).of_output) continue;
    const auto* both = std::get_if<model::GateDownOp>(&op);
    product_comes_back_ = again && both != nullptr && IsShared(both->gate.out);
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
    BoundGatedLinear bound{.linear = BindLinear(gated->linear), .gate = BindGate(gated->gate)};
    bound.wants_product = !product_comes_back_;
    if (IsShared(gated->linear.out)) {
      out->emplace_back(bound);
    } else if (IsShared(gated->gate.out) && bound.wants_product) {
      out->emplace_back(bound.gate);
    }
  } else if (const auto* gate = std::get_if<model::GateOp>(&op)) {
    if (IsShared(gate->out) && !product_comes_back_) out->emplace_back(BindGate(*gate));
  } else if (const auto* activation = std::get_if<model::ActivationOp>(&op)) {
    if (IsShared(activation->out)) out->push_back((*this)(*activation));
  }
}

void BlockBinder::BindAgain(const plan::Ops& forward, BoundBlock* out) {
  // The rows of the last block are still there.
  if (layer_ + 1 == plan_.model.num_layers) return;
  const auto comes_back = [](const BoundOp& op) {
    const auto* both = std::get_if<BoundGateDown>(&op);
    return both != nullptr && both->product_comes_back;
  };
  product_comes_back_ = std::any_of(out->backward.begin(), out->backward.end(), comes_back);
  for (const Op& op : forward) BindOneAgain(op, &out->again);
}

BoundNorm BindFinalNorm(const model::NormOp& op, const Model& model, const Buffers& buffers) {
  const auto at = [&](const Row& row) { return buffers.At(plan::BufferName(row)); };
  BoundNorm norm;
  norm.norm = &model.final_norm;
  norm.x = at(op.in);
  norm.y = at(op.out);
  norm.rstd = static_cast<float*>(at(op.rstd));
  if (op.is_layer_norm()) norm.mean = static_cast<float*>(at(op.mean));
  norm.dy = buffers.dnorm;
  norm.dx = buffers.dres;
  norm.accumulates = false;
  return norm;
}

BoundOp BindTail(const Op& op, const BoundNorm& norm, const Buffers& buffers) {
  const auto at = [&](const Row& row) { return buffers.At(plan::BufferName(row)); };
  BoundOp bound(norm);
  if (const auto* both = std::get_if<model::AddNormOp>(&op)) {
    const BoundAdd add{at(both->add.stream), at(both->add.branch), at(both->add.out)};
    bound = BoundAddNorm{.add = add, .norm = norm};
  }
  return bound;
}

}  // namespace

BoundModel BindOps(const plan::Plan& plan, const Model& model, const Buffers& buffers) {
  const plan::OpLists plain = plan::PlainOpLists(plan.model), lists = plan::OpListsOf(plan);
  BoundModel bound;
  bound.lowest = plan.model.num_layers;
  GradientNeeds needs(model);
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    const auto i = static_cast<size_t>(layer);
    BlockBinder binder(plan, model, buffers, layer);
    for (const Op& op : plain.forward[i]) binder.Need(op, needs.Visit(op, layer));
    BoundBlock& block = bound.blocks.emplace_back();
    binder.BindForward(lists.forward[i], &block);
    binder.BindBackward(lists.backward[i], &block);
    binder.BindAgain(lists.forward[i], &block);
    if (!block.backward.empty()) bound.lowest = std::min(bound.lowest, layer);
  }
  bound.final_norm = BindFinalNorm(model::OutsideOf(plan.model).norm, model, buffers);
  for (const Op& op : lists.forward.back()) {
    bound.tail.push_back(BindTail(op, bound.final_norm, buffers));
  }
  bound.embedded = buffers.At(plan::BufferName(model::BlockInput(0)));
  return bound;
}

}  // namespace coxswain::engine
