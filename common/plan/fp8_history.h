// Delayed scaling of products in FP8 (Fp8Recipe::kDelayed, kernels/quantize/fp8_history.h): what
// the largest sizes of an operand were in the last updates. Each linear in FP8 has two such
// operands: its x has the number 2 i and the gradient of its output 2 i + 1, where i is the place
// of the linear in VisitFp8Linears. Those of experts follow, in the order of VisitFp8Experts.
#ifndef COXSWAIN_COMMON_PLAN_FP8_HISTORY_H_
#define COXSWAIN_COMMON_PLAN_FP8_HISTORY_H_

#include <cstdint>
#include <vector>

#include "common/model/block.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

// Of a checkpoint: float32 [operands, kernels::kFp8History].
inline constexpr char kFp8HistoryTensor[] = "fp8_history";

// 0: the plan has no history, as its scales are not delayed or it trains nothing.
int64_t Fp8Operands(const Plan& plan);
// The operands of a rank, as ranks gather them: a multiple of 4.
int64_t Fp8GatheredOperands(const Plan& plan);
// The number of x of a linear in FP8, after which that of the gradient of its output comes.
int64_t Fp8OperandOf(const Plan& plan, const model::LinearOp& linear, int64_t layer);
int64_t Fp8OperandOf(const Plan& plan, const model::GroupedLinearOp& experts, int64_t layer);

// "fp8.history", which a checkpoint holds.
int64_t Fp8HistoryBytes(const Plan& plan);
// That, "fp8.expected" and "fp8.observed", whole on every rank.
std::vector<Buffer> Fp8HistoryRows(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_FP8_HISTORY_H_
