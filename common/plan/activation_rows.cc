#include "common/plan/activation_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/model/family.h"
#include "common/plan/op_lists.h"

namespace coxswain::plan {
namespace {

using model::Op;
using model::Row;

// Collects what an op writes that belongs to one layer.
class Rows {
 public:
  Rows(const Plan& plan, int64_t layer) : model_(plan.model), layer_(layer) {
    Add(model::BlockInput(layer), model_.hidden_size);
  }

  void operator()(const model::NormOp& norm) {
    AddFloat(norm.rstd, 1);
    if (norm.is_layer_norm()) AddFloat(norm.mean, 1);
    Add(norm.out, model_.hidden_size, Again::kElementwise);
  }
  void operator()(const model::LinearOp& linear) {
    const bool feeds_activation = linear.pack == model::Pack::kGateUp;
    Add(linear.out, linear.out_features, feeds_activation ? Again::kProduct : Again::kNever);
  }
  void operator()(const model::QkNormOp& norm) {
    const int64_t heads = model_.num_heads + model_.num_kv_heads;
    Add(norm.raw, heads * model_.head_dim);
    AddFloat(norm.rstd, norm.whole ? 2 : heads);
  }
  void operator()(const model::RotateOp& /*in place*/) {}
  void operator()(const model::AttentionOp& attention) {
    Add(attention.out, model_.num_heads * model_.head_dim);
    AddFloat(attention.lse, model_.num_heads);
  }
  void operator()(const model::GateOp& gate) {
    Add(gate.out, model_.intermediate_size, Again::kElementwise);
  }
  void operator()(const model::ActivationOp& activation) {
    Add(activation.out, model_.intermediate_size, Again::kElementwise);
  }
  void operator()(const model::AddOp& add) { Add(add.out, model_.hidden_size); }
  void operator()(const model::LinearRotateOp& both) {
    (*this)(both.linear);
    (*this)(both.rotate);
  }
  void operator()(const model::LinearAddOp& both) {
    (*this)(both.linear);
    (*this)(both.add);
  }
  void operator()(const model::AddNormOp& both) {
    (*this)(both.add);
    (*this)(both.norm);
  }
  void operator()(const model::GatedLinearOp& both) {
    (*this)(both.linear);
    (*this)(both.gate);
  }
  void operator()(const model::GateDownOp& both) {
    (*this)(both.gate);
    (*this)(both.down);
  }
  void operator()(const model::RotatedAttentionOp& both) {
    (*this)(both.rotate);
    (*this)(both.attention);
  }

  void Add(const Row& row, int64_t width, Again again = Again::kNever) {
    if (row.layer == layer_) rows_.push_back({row, width, /*float32=*/false, again});
  }
  std::vector<ActivationRow> Take() { return std::move(rows_); }

 private:
  void AddFloat(const Row& row, int64_t width) {
    if (row.layer == layer_) rows_.push_back({row, width, /*float32=*/true, Again::kNever});
  }

  const model::ModelConfig& model_;
  const int64_t layer_;
  std::vector<ActivationRow> rows_;
};

std::vector<model::LinearOp> LinearsOf(const Ops& ops) {
  std::vector<model::LinearOp> linears;
  for (const Op& op : ops) {
    if (const auto* linear = std::get_if<model::LinearOp>(&op)) linears.push_back(*linear);
  }
  return linears;
}

void AddAdapterRows(const Plan& plan, int64_t layer, const Ops& ops, Rows* rows) {
  const int64_t adapted =
      std::count_if(plan.parameters.begin(), plan.parameters.end(),
                    [layer](const auto& p) { return p.layer == layer && model::IsLoraA(p.role); });
  if (adapted == 0) return;
  rows->Add({layer, "lora_h"}, plan.lora.rank * adapted);
  if (!plan.lora.dora) return;
  const AdaptedLinears linears(plan);
  for (const model::LinearOp& linear : LinearsOf(ops)) {
    if (!linears.Has(linear, layer)) continue;
    const bool product = linear.pack == model::Pack::kGateUp;
    rows->Add(UnscaledRow(linear.pack, layer), linear.out_features,
              product ? Again::kProduct : Again::kNever);
  }
}

}  // namespace

std::vector<ActivationRow> ActivationRows(const Plan& plan, int64_t layer) {
  const Ops ops = model::BlockOf(plan.model, layer).ops;
  Rows rows(plan, layer);
  for (const Op& op : ops) std::visit(rows, op);
  AddAdapterRows(plan, layer, ops, &rows);
  return rows.Take();
}

int64_t ActivationOwner(const Plan& plan, const ActivationRow& row) {
  const int64_t layer = row.row.layer;
  if (plan.recompute == "norm_swiglu") return row.again == Again::kElementwise ? 0 : layer;
  if (plan.recompute == "ffn") return row.again != Again::kNever ? 0 : layer;
  if (plan.recompute != "block") return layer;
  const int64_t in_segment = layer % plan.recompute_every;
  return row.row == model::BlockInput(layer) && in_segment == 0 ? layer : in_segment;
}

std::string BufferName(const Row& row) {
  return row.layer < 0 ? row.name : absl::StrCat("layer", row.layer, ".", row.name);
}

Row UnscaledRow(model::Pack pack, int64_t layer) {
  constexpr const char* kNames[] = {"qkv_u", "o_u", "gate_up_u", "down_u"};
  return {layer, kNames[static_cast<size_t>(pack)]};
}

int64_t DoraColumns(const Plan& plan) {
  if (!plan.lora.dora) return 0;
  const AdaptedLinears adapted(plan);
  int64_t columns = 0;
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    for (const model::LinearOp& linear : LinearsOf(model::BlockOf(plan.model, layer).ops)) {
      if (adapted.Has(linear, layer)) columns += linear.out_features;
    }
  }
  return columns;
}

}  // namespace coxswain::plan
