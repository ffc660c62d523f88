#include "common/plan/buffers/fp8_amaxes.h"

#include <iterator>
#include <type_traits>
#include <variant>

#include "common/model/op_rows.h"
#include "common/plan/buffer_names.h"
#include "common/plan/buffers/gradient_rows.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/fusions/fused_ops.h"
#include "common/plan/storage.h"

namespace coxswain::plan {
namespace {

using model::Row;

AmaxNumbers Find(const std::map<int32_t, AmaxNumbers>& numbers, int32_t op) {
  const auto found = numbers.find(op);
  return found == numbers.end() ? AmaxNumbers{} : found->second;
}

// The kernels of these find the amax of what they store.
template <typename Op>
concept FindsAmax = std::is_same_v<Op, model::NormOp> || std::is_same_v<Op, model::GateOp> ||
    std::is_same_v<Op, model::ActivationOp>;

// Forward through one block. A row that such an op makes is changed by no other.
class Values {
 public:
  Values(const Plan& plan, int64_t layer, Fp8Amaxes* amaxes)
      : plan_(plan),
        layer_(layer),
        block_(amaxes->blocks[static_cast<size_t>(layer)]),
        count_(amaxes->values) {}

  template <FindsAmax Op>
  void operator()(const Op& op) {
    made_[op.out] = &block_.made[op.id].value;
  }
  void operator()(const model::AddNormOp& op) { (*this)(op.norm); }
  void operator()(const model::LinearOp& op) {
    const auto maker = made_.find(op.in);
    if (maker == made_.end() || !InFp8(plan_, op, layer_)) return;
    if (*maker->second == kNoAmax) *maker->second = count_++;
    block_.read[op.id].value = *maker->second;
  }
  void operator()(const model::LinearAddOp& op) { (*this)(op.linear); }
  template <typename Other>
  void operator()(const Other& /*op*/) {}

 private:
  const Plan& plan_;
  const int64_t layer_;
  Fp8AmaxesOfBlock& block_;
  int64_t& count_;
  std::map<Row, int64_t*> made_;
};

// Backward through all blocks.
class Gradients {
 public:
  Gradients(const Plan& plan, Fp8Amaxes* amaxes)
      : plan_(plan), adapted_(plan), amaxes_(*amaxes), next_(amaxes->values) {
    last_[Stream()] = &amaxes->final_gradient;
  }

  // Of blocks, only the gradient of the stream outlives them.
  void Enter(int64_t layer) {
    layer_ = layer;
    rows_ = GradientRowsOf(plan_.architecture.blocks[static_cast<size_t>(layer)]);
    std::erase_if(last_, [](const auto& written) { return written.first != Stream(); });
  }

  template <FindsAmax Op>
  void operator()(const Op& op) {
    const auto row = rows_.of.find(op.in);
    if (row != rows_.of.end()) last_[row->second] = &OfBlock().made[op.id].gradient;
  }
  void operator()(const model::LinearOp& op) {
    Read(op);
    Write(op.in);
  }
  void operator()(const model::GateDownOp& op) {
    (*this)(op.down);
    Write(op.gate.in);
  }
  void operator()(const model::RotatedAttentionOp& op) { Write(op.attention.qkv); }
  template <typename Other>
  void operator()(const Other& op) {
    if constexpr (std::is_constructible_v<model::PlainOp, Other>) {
      for (const model::Operand& in : model::Reads(model::PlainOp(op))) Write(in.row);
    }
  }

  int64_t count() const { return next_ - amaxes_.values; }

 private:
  static Row Stream() { return {model::kSharedByLayers, buffers::kDres}; }
  Fp8AmaxesOfBlock& OfBlock() { return amaxes_.blocks[static_cast<size_t>(layer_)]; }

  void Read(const model::LinearOp& op) {
    const bool scaled = plan_.lora.dora && adapted_.Has(op, layer_);
    const auto row = rows_.of.find(op.out);
    if (scaled || row == rows_.of.end() || !InFp8(plan_, op, layer_)) return;
    const auto writer = last_.find(row->second);
    if (writer == last_.end()) return;
    if (*writer->second == kNoAmax) *writer->second = next_++;
    OfBlock().read[op.id].gradient = *writer->second;
  }
  // The gradient of `row` is from now on one whose amax nobody finds.
  void Write(const Row& row) {
    const auto gradient = rows_.of.find(row);
    if (gradient != rows_.of.end()) last_.erase(gradient->second);
  }

  const Plan& plan_;
  const AdaptedLinears adapted_;
  Fp8Amaxes& amaxes_;
  int64_t next_;
  int64_t layer_ = 0;
  GradientRows rows_;
  std::map<Row, int64_t*> last_;  // by the row of a gradient: of the op that wrote it last
};

// Numbers what producers find.
void NumberStored(const Plan& plan, Fp8Amaxes* amaxes) {
  const OpLists lists = OpListsOf(plan);
  const auto layers = std::ssize(amaxes->blocks);
  for (int64_t layer = 0; layer < layers; ++layer) {
    Values values(plan, layer, amaxes);
    for (const model::Op& op : lists.forward[static_cast<size_t>(layer)]) std::visit(values, op);
  }
  if (!plan.trains()) return;
  Gradients gradients(plan, amaxes);
  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    gradients.Enter(layer);
    for (const model::Op& op : lists.backward[static_cast<size_t>(layer)]) {
      std::visit(gradients, op);
    }
  }
  amaxes->gradients = gradients.count();
}

void NumberWeights(const Plan& plan, Fp8Amaxes* amaxes) {
  VisitFp8Linears(plan, [&](const model::LinearOp& linear, int64_t layer) {
    amaxes->blocks[static_cast<size_t>(layer)].read[linear.id].weight =
        amaxes->values + amaxes->gradients + amaxes->weights++;
  });
}

}  // namespace

AmaxNumbers Fp8AmaxesOfBlock::MadeBy(int32_t op) const { return Find(made, op); }
AmaxNumbers Fp8AmaxesOfBlock::ReadBy(int32_t linear) const { return Find(read, linear); }

Fp8Amaxes Fp8AmaxesOf(const Plan& plan) {
  Fp8Amaxes amaxes;
  amaxes.blocks.resize(plan.architecture.blocks.size());
  if (plan.fp8.recipe == Fp8Recipe::kTensorwise) NumberStored(plan, &amaxes);
  const bool at_each_reading = !plan.fp8.keeps_weights && !GathersCodes(plan);
  if (at_each_reading && ScalesWholeWeights(plan.fp8.recipe)) NumberWeights(plan, &amaxes);
  return amaxes;
}

std::vector<Buffer> Fp8AmaxRows(const Plan& plan) {
  const Fp8Amaxes amaxes = Fp8AmaxesOf(plan);
  const int64_t floats = amaxes.values + amaxes.gradients + amaxes.weights;
  if (floats == 0) return {};
  return {
      {buffers::kFp8Amaxes, MemoryClass::kWorkspace, StorageBytes(Storage::kFloat32, floats), ""}};
}

}  // namespace coxswain::plan
