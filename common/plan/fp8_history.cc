#include "common/plan/fp8_history.h"

#include "common/plan/buffer_names.h"
#include "common/plan/extents.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/storage.h"

namespace coxswain::plan {
namespace {

// Of the first operand of a linear.
int64_t PlaceOf(const Plan& plan, const LinearPlace& place) {
  int64_t operands = 0, found = -1;
  const auto visit = [&](const auto& linear, int64_t layer) {
    if (place == LinearPlace{layer, linear.id}) found = operands;
    operands += 2;
  };
  VisitFp8Linears(plan, visit);
  VisitFp8Experts(plan, visit);
  return found;
}

}  // namespace

int64_t Fp8Operands(const Plan& plan) {
  if (plan.fp8.recipe != Fp8Recipe::kDelayed || !plan.trains()) return 0;
  int64_t operands = 0;
  const auto count = [&operands](const auto&, int64_t) { operands += 2; };
  VisitFp8Linears(plan, count);
  VisitFp8Experts(plan, count);
  return operands;
}

int64_t Fp8GatheredOperands(const Plan& plan) { return CeilDiv(Fp8Operands(plan), 4) * 4; }

int64_t Fp8OperandOf(const Plan& plan, const model::LinearOp& linear, int64_t layer) {
  return PlaceOf(plan, {layer, linear.id});
}

int64_t Fp8OperandOf(const Plan& plan, const model::GroupedLinearOp& experts, int64_t layer) {
  return PlaceOf(plan, {layer, experts.id});
}

int64_t Fp8HistoryBytes(const Plan& plan) {
  return StorageBytes(Storage::kFloat32, Fp8Operands(plan) * kernels::kFp8History);
}

std::vector<Buffer> Fp8HistoryRows(const Plan& plan) {
  const int64_t operands = Fp8Operands(plan);
  if (operands == 0) return {};
  const int64_t gathered = plan.world_size() * Fp8GatheredOperands(plan);
  return {{buffers::kFp8History, MemoryClass::kOptimizer, Fp8HistoryBytes(plan), ""},
          {buffers::kFp8Expected, MemoryClass::kOptimizer,
           StorageBytes(Storage::kFloat32, operands), ""},
          {buffers::kFp8Observed, MemoryClass::kOptimizer,
           StorageBytes(Storage::kFloat32, gathered), ""}};
}

}  // namespace coxswain::plan
