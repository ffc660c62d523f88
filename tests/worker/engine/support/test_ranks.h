// The ranks of a plan as threads over loopback.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_RANKS_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_RANKS_H_

#include <functional>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "worker/engine/engine.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// Prepares an engine per rank, connects them when there are several and calls `body` in each
// thread. Engines live until every body has returned.
void WithEngines(const plan::Plan& plan, const std::string& checkpoint,
                 const std::function<void(int rank, Engine& engine)>& body);

// The same of prepared states, for tests that look into them.
void WithStates(const plan::Plan& plan, const std::function<void(State& state)>& body);

// Rank `rank`'s part of the bins: contiguous, as equal as possible, and the micro-steps that the
// rank with the most takes.
BinBatch PartOf(const plan::Plan& plan, const BinBatch& bins, int rank);

using Ranks = std::vector<std::vector<StepStats>>;  // [rank][step]

// W ranks have computed what one has: loss and norm within 1e-6 at the first step, then 2e-6 and
// 5e-5 relative, as a float32 run against float64 (golden_test): an update of Adam turns with the
// sign of a gradient that is rounding alone; all ranks have the same bits.
void ExpectEqualRuns(const Ranks& many, const std::vector<StepStats>& one);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_RANKS_H_
