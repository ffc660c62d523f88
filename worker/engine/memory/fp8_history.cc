#include "worker/engine/memory/fp8_history.h"

#include "common/plan/fp8_history.h"
#include "kernels/quantize/fp8_history.h"

namespace coxswain::engine {

void JudgeObserved(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream) {
  if (buffers.fp8_history == nullptr) return;
  kernels::Fp8JudgeObserved({.ranks = plan.world_size(),
                             .operands = plan::Fp8Operands(plan),
                             .stride = plan::Fp8GatheredOperands(plan),
                             .observed = buffers.fp8_gathered,
                             .sums = &buffers.scalars->norm_sums},
                            stream);
}

void MoveFp8History(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream) {
  if (buffers.fp8_history == nullptr) return;
  kernels::Fp8MoveHistory({.ranks = plan.world_size(),
                           .operands = plan::Fp8Operands(plan),
                           .stride = plan::Fp8GatheredOperands(plan),
                           .observed = buffers.fp8_gathered,
                           .updates = &buffers.scalars->optimizer.applied_updates,
                           .skip = &buffers.scalars->optimizer.skip,
                           .history = buffers.fp8_history,
                           .expected = buffers.fp8_expected},
                          stream);
}

void ReadFp8History(const plan::Plan& plan, const Buffers& buffers) {
  if (buffers.fp8_history == nullptr) return;
  kernels::Fp8MoveHistory({.operands = plan::Fp8Operands(plan),
                           .history = buffers.fp8_history,
                           .expected = buffers.fp8_expected},
                          nullptr);
  kernels::Synchronize(nullptr);
}

void ClearFp8History(const plan::Plan& plan, const Buffers& buffers) {
  for (const plan::Buffer& row : plan::Fp8HistoryRows(plan)) {
    kernels::SetMemory(buffers.At(row.name), 0, row.bytes, nullptr);
  }
}

}  // namespace coxswain::engine
