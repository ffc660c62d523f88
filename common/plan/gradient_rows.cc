#include "common/plan/gradient_rows.h"

#include <utility>

#include "common/model/family.h"

namespace coxswain::plan {
namespace {

using model::Row;

Row Shared(const char* name) { return {model::kSharedByLayers, name}; }

class Gradients {
 public:
  explicit Gradients(const model::Block& block) {
    for (const model::Op& op : block.ops) {
      if (const auto* linear = std::get_if<model::LinearOp>(&op)) ++readers_[linear->in];
    }
  }

  void operator()(const model::NormOp& norm) {
    const bool of_branch = norm.out == model::kBranch;
    const Row own = Shared(readers_[norm.out] > 1 ? "dshared" : "dnorm");
    rows_.emplace(norm.out, of_branch ? Shared("dres") : own);
  }
  void operator()(const model::LinearOp& linear) {
    switch (linear.pack) {
      case model::Pack::kQkv:
        rows_.emplace(linear.out, Shared("dqkv"));
        return;
      case model::Pack::kGateUp:
        rows_.emplace(linear.out, linear.out);
        return;
      case model::Pack::kOutput:
      case model::Pack::kDown:
        rows_.emplace(linear.out, Shared(linear.out == model::kBranch ? "dres" : "dnorm"));
        return;
    }
  }
  void operator()(const model::AttentionOp& attention) {
    rows_.emplace(attention.out, Shared("datt"));
  }
  void operator()(const model::GateOp& gate) { rows_.emplace(gate.out, Shared("dswiglu")); }
  void operator()(const model::ActivationOp& op) { rows_.emplace(op.out, Shared("dswiglu")); }
  void operator()(const model::AddOp& add) {
    rows_.emplace(add.stream, Shared("dres"));
    rows_.emplace(add.out, Shared("dres"));
  }
  template <typename InPlaceOrFused>
  void operator()(const InPlaceOrFused& /*op*/) {}

  std::map<Row, Row> Take() { return std::move(rows_); }

 private:
  std::map<Row, int> readers_;
  std::map<Row, Row> rows_;
};

}  // namespace

std::map<Row, Row> GradientRows(const model::ModelConfig& config, int64_t layer) {
  const model::Block block = model::BlockOf(config, layer);
  Gradients gradients(block);
  for (const model::Op& op : block.ops) std::visit(gradients, op);
  return gradients.Take();
}

}  // namespace coxswain::plan
