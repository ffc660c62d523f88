#include "common/plan/buffers/gradient_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/op_rows.h"
#include "common/plan/buffer_names.h"

namespace coxswain::plan {
namespace {

using model::Row;

Row Shared(std::string name) { return {model::kSharedByLayers, std::move(name)}; }

// In the order of the buffer table.
constexpr const char* kClasses[] = {buffers::kDnorm,    buffers::kDqkv,    buffers::kDatt,
                                    buffers::kDswiglu,  buffers::kDheads,  buffers::kDrouted,
                                    buffers::kDexperts, buffers::kDlogits, buffers::kDscores,
                                    buffers::kDweights};
constexpr size_t kStream = 0, kQkv = 1, kAttention = 2, kProduct = 3, kHeads = 4, kRouted = 5,
                 kExperts = 6, kLogits = 7, kScores = 8, kWeights = 9;

std::string SlotName(size_t of_class, size_t slot) {
  if (slot == 0) return kClasses[of_class];
  const std::string more = of_class == kStream ? buffers::kDshared : kClasses[of_class];
  return of_class == kStream && slot == 1 ? more : absl::StrCat(more, slot);
}

// The class of the slot that the gradient of what an op writes has.
struct ClassOf {
  const std::set<Row>& attended;  // rows that attention reads

  size_t operator()(const model::LinearOp& op) const {
    return attended.count(op.out) > 0 ? kQkv : kStream;
  }
  size_t operator()(const model::LatentHeadsOp& /*op*/) const { return kQkv; }
  size_t operator()(const model::AttentionOp& /*op*/) const { return kAttention; }
  size_t operator()(const model::GateOp& op) const {
    return op.routed.chosen > 0 ? kExperts : kProduct;
  }
  size_t operator()(const model::ActivationOp& /*op*/) const { return kProduct; }
  size_t operator()(const model::DispatchOp& /*op*/) const { return kRouted; }
  template <typename NormOrBranch>
  size_t operator()(const NormOrBranch& /*op*/) const {
    return kStream;
  }
};

// Walks the ops of a block backward.
class Liveness {
 public:
  explicit Liveness(const model::Block& block) : block_(block) {
    for (const model::PlainOp& op : block.ops) {
      for (const model::Operand& out : model::Writes(op)) made_by_.emplace(out.row, &op);
      if (const auto* attention = std::get_if<model::AttentionOp>(&op)) {
        attended_.insert(attention->qkv);
      }
      if (const auto* add = std::get_if<model::AddOp>(&op)) {
        for (const Row& row : {add->stream, add->branch, add->out}) {
          rows_.of.emplace(row, Shared(buffers::kDres));
        }
      }
      if (const auto* route = std::get_if<model::RouteOp>(&op)) FindRouter(*route);
    }
  }

  void Walk() {
    for (auto op = block_.ops.rbegin(); op != block_.ops.rend(); ++op) {
      TakeInPlace(*op);
      const std::optional<std::pair<size_t, size_t>> copy = TakeCopy(*op);
      for (const model::Operand& in : model::Reads(*op)) TakeFor(in);
      if (copy.has_value()) Free(*copy);
      for (const model::Operand& out : model::Writes(*op)) {
        const auto held = held_.find(out.row);
        if (held == held_.end() || made_by_.at(out.row) != &*op) continue;
        Free(held->second);
        held_.erase(held);
      }
    }
  }

  GradientRows TakeRows() { return std::move(rows_); }
  const std::map<std::pair<size_t, size_t>, int64_t>& widths() const { return widths_; }
  // By slot: rows that layers share.
  const std::map<std::pair<size_t, size_t>, std::set<std::string>>& shared() const {
    return shared_;
  }

 private:
  using Slot = std::pair<size_t, size_t>;  // class and number

  void FindRouter(const model::RouteOp& route) {
    rows_.of.emplace(route.logits, Shared(kClasses[kLogits]));
    rows_.of.emplace(route.weights, Shared(kClasses[kWeights]));
    widths_[{kLogits, 0}] = widths_[{kScores, 0}] = route.experts;
    widths_[{kWeights, 0}] = route.chosen;
  }

  // What becomes its gradient: read when all else that reads it is done.
  void TakeInPlace(const model::PlainOp& op) {
    std::vector<Row> ins;
    if (const auto* gate = std::get_if<model::GateOp>(&op)) ins = {gate->in};
    if (const auto* activation = std::get_if<model::ActivationOp>(&op)) ins = {activation->in};
    if (const auto* combine = std::get_if<model::CombineOp>(&op)) ins = {combine->in};
    if (const auto* gate = std::get_if<model::SigmoidGateOp>(&op)) ins = {gate->in, gate->logit};
    for (const Row& in : ins) rows_.of.emplace(in, in);
  }

  std::optional<Slot> TakeCopy(const model::PlainOp& op) {
    const auto* linear = std::get_if<model::LinearOp>(&op);
    if (linear == nullptr) return std::nullopt;
    const auto of_output = rows_.of.find(linear->out);
    if (of_output == rows_.of.end() || of_output->second.name != buffers::kDres)
      return std::nullopt;
    const Slot slot = Take(kStream, linear->out_features);
    rows_.copy_of_output[linear->id] = Shared(SlotName(slot.first, slot.second));
    // In forward a branch lies in the first slot: what is added to it needs another.
    if (linear->adds) Widen({kStream, 1}, linear->out_features);
    return slot;
  }

  void TakeFor(const model::Operand& in) {
    const auto maker = made_by_.find(in.row);
    if (in.type != model::RowType::kCompute || maker == made_by_.end() ||
        rows_.of.count(in.row) > 0) {
      return;
    }
    const bool shared = in.row.layer == model::kSharedByLayers;
    const size_t of_class = shared ? kHeads : std::visit(ClassOf{attended_}, *maker->second);
    const Slot slot = Take(of_class, in.width);
    if (shared) shared_[slot].insert(in.row.name);
    rows_.of.emplace(in.row, Shared(SlotName(slot.first, slot.second)));
    held_.emplace(in.row, slot);
  }

  Slot Take(size_t of_class, int64_t width) {
    Slot slot{of_class, 0};
    while (!live_.insert(slot).second) ++slot.second;
    Widen(slot, width);
    return slot;
  }
  void Widen(const Slot& slot, int64_t width) { widths_[slot] = std::max(widths_[slot], width); }
  void Free(const Slot& slot) { live_.erase(slot); }

  const model::Block& block_;
  std::map<Row, const model::PlainOp*> made_by_;
  std::set<Row> attended_;
  GradientRows rows_;
  std::map<Row, Slot> held_;
  std::set<Slot> live_;
  std::map<Slot, int64_t> widths_;
  std::map<Slot, std::set<std::string>> shared_;
};

}  // namespace

GradientRows GradientRowsOf(const model::Block& block) {
  Liveness liveness(block);
  liveness.Walk();
  return liveness.TakeRows();
}

std::vector<GradientSlot> GradientSlots(const model::Architecture& model) {
  std::map<std::pair<size_t, size_t>, int64_t> widths;
  std::map<std::pair<size_t, size_t>, std::set<std::string>> shared;
  // The final norm's.
  widths[{kStream, 0}] = model.outside.norm.width;
  for (const model::Block& block : model.blocks) {
    Liveness liveness(block);
    liveness.Walk();
    for (const auto& [slot, width] : liveness.widths()) {
      widths[slot] = std::max(widths[slot], width);
    }
    for (const auto& [slot, rows] : liveness.shared())
      shared[slot].insert(rows.begin(), rows.end());
  }
  std::vector<GradientSlot> slots;
  for (const auto& [slot, width] : widths) {
    const bool float32 = slot.first == kLogits || slot.first == kWeights;
    const std::set<std::string>& rows = shared[slot];
    slots.push_back({.name = SlotName(slot.first, slot.second),
                     .width = width,
                     .float32 = float32,
                     .in_forward = slot.first == kStream || slot.first == kHeads,
                     .rows = {rows.begin(), rows.end()}});
  }
  return slots;
}

}  // namespace coxswain::plan
