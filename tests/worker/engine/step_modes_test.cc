// How a step is run does not change what it computes: recompute levels, captured graphs,
// repetition. Invariant engine-4.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace step_modes_test {
namespace {

struct Numbers {
  std::vector<double> losses, norms;
  bool operator==(const Numbers&) const = default;
};

// Three steps of packed and of one-document bins.
Numbers TrainThreeSteps(const PlanOptions& options, bool graphs = true,
                        model::ModelConfig config = SmallConfig()) {
  if (config.num_layers != 5) {
    config.num_layers = 5;
    config.layer_windows.assign(5, 0);
  }
  if (options.compute_dtype == "bfloat16") config.head_dim = 16;
  std::string doing;
  auto state = MakeState(MakePlan(config, options), 0, "", &doing);
  EXPECT_TRUE(state.ok()) << state.status();
  if (!state.ok()) return {};
  if (!graphs) (*state)->graphs.Disable();
  Numbers numbers;
  for (int64_t step = 0; step < 3; ++step) {
    const BinBatch bins = step == 1 ? RandomBins({{40}, {31}, {7}}, config.vocab_size, 5)
                                    : RandomBins({{17, 9, 1}, {31, 3}, {8}}, config.vocab_size, 5);
    const auto stats = RunTrainStep(**state, MakeStep(step, bins));
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (!stats.ok()) return numbers;
    numbers.losses.push_back(stats->loss_sum);
    numbers.norms.push_back(stats->grad_norm);
  }
  return numbers;
}

PlanOptions Options(const std::string& dtype, int64_t lora_rank) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.max_documents_per_bin = 3;
  options.head_chunk = 24;
  options.compute_dtype = dtype;
  options.lora_rank = lora_rank;
  return options;
}

std::vector<std::string> DTypes() {
  if (TestDevice() == "cpu") return {"float32"};
  return {"float32", "bfloat16"};
}

TEST(StepModesTest, RecomputeLevelsGiveTheSameBits) {
  for (const std::string& dtype : DTypes()) {
    for (const int64_t rank : {0, 4}) {
      PlanOptions options = Options(dtype, rank);
      const Numbers kept = TrainThreeSteps(options);
      for (const char* level : {"norm_swiglu", "ffn", "block"}) {
        for (const int64_t every : {1, 2, 5}) {
          if (every > 1 && std::string(level) != "block") continue;
          options.recompute = level;
          options.recompute_every = every;
          EXPECT_EQ(TrainThreeSteps(options), kept)
              << dtype << " rank " << rank << " " << level << " " << every;
        }
      }
    }
  }
}

TEST(StepModesTest, RecomputeLevelsGiveTheSameBitsInEveryKindOfBlock) {
  for (const BlockKind& kind : BlockKinds()) {
    for (const std::string& dtype : DTypes()) {
      PlanOptions options = Options(dtype, 0);
      const Numbers kept = TrainThreeSteps(options, true, kind.config);
      for (const char* level : {"norm_swiglu", "ffn", "block"}) {
        options.recompute = level;
        options.recompute_every = std::string(level) == "block" ? 2 : 1;
        EXPECT_EQ(TrainThreeSteps(options, true, kind.config), kept)
            << kind.name << " " << dtype << " " << level;
      }
    }
  }
}

TEST(StepModesTest, RecomputeLevelsGiveTheSameBitsWithDora) {
  for (const std::string& dtype : DTypes()) {
    PlanOptions options = Options(dtype, 4);
    options.dora = true;
    const Numbers kept = TrainThreeSteps(options);
    EXPECT_NE(kept, TrainThreeSteps(Options(dtype, 4))) << dtype;
    for (const char* level : {"norm_swiglu", "ffn", "block"}) {
      options.recompute = level;
      options.recompute_every = std::string(level) == "block" ? 2 : 1;
      EXPECT_EQ(TrainThreeSteps(options), kept) << dtype << " " << level;
      EXPECT_EQ(TrainThreeSteps(options, /*graphs=*/false), kept) << dtype << " " << level;
    }
  }
}

TEST(StepModesTest, RunsAndGraphsGiveTheSameBits) {
  for (const std::string& dtype : DTypes()) {
    const PlanOptions options = Options(dtype, 0);
    const Numbers first = TrainThreeSteps(options);
    EXPECT_EQ(TrainThreeSteps(options), first) << dtype;
    EXPECT_EQ(TrainThreeSteps(options, /*graphs=*/false), first) << dtype;
  }
}

TEST(StepModesTest, Bfloat16StaysNearFloat32) {
  if (TestDevice() == "cpu") GTEST_SKIP() << "the CPU computes in float32";
  PlanOptions options = Options("bfloat16", 0);
  const Numbers masters = TrainThreeSteps(options);
  options.master_dtype = options.gradient_dtype = "bfloat16";
  const Numbers rounded = TrainThreeSteps(options);
  ASSERT_EQ(masters.losses.size(), 3u);
  ASSERT_EQ(rounded.losses.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(rounded.losses[i] / masters.losses[i], 1.0, 0.01);
    EXPECT_NEAR(rounded.norms[i] / masters.norms[i], 1.0, 0.02);
  }
  EXPECT_LT(masters.losses[2], masters.losses[0]);
  EXPECT_LT(rounded.losses[2], rounded.losses[0]);
}

}  // namespace
}  // namespace step_modes_test
}  // namespace coxswain::engine
