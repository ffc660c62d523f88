// A checkpoint of any mesh and ZeRO stage starts any other. Invariant engine-6.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/files/hash.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_checkpoint_test {
namespace {

struct Mesh {
  int32_t replicate = 1, shard = 1, zero = 0;
};

plan::Plan MakeCase(int64_t lora_rank, const Mesh& mesh, const std::string& optimizer = "adamw",
                    bool dora = false) {
  PlanOptions options;
  options.init = "random";
  options.optimizer = optimizer;
  options.lora_rank = lora_rank;
  options.dora = dora;
  options.sequence_len = 40;
  options.replicate = mesh.replicate;
  options.shard = mesh.shard;
  options.zero = mesh.zero;
  return MakePlan(optimizer == "adamw" ? SmallConfig() : BlockyConfig(), options);
}

// Trains steps [first, end) from `checkpoint` and saves into `directory` where it is not empty.
Ranks Train(const plan::Plan& plan, const std::string& checkpoint, int64_t first, int64_t end,
            const std::string& directory) {
  Ranks stats(static_cast<size_t>(plan.world_size()));
  WithEngines(plan, checkpoint, [&](int rank, Engine& engine) {
    EXPECT_EQ(engine.start_step(), first);
    for (int64_t step = first; step < end; ++step) {
      TrainStep train =
          MakeStep(step, RandomBins({{17, 9}, {31, 3}, {40}}, 131, static_cast<uint64_t>(step)));
      train.bins = PartOf(plan, train.bins, rank);
      const auto result = engine.Train(train);
      ASSERT_TRUE(result.ok()) << result.status();
      stats[static_cast<size_t>(rank)].push_back(*result);
    }
    if (directory.empty()) return;
    ASSERT_TRUE(engine.Snapshot(end).ok());
    const auto files = engine.SaveShard(directory, end);
    ASSERT_TRUE(files.ok()) << files.status();
  });
  if (!directory.empty()) SealCheckpoint(directory);
  return stats;
}

// The bytes of every tensor, behind the name of its type.
std::map<std::string, std::string> ReadAll(const std::string& directory) {
  std::map<std::string, std::string> values;
  const auto tensors = CheckpointTensors::Open(directory);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  if (!tensors.ok()) return values;
  for (const auto& [name, tensor] : tensors->tensors()) {
    std::string bytes(static_cast<size_t>(tensor.elements() * ElementBits(tensor.dtype) / 8), ' ');
    CopyBytes(tensor, reinterpret_cast<uint8_t*>(bytes.data()));
    values[name] = std::string(ElementName(tensor.dtype)) + " " + bytes;
  }
  return values;
}

class ShardedCheckpointTest : public testing::Test {
 protected:
  std::string Folder(const std::string& name) const {
    const std::string path = folder_.path() + "/" + name;
    std::filesystem::create_directories(path);
    return path;
  }
  const support::ScratchFolder folder_;
};

TEST_F(ShardedCheckpointTest, AnyMeshAndStageReadsAnyOther) {
  const std::vector<Mesh> chain = {{1, 3, 3}, {1, 2, 1}, {2, 2, 2}, {1, 1, 0},
                                   {3, 1, 0}, {1, 4, 2}, {1, 3, 3}};
  // Adapters of rank 64 are in blocks where the optimizer has them.
  for (const auto& [lora_rank, optimizer] : {std::pair{0, "adamw"},
                                             {3, "adamw"},
                                             {0, "adamw_bf16"},
                                             {64, "adamw_bf16"},
                                             {0, "adamw_8bit"},
                                             {64, "adamw_8bit"}}) {
    const std::string prefix = std::string(optimizer) + std::to_string(lora_rank) + "-";
    const std::string origin = Folder(prefix + "origin");
    Train(MakeCase(lora_rank, chain[0], optimizer), "", 0, 2, origin);
    std::string last = origin;
    for (size_t i = 1; i < chain.size(); ++i) {
      const std::string next = Folder(prefix + std::to_string(i));
      Train(MakeCase(lora_rank, chain[i], optimizer), last, 2, 2, next);
      last = next;
    }
    EXPECT_EQ(ReadAll(last), ReadAll(origin));
    EXPECT_FALSE(ReadAll(last).empty());
    // The last mesh of the chain is the first: its files are the same bytes.
    for (const auto& entry : std::filesystem::directory_iterator(origin)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".safetensors")) continue;
      EXPECT_EQ(Sha256HexOfFile(absl::StrCat(origin, "/", name)).value(),
                Sha256HexOfFile(absl::StrCat(last, "/", name)).value())
          << name;
    }
  }
}

TEST_F(ShardedCheckpointTest, TrainingGoesOnAsWithoutInterruption) {
  const std::vector<StepStats> whole = Train(MakeCase(0, {}), "", 0, 6, "")[0];
  const std::string first = Folder("first"), second = Folder("second");
  ExpectEqualRuns(Train(MakeCase(0, {1, 3, 2}), "", 0, 2, first), {whole[0], whole[1]});
  ExpectEqualRuns(Train(MakeCase(0, {1, 2, 3}), first, 2, 4, second), {whole[2], whole[3]});
  ExpectEqualRuns(Train(MakeCase(0, {2, 2, 1}), second, 4, 6, ""), {whole[4], whole[5]});
}

TEST_F(ShardedCheckpointTest, TheSameMeshRepeatsTheRunBitForBit) {
  for (const auto& [zero, optimizer] : {std::pair{1, "adamw"},
                                        {2, "adamw"},
                                        {3, "adamw"},
                                        {1, "adamw_8bit"},
                                        {3, "adamw_8bit"},
                                        {2, "adamw_bf16"}}) {
    const plan::Plan plan = MakeCase(0, {1, 3, zero}, optimizer);
    const std::string saved = Folder(optimizer + std::to_string(zero));
    const Ranks whole = Train(plan, "", 0, 5, "");
    Train(plan, "", 0, 3, saved);
    const Ranks resumed = Train(plan, saved, 3, 5, "");
    for (size_t step = 0; step < 2; ++step) {
      EXPECT_EQ(resumed[0][step].global_loss_sum, whole[0][3 + step].global_loss_sum);
      EXPECT_EQ(resumed[0][step].grad_norm, whole[0][3 + step].grad_norm);
    }
  }
}

// Pairs, blocks of 8 bits and magnitudes in float32, in one shard.
TEST_F(ShardedCheckpointTest, DoraWithEightBitStatesGoesOnBitForBitAndFromOneRankToTwo) {
  const Mesh two = {1, 2, 2};
  const plan::Plan alone = MakeCase(64, {}, "adamw_8bit", /*dora=*/true),
                   shared = MakeCase(64, two, "adamw_8bit", /*dora=*/true);
  for (const plan::Plan* plan : {&alone, &shared}) {
    const std::string world = std::to_string(plan->world_size());
    const Ranks whole = Train(*plan, "", 0, 5, Folder("whole" + world));
    Train(*plan, "", 0, 3, Folder("three" + world));
    const Ranks resumed = Train(*plan, Folder("three" + world), 3, 5, Folder("resumed" + world));
    for (size_t step = 0; step < 2; ++step) {
      EXPECT_EQ(resumed[0][step].global_loss_sum, whole[0][3 + step].global_loss_sum);
      EXPECT_EQ(resumed[0][step].grad_norm, whole[0][3 + step].grad_norm);
    }
    EXPECT_EQ(ReadAll(Folder("resumed" + world)), ReadAll(Folder("whole" + world)));
  }
  const auto saved = ReadAll(Folder("three1"));
  const std::string gate = "base_model.model.model.layers.0.mlp.gate_proj.lora_";
  EXPECT_TRUE(saved.at(gate + "A.weight.m").starts_with("U8 "));
  EXPECT_TRUE(saved.at(gate + "magnitude_vector.m").starts_with("F32 "));
  const Ranks one = Train(alone, Folder("three1"), 3, 5, "");
  ExpectEqualRuns(Train(shared, Folder("three1"), 3, 5, ""), one[0]);
  Train(shared, Folder("three1"), 3, 3, Folder("cut"));
  EXPECT_EQ(ReadAll(Folder("cut")), ReadAll(Folder("three1")));
}

TEST_F(ShardedCheckpointTest, EachRankWritesAboutEqualBytes) {
  const std::string directory = Folder("saved");
  Train(MakeCase(0, {2, 2, 1}), "", 0, 1, directory);
  std::vector<double> bytes;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    bytes.push_back(static_cast<double>(entry.file_size()));
  }
  ASSERT_EQ(bytes.size(), 4u);
  for (const double size : bytes) EXPECT_NEAR(size / bytes[0], 1.0, 0.1);
}

TEST_F(ShardedCheckpointTest, AMissingShardIsNamed) {
  const std::string directory = Folder("saved");
  Train(MakeCase(0, {1, 3, 1}), "", 0, 1, directory);
  std::filesystem::remove(directory + "/rank-1.safetensors");
  SealCheckpoint(directory);
  const absl::Status status = Engine::Prepare(MakeCase(0, {}), 0, directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find(directory), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace sharded_checkpoint_test
}  // namespace coxswain::engine
