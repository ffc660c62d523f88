// Snapshots and shards. Invariant engine-6.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "common/files/hash.h"
#include "common/files/read_file.h"
#include "common/files/safetensors/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"

namespace coxswain::engine {
namespace checkpoint_test {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  static plan::Plan Plan(int64_t lora_rank, int32_t replicate = 1, bool dora = false,
                         const std::string& optimizer = "adamw") {
    PlanOptions options;
    options.optimizer = optimizer;
    options.init = "random";
    options.sequence_len = 40;
    options.lora_rank = lora_rank;
    options.dropout = lora_rank > 0 && !dora ? 0.1 : 0.0;
    options.dora = dora;
    options.replicate = replicate;
    return MakePlan(optimizer == "adamw" ? SmallConfig() : BlockyConfig(), options);
  }

  static TrainStep Step(int64_t step) {
    return MakeStep(step, RandomBins({{17, 9}, {31, 3}}, SmallConfig().vocab_size,
                                     static_cast<uint64_t>(step)));
  }

  static std::unique_ptr<Engine> Prepare(const plan::Plan& plan, const std::string& checkpoint) {
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(plan, 0, checkpoint);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? std::move(*engine) : nullptr;
  }

  static void Train(Engine& engine, int64_t first, int64_t end, std::vector<StepStats>* stats) {
    for (int64_t step = first; step < end; ++step) {
      const absl::StatusOr<StepStats> result = engine.Train(Step(step));
      ASSERT_TRUE(result.ok()) << result.status();
      stats->push_back(*result);
    }
  }

  // Trains `steps` steps of `plan` and saves a checkpoint.
  void Save(const plan::Plan& plan, int64_t steps) {
    std::unique_ptr<Engine> engine = Prepare(plan, "");
    std::vector<StepStats> stats;
    Train(*engine, 0, steps, &stats);
    ASSERT_TRUE(engine->Snapshot(steps).ok());
    const auto files = engine->SaveShard(directory_, steps);
    ASSERT_TRUE(files.ok()) << files.status();
    SealCheckpoint(directory_);
  }

  // The root of the digests of what `engine` holds now.
  static std::string DigestOf(Engine& engine, int64_t step) {
    const support::ScratchFolder folder;
    EXPECT_TRUE(engine.Snapshot(step).ok());
    const auto files = engine.SaveShard(folder.path(), step);
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? files->front().blocks.Root() : "";
  }

  const support::ScratchFolder folder_;
  const std::string directory_ = folder_.path();
};

TEST_F(CheckpointTest, ResumeReproducesTheUninterruptedRunBitForBit) {
  plan::Plan in_slices = Plan(0);
  in_slices.snapshot_in_slices = TestDevice() == "cuda";
  for (const plan::Plan& plan :
       {Plan(0), in_slices, Plan(3), Plan(3, 1, /*dora=*/true), Plan(0, 1, false, "adamw_bf16"),
        Plan(64, 1, false, "adamw_bf16"), Plan(0, 1, false, "adamw_8bit"),
        Plan(64, 1, false, "adamw_8bit"), Plan(64, 1, /*dora=*/true, "adamw_8bit")}) {
    std::vector<StepStats> whole, resumed;
    std::unique_ptr<Engine> engine = Prepare(plan, "");
    Train(*engine, 0, 4, &whole);
    ASSERT_TRUE(engine->Snapshot(4).ok());
    Train(*engine, 4, 9, &whole);  // the snapshot stays what it was
    const auto saved = engine->SaveShard(directory_, 4);
    ASSERT_TRUE(saved.ok()) << saved.status();
    SealCheckpoint(directory_);

    std::unique_ptr<Engine> second = Prepare(plan, directory_);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(second->start_step(), 4);
    EXPECT_EQ(second->applied_updates(), 4);
    EXPECT_EQ(DigestOf(*second, 4), saved->front().blocks.Root());
    Train(*second, 4, 9, &resumed);
    for (size_t i = 0; i < resumed.size(); ++i) {
      EXPECT_EQ(resumed[i].global_loss_sum, whole[i + 4].global_loss_sum) << "step " << i + 4;
      EXPECT_EQ(resumed[i].grad_norm, whole[i + 4].grad_norm) << "step " << i + 4;
    }
    EXPECT_EQ(DigestOf(*second, 9), DigestOf(*engine, 9));
  }
}

TEST_F(CheckpointTest, ShardHoldsMastersMomentsAndCounters) {
  const plan::Plan plan = Plan(3);
  std::unique_ptr<Engine> engine = Prepare(plan, "");
  std::vector<StepStats> stats;
  Train(*engine, 0, 2, &stats);
  ASSERT_TRUE(engine->Snapshot(2).ok());
  const auto files = engine->SaveShard(directory_, 2);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 1u);
  const std::string path = directory_ + "/" + files->front().name;
  EXPECT_EQ(files->front().name, "rank-0.safetensors");
  EXPECT_EQ(files->front().blocks, DigestsOf(ReadFile(path).value()));
  const auto file = std::move(SafetensorsFile::Open(path)).value();
  EXPECT_EQ(file->tensors().size(), 3u * 2 * 7 * 3);
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const nlohmann::json header = nlohmann::json::parse(file->metadata().at("coxswain"));
  EXPECT_EQ(header, (nlohmann::json{{"recipe_hash", ToHex(plan.recipe_hash)},
                                    {"finished_steps", 2},
                                    {"applied_updates", 2},
                                    {"rank", 0},
                                    {"world_size", 1}}));
}

// Codes beside their scales where a tensor has blocks, float32 where it has none.
TEST_F(CheckpointTest, StatesAreSavedAsTheyAreStored) {
  Save(Plan(0, 1, false, "adamw_8bit"), 1);
  const auto file = std::move(SafetensorsFile::Open(directory_ + "/rank-0.safetensors")).value();
  const std::string layer = "model.layers.1.";
  const auto expect = [&](const std::string& name, ElementType dtype,
                          const std::vector<int64_t>& shape) {
    const TensorInfo* tensor = file->Find(layer + name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->dtype, dtype) << name;
    EXPECT_EQ(tensor->shape, shape) << name;
  };
  for (const char* state : {".m", ".v"}) {
    const auto of = [&](const std::string& name) { return name + ".weight" + state; };
    expect(of("mlp.gate_proj"), ElementType::kU8, {90, 72});
    expect(of("mlp.gate_proj") + "_absmax", ElementType::kF32, {26});  // 6,480 / 256
    expect(of("mlp.up_proj"), ElementType::kF32, {90, 72});
    expect(of("self_attn.k_proj"), ElementType::kF32, {24, 72});
    EXPECT_EQ(file->Find(layer + of("mlp.up_proj") + "_absmax"), nullptr);
  }
}

TEST_F(CheckpointTest, StatesOfAnotherStorageAreRefused) {
  Save(Plan(0, 1, false, "adamw_bf16"), 1);
  // Of the same recipe, as no planner makes it.
  const absl::Status status =
      Engine::Prepare(Plan(0, 1, false, "adamw_8bit"), 0, directory_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find(".m\" is BF16 [131, 72], wanted U8 [131, 72]"),
            absl::string_view::npos)
      << status;
}

TEST_F(CheckpointTest, SaveShardWantsTheNewestSnapshot) {
  std::unique_ptr<Engine> engine = Prepare(Plan(0), "");
  EXPECT_EQ(engine->SaveShard(directory_, 0).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(engine->Snapshot(3).ok());
  EXPECT_EQ(engine->SaveShard(directory_, 2).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(engine->SaveShard(directory_, 3).ok());
}

TEST_F(CheckpointTest, AnotherRecipeIsRefused) {
  Save(Plan(0), 1);
  plan::Plan other = Plan(0);
  other.recipe_hash = std::string(32, 's');
  const absl::Status status = Engine::Prepare(other, 0, directory_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find(ToHex(other.recipe_hash)), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find(ToHex(std::string(32, 'r'))), absl::string_view::npos) << status;
}

// checkpoint.extend: steps beyond those of the recipe that wrote it, with its moments.
TEST_F(CheckpointTest, AnotherRecipeThatIsNamedGoesOnBitForBit) {
  const plan::Plan plan = Plan(0);
  std::vector<StepStats> whole, extended;
  std::unique_ptr<Engine> engine = Prepare(plan, "");
  Train(*engine, 0, 4, &whole);
  Save(plan, 2);
  plan::Plan longer = plan;
  longer.recipe_hash = std::string(32, 's');
  auto second = Engine::Prepare(longer, 0, directory_, ToHex(plan.recipe_hash));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->start_step(), 2);
  Train(**second, 2, 4, &extended);
  for (size_t i = 0; i < extended.size(); ++i) {
    EXPECT_EQ(extended[i].global_loss_sum, whole[i + 2].global_loss_sum);
    EXPECT_EQ(extended[i].grad_norm, whole[i + 2].grad_norm);
  }
  EXPECT_EQ(Engine::Prepare(longer, 0, directory_, ToHex(longer.recipe_hash)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointTest, MissingShardAndOtherTensorsAreRefused) {
  EXPECT_EQ(Engine::Prepare(Plan(0), 0, directory_ + "/nowhere").status().code(),
            absl::StatusCode::kNotFound);
  Save(Plan(0), 1);
  const absl::Status other_method = Engine::Prepare(Plan(3), 0, directory_).status();
  EXPECT_EQ(other_method.code(), absl::StatusCode::kInvalidArgument) << other_method;
  Save(Plan(0, 1), 1);
  std::filesystem::copy_file(directory_ + "/rank-0.safetensors",
                             directory_ + "/rank-1.safetensors");
  SealCheckpoint(directory_);
  const absl::Status doubled = Engine::Prepare(Plan(0), 0, directory_).status();
  EXPECT_EQ(doubled.code(), absl::StatusCode::kInvalidArgument) << doubled;
}

TEST_F(CheckpointTest, UnwritableDirectoryIsAnErrorThatNamesIt) {
  std::unique_ptr<Engine> engine = Prepare(Plan(0), "");
  ASSERT_TRUE(engine->Snapshot(0).ok());
  const absl::Status status = engine->SaveShard(directory_ + "/absent", 0).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(directory_), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace checkpoint_test
}  // namespace coxswain::engine
