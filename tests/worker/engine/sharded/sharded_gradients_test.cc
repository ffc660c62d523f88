// Between ranks too no gradient of the step before is left: whole ones that are reduced in the last
// micro-step, slots that are reduced in each and their sums, on ranks with and without bins.
#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace sharded_gradients_test {
namespace {

struct Mesh {
  int32_t replicate = 1, shard = 1, zero = 0;
};

plan::Plan MakeCase(const Mesh& mesh, bool tied, int64_t vocab) {
  model::ModelConfig config = SmallConfig();
  config.tie_embeddings = tied;
  config.vocab_size = vocab;
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.replicate = mesh.replicate;
  options.shard = mesh.shard;
  options.zero = mesh.zero;
  return MakePlan(config, options);
}

void FillGradients(const State& state, int byte) {
  const plan::ShardMap& map = state.layout.map;
  kernels::SetMemory(state.buffers.gradients, byte, map.gradients, state.stream);
  if (map.gradient_slot == 0) return;
  kernels::SetMemory(state.buffers.gradient_slots, byte, plan::kGradientSlots * map.gradient_slot,
                     state.stream);
}

// `parts`: the bins of each rank.
void ExpectNothingIsLeft(const plan::Plan& plan, const std::vector<BinBatch>& parts) {
  WithStates(plan, [&](State& state) {
    const TrainStep step = MakeStep(0, parts[static_cast<size_t>(state.rank)]);
    std::vector<float> gradients[2];
    for (const int byte : {0, 0xFF}) {
      FillGradients(state, byte);
      GradientStep(state, step);
      gradients[byte != 0] = AllGradients(state);
    }
    EXPECT_EQ(gradients[1], gradients[0]) << "rank " << state.rank;
  });
}

constexpr Mesh kMeshes[] = {{2, 1, 0}, {1, 2, 1}, {1, 2, 2}, {1, 3, 3}, {2, 2, 2}};

TEST(ShardedGradientsTest, NothingOfTheStepBeforeIsLeft) {
  for (const Mesh& mesh : kMeshes) {
    for (const bool tied : {true, false}) {
      for (const int64_t vocab : {131, 1031}) {  // at 1031 ranks exchange rows of the embedding
        const plan::Plan plan = MakeCase(mesh, tied, vocab);
        const BinBatch bins = RandomBins({{5, 1, 17}, {31, 3}, {40}, {20}, {13, 13}}, 131, 7);
        std::vector<BinBatch> parts;
        for (int rank = 0; rank < plan.world_size(); ++rank) {
          parts.push_back(PartOf(plan, bins, rank));
        }
        SCOPED_TRACE(testing::Message() << mesh.replicate << "x" << mesh.shard << " ZeRO "
                                        << mesh.zero << (tied ? " tied " : " ") << vocab);
        ExpectNothingIsLeft(plan, parts);
      }
    }
  }
}

TEST(ShardedGradientsTest, NothingIsLeftOnARankWithoutBins) {
  for (const Mesh& mesh : kMeshes) {
    const plan::Plan plan = MakeCase(mesh, true, 131);
    std::vector<BinBatch> parts(static_cast<size_t>(plan.world_size()));
    parts[0] = RandomBins({{31, 3}, {40}}, 131, 7);
    for (BinBatch& part : parts) part.micro_steps = 2;
    SCOPED_TRACE(testing::Message()
                 << mesh.replicate << "x" << mesh.shard << " ZeRO " << mesh.zero);
    ExpectNothingIsLeft(plan, parts);
  }
}

}  // namespace
}  // namespace sharded_gradients_test
}  // namespace coxswain::engine
