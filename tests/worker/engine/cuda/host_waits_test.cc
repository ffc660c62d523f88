// A step launches and waits for nothing but its end, of which it polls an event: no call of the
// CUDA runtime makes the host wait, allocates or frees. bench/sync_counter.cc sees those calls.
#include "bench/host_waits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/device.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {
namespace gpu_step_waits_test {
namespace {

struct Case {
  std::string name;
  PlanOptions options;
};

PlanOptions Options(int64_t lora_rank) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.max_documents_per_bin = 3;
  options.head_chunk = 24;
  options.compute_dtype = "bfloat16";
  options.lora_rank = lora_rank;
  return options;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {{"full", Options(0)},    {"8 bits", Options(0)}, {"lora", Options(4)},
                             {"dropout", Options(4)}, {"dora", Options(4)},   {"qlora", Options(4)},
                             {"block", Options(4)}};
  cases[1].options.optimizer = "adamw_8bit";
  cases[3].options.dropout = 0.1;
  cases[4].options.dora = true;
  cases[5].options.quantization = "nf4";
  cases[6].options.recompute = "block";
  return cases;
}

// Micro-steps of packed documents, and of documents that fill their bins.
void TrainTwice(Engine& engine, int64_t vocab, int64_t* step) {
  for (const std::vector<std::vector<int32_t>>& lengths :
       {std::vector<std::vector<int32_t>>{{17, 9, 1}, {31, 3}, {8}},
        std::vector<std::vector<int32_t>>{{40}, {31}, {7}}}) {
    const auto stats = engine.Train(MakeStep((*step)++, RandomBins(lengths, vocab, 5)));
    ASSERT_TRUE(stats.ok()) << stats.status();
    ASSERT_TRUE(stats->applied);
  }
}

void ExpectNoWaits(const Case& one) {
  model::ModelConfig config = SmallConfig();
  config.head_dim = 16;
  auto engine = Engine::Prepare(MakePlan(config, one.options), 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  int64_t step = 0;
  // Graphs are captured, and the looks of the self-verification are done.
  for (int i = 0; i < 5; ++i) TrainTwice(**engine, config.vocab_size, &step);
  bench::CountHostWaits();
  for (int i = 0; i < 5; ++i) TrainTwice(**engine, config.vocab_size, &step);
  const bench::HostWaits waits = bench::CountedHostWaits().value();
  EXPECT_EQ(waits.count, 0) << waits.calls;
}

TEST(StepWaitsTest, AStepMakesTheHostWaitForNothing) {
  if (!bench::CountedHostWaits().has_value()) {
    GTEST_SKIP() << "needs LD_PRELOAD=.../libsync_counter.so, as ctest and bench/device.sh run it";
  }
  bench::CountHostWaits();
  kernels::FreeMemory(kernels::AllocateMemory(256));
  EXPECT_EQ(bench::CountedHostWaits()->count, 2) << "calls are counted";
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.name);
    ExpectNoWaits(one);
  }
}

}  // namespace
}  // namespace gpu_step_waits_test
}  // namespace coxswain::engine
