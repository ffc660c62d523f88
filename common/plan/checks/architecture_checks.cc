#include "common/plan/checks/architecture_checks.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/model/op_rows.h"
#include "common/plan/buffers/activation_rows.h"
#include "common/status_macros.h"

namespace coxswain::plan {
namespace {

using model::Row;

constexpr int64_t kMostWidth = std::numeric_limits<int32_t>::max();

struct Shape {
  int64_t rows = 0, cols = 1, batch = 1;
  bool operator==(const Shape&) const = default;
};

std::string Text(const Shape& shape) {
  return absl::StrCat("[", shape.batch, ", ", shape.rows, ", ", shape.cols, "]");
}

// The ops of one block, or the norm behind the blocks.
class OpChecks {
 public:
  OpChecks(std::string where, const std::vector<model::TensorSpec>& tensors)
      : where_(std::move(where)), tensors_(tensors) {}

  // Rows that are there before the first op.
  void Know(const Row& row, int64_t width) { rows_[row] = {row, width}; }

  absl::Status Check(const model::PlainOp& op) {
    RETURN_IF_ERROR(std::visit([this](const auto& plain) { return Numbers(plain); }, op));
    for (const model::Operand& in : model::Reads(op)) RETURN_IF_ERROR(CheckRead(in));
    for (const model::Operand& out : model::Writes(op)) {
      RETURN_IF_ERROR(CheckWidth(out));
      rows_[out.row] = out;
    }
    if (const auto* route = std::get_if<model::RouteOp>(&op)) routes_[route->id] = route->chosen;
    return absl::OkStatus();
  }

  bool Knows(const Row& row) const { return rows_.count(row) > 0; }

 private:
  template <typename... What>
  absl::Status Refuse(const What&... what) const {
    return absl::InvalidArgumentError(absl::StrCat("plan: ", where_, ": ", what...));
  }

  absl::Status CheckWidth(const model::Operand& operand) const {
    const int64_t width = operand.width + operand.fixed;
    if (width >= 1 && width <= kMostWidth && !operand.row.name.empty()) return absl::OkStatus();
    return Refuse("row \"", BufferName(operand.row), "\" is ", width, " wide, expected 1 to ",
                  kMostWidth, " and a name");
  }

  absl::Status CheckRead(const model::Operand& in) const {
    const auto found = rows_.find(in.row);
    if (found == rows_.end()) {
      return Refuse("reads row \"", BufferName(in.row), "\", which no op before it writes");
    }
    if (found->second.width == in.width && found->second.type == in.type) return absl::OkStatus();
    return Refuse("reads row \"", BufferName(in.row), "\" ", in.width, " wide, which is ",
                  found->second.width, " wide");
  }

  absl::Status Tensor(int32_t number, const Shape& wanted) const {
    if (number < 0 || number >= static_cast<int32_t>(tensors_.size())) {
      return Refuse("takes tensor ", number, " of ", tensors_.size());
    }
    const model::TensorSpec& tensor = tensors_[static_cast<size_t>(number)];
    const Shape shape{tensor.rows, tensor.cols, tensor.batch};
    if (shape == wanted) return absl::OkStatus();
    return Refuse("\"", tensor.name, "\" is ", Text(shape), ", the op takes ", Text(wanted));
  }
  absl::Status MaybeTensor(int32_t number, const Shape& wanted) const {
    return number == model::kNoTensor ? absl::OkStatus() : Tensor(number, wanted);
  }

  absl::Status AboveZero(const char* name, double value) const {
    if (std::isfinite(value) && value > 0) return absl::OkStatus();
    return Refuse(name, " is ", value, ", expected finite and above 0");
  }
  absl::Status Of(const char* name, int64_t value, int64_t least, int64_t most) const {
    if (value >= least && value <= most) return absl::OkStatus();
    return Refuse(name, " is ", value, ", expected ", least, " to ", most);
  }
  absl::Status Of(const model::Heads& heads) const {
    RETURN_IF_ERROR(Of("query heads", heads.queries, 1, 1 << 16));
    RETURN_IF_ERROR(Of("key heads", heads.keys, 1, heads.queries));
    RETURN_IF_ERROR(Of("width of a head", heads.width, 2, 1 << 14));
    RETURN_IF_ERROR(Of("width of a head, modulo 2", heads.width % 2, 0, 0));
    RETURN_IF_ERROR(Of("width of a head's values", heads.value, 0, 1 << 14));
    return Of("query heads, modulo key heads", heads.queries % heads.keys, 0, 0);
  }
  absl::Status Of(const model::Routed& routed) const {
    const auto route = routes_.find(routed.route);
    if (route != routes_.end() && route->second == routed.chosen) return absl::OkStatus();
    return Refuse("is routed by op ", routed.route, " with ", routed.chosen,
                  " experts a token, which no router before it is");
  }
  absl::Status Of(model::Activation activation) const {
    return Of("activation", static_cast<int64_t>(activation), 0,
              static_cast<int64_t>(model::Activation::kLast));
  }

  absl::Status Numbers(const model::NormOp& op) const {
    RETURN_IF_ERROR(AboveZero("eps", op.eps));
    RETURN_IF_ERROR(Tensor(op.weight, {op.width}));
    return MaybeTensor(op.bias, {op.width});
  }
  absl::Status Numbers(const model::LinearOp& op) const {
    int64_t rows = 0;
    for (const model::LinearMember& member : op.members) {
      RETURN_IF_ERROR(Of("rows of a member", member.rows, 1, kMostWidth));
      RETURN_IF_ERROR(Tensor(member.weight, {member.rows, op.in_features}));
      RETURN_IF_ERROR(MaybeTensor(member.bias, {member.rows}));
      rows += member.rows;
    }
    RETURN_IF_ERROR(Of("site", op.site, 0, 1 << 10));
    return Of("rows of all members", rows, op.out_features, op.out_features);
  }
  absl::Status Numbers(const model::QkNormOp& op) const {
    RETURN_IF_ERROR(Of(op.heads));
    RETURN_IF_ERROR(AboveZero("eps", op.eps));
    const int64_t q = op.whole ? op.heads.query_width() : op.heads.width;
    RETURN_IF_ERROR(Tensor(op.q_weight, {q}));
    return Tensor(op.k_weight, {op.whole ? op.heads.key_width() : op.heads.width});
  }
  absl::Status Numbers(const model::RotateOp& op) const {
    RETURN_IF_ERROR(Of(op.heads));
    RETURN_IF_ERROR(Of("rope", op.rope, 0, 1));
    return Of("rotated", op.rotated, 0, op.heads.width);
  }
  absl::Status Numbers(const model::AttentionOp& op) const {
    RETURN_IF_ERROR(Of(op.heads));
    RETURN_IF_ERROR(Of("window", op.window, 0, kMostWidth));
    RETURN_IF_ERROR(AboveZero("scale", op.scale));
    RETURN_IF_ERROR(MaybeTensor(op.sinks, {op.heads.queries}));
    return op.softcap == 0 ? absl::OkStatus() : AboveZero("softcap", op.softcap);
  }
  absl::Status Numbers(const model::GateOp& op) const {
    RETURN_IF_ERROR(Of(op.activation));
    if (op.activation == model::Activation::kClampedSilu) {
      RETURN_IF_ERROR(AboveZero("alpha", op.alpha));
      RETURN_IF_ERROR(AboveZero("limit", op.limit));
    }
    return op.routed == model::Routed{} ? absl::OkStatus() : Of(op.routed);
  }
  absl::Status Numbers(const model::ActivationOp& op) const {
    return Of("activation without a gate", static_cast<int64_t>(op.activation), 0,
              static_cast<int64_t>(model::Activation::kGelu));
  }
  absl::Status Numbers(const model::AddOp& /*op*/) const { return absl::OkStatus(); }
  absl::Status Numbers(const model::RouteOp& op) const {
    RETURN_IF_ERROR(Of("experts", op.experts, 1, 1 << 10));
    RETURN_IF_ERROR(Of("experts of a token", op.chosen, 1, op.experts));
    RETURN_IF_ERROR(Of("groups", op.groups, 1, op.experts));
    RETURN_IF_ERROR(Of("groups of a token", op.top_groups, 1, op.groups));
    RETURN_IF_ERROR(
        Of("score", static_cast<int64_t>(op.score), 0, static_cast<int64_t>(model::Score::kLast)));
    RETURN_IF_ERROR(AboveZero("scale", op.scale));
    RETURN_IF_ERROR(Tensor(op.weight, {op.experts, op.width}));
    RETURN_IF_ERROR(MaybeTensor(op.bias, {op.experts}));
    return MaybeTensor(op.correction, {op.experts});
  }
  absl::Status Numbers(const model::DispatchOp& op) const { return Of(op.routed); }
  absl::Status Numbers(const model::GroupedLinearOp& op) const {
    RETURN_IF_ERROR(Of(op.routed));
    RETURN_IF_ERROR(Tensor(op.weight, {op.out_features, op.in_features, op.experts}));
    return MaybeTensor(op.bias, {op.out_features, 1, op.experts});
  }
  absl::Status Numbers(const model::CombineOp& op) const { return Of(op.routed); }
  absl::Status Numbers(const model::SigmoidGateOp& /*op*/) const { return absl::OkStatus(); }
  absl::Status Numbers(const model::SplitOp& op) const {
    RETURN_IF_ERROR(Of("width of the first part", op.first_width, 1, kMostWidth));
    return Of("width of the second part", op.second_width, 1, kMostWidth);
  }
  absl::Status Numbers(const model::LatentHeadsOp& op) const {
    RETURN_IF_ERROR(Of(op.heads));
    RETURN_IF_ERROR(Of("width of a head's values", op.heads.value, 1, 1 << 14));
    RETURN_IF_ERROR(Of("key heads", op.heads.keys, op.heads.queries, op.heads.queries));
    RETURN_IF_ERROR(Of("rope", op.rope, 0, 1));
    RETURN_IF_ERROR(Of("rotated", op.rotated, 2, op.heads.width - 1));
    return Of("rotated, modulo 2", op.rotated % 2, 0, 0);
  }

  const std::string where_;
  const std::vector<model::TensorSpec>& tensors_;
  std::map<Row, model::Operand> rows_;
  std::map<int32_t, int64_t> routes_;
};

absl::Status CheckTensor(const std::string& where, const model::TensorSpec& tensor) {
  const auto within = [](int64_t value, int64_t most) { return value >= 1 && value <= most; };
  int64_t file_rows = 0;
  for (const model::RowRange& range : tensor.file_rows) {
    const bool inside = range.begin >= 0 && range.count >= 1 && range.begin <= tensor.rows &&
                        range.count <= tensor.rows - range.begin;
    file_rows += inside ? range.count : kMostWidth;
  }
  const bool ordered = tensor.file_rows.empty() || file_rows == tensor.rows;
  const auto kind = static_cast<uint32_t>(tensor.kind);
  if (within(tensor.rows, kMostWidth) && within(tensor.cols, kMostWidth) &&
      within(tensor.batch, 1 << 10) && within(kind, static_cast<int64_t>(model::Kind::kLast)) &&
      ordered && !tensor.name.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("plan: ", where, ": tensor \"", tensor.name, "\" of kind ", kind, " is ",
                   Text({tensor.rows, tensor.cols, tensor.batch}), " with ", file_rows,
                   " rows in the file; expected a kind, a name and extents of this build"));
}

absl::Status CheckBlock(const Plan& plan, int64_t layer) {
  const model::Block& block = plan.architecture.blocks[static_cast<size_t>(layer)];
  for (const model::TensorSpec& tensor : block.tensors) {
    RETURN_IF_ERROR(CheckTensor(absl::StrCat("block ", layer), tensor));
  }
  OpChecks checks(absl::StrCat("block ", layer), block.tensors);
  checks.Know(model::BlockInput(layer), plan.model.hidden_size);
  for (size_t i = 0; i < block.ops.size(); ++i) {
    const int32_t id = std::visit([](const auto& op) { return op.id; }, block.ops[i]);
    if (id != static_cast<int32_t>(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: block ", layer, ": op ", i, " has number ", id));
    }
    RETURN_IF_ERROR(checks.Check(block.ops[i]));
  }
  const Row out = model::BlockOutput(plan.model, layer);
  if (checks.Knows(out)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("plan: block ", layer, " does not write \"", BufferName(out), "\""));
}

absl::Status CheckOutside(const Plan& plan) {
  const model::Outside& outside = plan.architecture.outside;
  std::vector<model::TensorSpec> tensors = {outside.embedding, outside.head};
  tensors.insert(tensors.end(), outside.final_norm.begin(), outside.final_norm.end());
  for (const model::TensorSpec& tensor : tensors) {
    RETURN_IF_ERROR(CheckTensor("outside the blocks", tensor));
  }
  OpChecks checks("the final norm", tensors);
  checks.Know(model::kFinalResidual, plan.model.hidden_size);
  return checks.Check(outside.norm);
}

}  // namespace

absl::Status CheckArchitecture(const Plan& plan) {
  const auto blocks = static_cast<int64_t>(plan.architecture.blocks.size());
  if (blocks != plan.model.num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: ", blocks, " blocks, the model has ", plan.model.num_layers));
  }
  for (int64_t layer = 0; layer < blocks; ++layer) RETURN_IF_ERROR(CheckBlock(plan, layer));
  return CheckOutside(plan);
}

}  // namespace coxswain::plan
