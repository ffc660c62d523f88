// Ways to train whose ranks end with the tensors, the evaluation and the answers of one rank.
// Ranks are threads (sharded_tensors_test.cc) or processes with a GPU each (nccl_tensors_test.cc).
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_RANK_FEATURES_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_RANK_FEATURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "tests/worker/engine/support/test_plan.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {

struct RankFeature {
  const char* name;
  int32_t zero;
  void (*set)(PlanOptions& options);
  bool blocky = false;  // a model whose matrices have states in blocks
  // Of a tensor: the norm of the difference over the tensor's. Sums over ranks round otherwise than
  // sums over micro-steps, 1e-6 of a gradient; an update of Adam turns with the sign of a gradient
  // that is rounding alone (test_ranks.h).
  double tolerance = 1e-4;
};
std::vector<RankFeature> RankFeatures();

// Of `world` ranks that share weights or states.
plan::Plan FeaturePlan(const RankFeature& feature, int32_t world);

struct RankRun {
  double held_back_loss = 0;  // of this rank's bins
  std::vector<std::vector<int32_t>> answers;
};
// Trains four steps on the bins of `rank` among those of `ranks` (a plan of one rank has them all),
// evaluates, answers two prompts and writes the rank's tensors into `folder`. Fails the test where
// a call fails.
RankRun TrainFeature(const plan::Plan& plan, int rank, int32_t ranks, Engine& engine,
                     const std::string& folder);

// The tensors of two checkpoints. There is at least one.
void ExpectTensorsNear(const std::string& many, const std::string& one, double tolerance);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_RANK_FEATURES_H_
