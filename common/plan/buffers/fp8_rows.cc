#include "common/plan/buffers/fp8_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/buffer_names.h"
#include "common/plan/buffers/activation_rows.h"
#include "common/plan/buffers/fp8_amaxes.h"
#include "common/plan/fp8_gather.h"

namespace coxswain::plan {
namespace {

using kernels::Fp8Scaling;

int64_t Align(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The largest of each operand over all linears.
struct Widest {
  int64_t x = 0, x_turned = 0, dy = 0, dy_turned = 0, weight = 0;
};

class Rows {
 public:
  Rows(const Plan& plan, int64_t tokens)
      : plan_(plan), tokens_(tokens), formats_(FormatsOf(plan.fp8)) {}

  void Add(const model::LinearOp& linear, int64_t layer) {
    const int64_t in = linear.in_features, out = linear.out_features;
    Grow(&widest_.x, Fp8OperandBytes(formats_.rows, tokens_, in));
    AddWeight(linear, layer);
    if (!plan_.trains()) return;
    Grow(&widest_.dy, Fp8OperandBytes(formats_.rows, tokens_, out));
    if (!TrainsWeight(plan_, linear, layer)) return;
    Grow(&widest_.dy_turned, Fp8OperandBytes(formats_.rows, out, tokens_));
    const int64_t x_turned = Fp8OperandBytes(formats_.rows, in, tokens_);
    if (IsKeptInFp8(plan_, linear.in, layer)) {
      Put(MemoryClass::kActivations, KeptInputRow(linear, layer), x_turned);
    } else {
      Grow(&widest_.x_turned, x_turned);
    }
  }

  void Add(const model::GroupedLinearOp& experts, int64_t layer) {
    const int64_t in = experts.in_features, out = experts.out_features;
    const int64_t rows = RowsOf(experts, tokens_);
    Grow(&widest_.x, Fp8OperandBytes(formats_.rows, rows, in));
    if (plan_.trains()) Grow(&widest_.dy, Fp8OperandBytes(formats_.rows, rows, out));
    const int64_t straight = Fp8StackBytes(experts.experts, out, in);
    const int64_t turned = plan_.trains() ? Fp8StackBytes(experts.experts, in, out) : 0;
    PutWeight(KeptWeightRow(experts, layer), straight, KeptTurnedWeightRow(experts, layer), turned);
  }

  std::vector<Buffer> Take() {
    Put(MemoryClass::kWorkspace, buffers::kFp8X, widest_.x);
    Put(MemoryClass::kWorkspace, buffers::kFp8XTurned, widest_.x_turned);
    Put(MemoryClass::kWorkspace, buffers::kFp8Dy, widest_.dy);
    Put(MemoryClass::kWorkspace, buffers::kFp8DyTurned, widest_.dy_turned);
    Put(MemoryClass::kWorkspace, buffers::kFp8Weight, widest_.weight);
    return std::move(rows_);
  }

 private:
  void AddWeight(const model::LinearOp& linear, int64_t layer) {
    const int64_t in = linear.in_features, out = linear.out_features;
    const int64_t straight = Fp8OperandBytes(formats_.weights, out, in);
    const int64_t turned = plan_.trains() ? Fp8OperandBytes(formats_.weights, in, out) : 0;
    if (GathersCodes(plan_)) {
      Grow(&widest_.weight, turned);
    } else {
      PutWeight(KeptWeightRow(linear, layer), straight, KeptTurnedWeightRow(linear, layer), turned);
    }
  }
  void PutWeight(std::string straight_row, int64_t straight, std::string turned_row,
                 int64_t turned) {
    if (!plan_.fp8.keeps_weights) return Grow(&widest_.weight, std::max(straight, turned));
    Put(MemoryClass::kWeights, std::move(straight_row), straight);
    Put(MemoryClass::kWeights, std::move(turned_row), turned);
  }
  static void Grow(int64_t* bytes, int64_t to) { *bytes = std::max(*bytes, to); }
  void Put(MemoryClass memory_class, std::string name, int64_t bytes) {
    if (bytes > 0) rows_.push_back({std::move(name), memory_class, bytes, ""});
  }

  const Plan& plan_;
  const int64_t tokens_;
  const Fp8Formats formats_;
  Widest widest_;
  std::vector<Buffer> rows_;
};

}  // namespace

std::string KeptInputRow(const model::LinearOp& linear, int64_t layer) {
  return BufferName({layer, linear.name + "_x8"});
}
std::string KeptWeightRow(const model::LinearOp& linear, int64_t layer) {
  return BufferName({layer, linear.name + "_w8"});
}
std::string KeptTurnedWeightRow(const model::LinearOp& linear, int64_t layer) {
  return BufferName({layer, linear.name + "_w8_turned"});
}

std::string KeptWeightRow(const model::GroupedLinearOp& experts, int64_t layer) {
  return BufferName({layer, experts.name + "_w8"});
}
std::string KeptTurnedWeightRow(const model::GroupedLinearOp& experts, int64_t layer) {
  return BufferName({layer, experts.name + "_w8_turned"});
}

int64_t Fp8CodeBytes(int64_t outer, int64_t k) { return Align(outer * kernels::Fp8Stride(k)); }

int64_t Fp8OperandBytes(Fp8Scaling scaling, int64_t outer, int64_t k) {
  return Fp8CodeBytes(outer, k) + Align(4 * kernels::Fp8Scales(scaling, outer, k));
}

int64_t Fp8StackBytes(int64_t matrices, int64_t outer, int64_t k) {
  return Fp8CodeBytes(matrices * outer, k) + Align(4 * matrices);
}

std::vector<Buffer> Fp8Rows(const Plan& plan, int64_t tokens) {
  if (plan.fp8.recipe == Fp8Recipe::kNone) return {};
  Rows rows(plan, tokens);
  const auto add = [&rows](const auto& linear, int64_t layer) { rows.Add(linear, layer); };
  VisitFp8Linears(plan, add);
  VisitFp8Experts(plan, add);
  std::vector<Buffer> table = rows.Take();
  for (Buffer& row : CodedWeightRows(plan)) table.push_back(std::move(row));
  for (Buffer& row : Fp8AmaxRows(plan)) table.push_back(std::move(row));
  return table;
}

}  // namespace coxswain::plan
