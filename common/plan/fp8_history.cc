#include "common/plan/fp8_history.h"

#include "common/plan/buffer_names.h"
#include "common/plan/extents.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/storage.h"

namespace coxswain::plan {

int64_t Fp8Operands(const Plan& plan) {
  if (plan.fp8.recipe != Fp8Recipe::kDelayed || !plan.trains()) return 0;
  int64_t operands = 0;
  VisitFp8Linears(plan, [&operands](const auto&, int64_t) { operands += 2; });
  return operands;
}

int64_t Fp8GatheredOperands(const Plan& plan) { return CeilDiv(Fp8Operands(plan), 4) * 4; }

int64_t Fp8OperandOf(const Plan& plan, const model::LinearOp& linear, int64_t layer) {
  int64_t operands = 0, found = -1;
  VisitFp8Linears(plan, [&](const model::LinearOp& other, int64_t of_layer) {
    if (of_layer == layer && other.id == linear.id) found = operands;
    operands += 2;
  });
  return found;
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
