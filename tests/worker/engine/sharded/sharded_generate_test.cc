// Ranks that share weights answer as one rank does. Invariants engine-5 and engine-10.
#include <gtest/gtest.h>

#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_generate_test {
namespace {

struct Mesh {
  int32_t replicate = 1, shard = 1, zero = 0;
};

using Texts = std::vector<std::vector<int32_t>>;

// Rank 0's answers before and after a step of training; those of the others are held against them.
std::vector<Texts> Answers(const Mesh& mesh) {
  PlanOptions options;
  options.init = "random";
  options.lora_rank = 3;
  options.sequence_len = 40;
  options.replicate = mesh.replicate;
  options.shard = mesh.shard;
  options.zero = mesh.zero;
  const plan::Plan plan = WithGeneration(MakePlan(SmallConfig(), options), 2, 30);
  std::vector<std::vector<Texts>> ranks(static_cast<size_t>(plan.world_size()));
  WithEngines(plan, "", [&](int rank, Engine& engine) {
    const BinBatch bins = RandomBins({{17}, {31, 3}}, SmallConfig().vocab_size, 3);
    for (int64_t step = 0; step < 2; ++step) {
      Texts& texts = ranks[static_cast<size_t>(rank)].emplace_back();
      const auto stats = engine.Generate(
          {.prompts = {{5, 6, 7}, {9}}, .tokens = 12, .sampling = {.temperature = 0.7}});
      ASSERT_TRUE(stats.ok()) << stats.status();
      for (const GeneratedText& text : stats->texts) texts.push_back(text.ids);
      TrainStep train = MakeStep(step, PartOf(plan, bins, rank), 1e-2);
      train.loss_denominator = 48;
      ASSERT_TRUE(engine.Train(train).ok());
    }
  });
  for (const std::vector<Texts>& rank : ranks) EXPECT_EQ(rank, ranks.front());
  return ranks.front();
}

TEST(ShardedGenerateTest, EveryMeshAnswersAsOneRank) {
  const std::vector<Texts> one = Answers({});
  ASSERT_EQ(one.size(), 2u);
  EXPECT_NE(one[0], one[1]);
  for (const Mesh& mesh :
       {Mesh{2, 1, 0}, Mesh{1, 2, 1}, Mesh{1, 2, 2}, Mesh{1, 2, 3}, Mesh{2, 2, 3}}) {
    EXPECT_EQ(Answers(mesh), one) << mesh.replicate << " x " << mesh.shard << ", ZeRO "
                                  << mesh.zero;
  }
}

}  // namespace
}  // namespace sharded_generate_test
}  // namespace coxswain::engine
