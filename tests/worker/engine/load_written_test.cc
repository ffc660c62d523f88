// What was written of a job, read back into the engine that trained it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"

namespace coxswain::engine {
namespace load_written_test {
namespace {

class LoadWrittenTest : public testing::Test {
 protected:
  void Train(int64_t lora_rank) {
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    options.lora_rank = lora_rank;
    plan_ = MakePlan(SmallConfig(), options);
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(plan_, 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    for (int64_t step = 0; step < 2; ++step) ASSERT_TRUE(engine_->Train(Step(step)).ok());
    ASSERT_TRUE(engine_->Snapshot(2).ok());
    ASSERT_TRUE(engine_->SaveShard(checkpoint_.path(), 2).ok());
    SealCheckpoint(checkpoint_.path());
    trained_ = Loss();
  }
  static TrainStep Step(int64_t step) {
    return MakeStep(step, RandomBins({{17, 9}, {31, 3}}, SmallConfig().vocab_size,
                                     static_cast<uint64_t>(step)));
  }
  double Loss() {
    const auto stats = engine_->Evaluate(RandomBins({{23}}, SmallConfig().vocab_size, 9));
    EXPECT_TRUE(stats.ok()) << stats.status();
    return stats.ok() ? stats->loss_sum : NAN;
  }
  // The trained tensors of the checkpoint as a file of their own, `change` of each first value.
  void WriteTrained(const std::string& path, float change, ElementType dtype = ElementType::kF32) {
    auto shard = SafetensorsFile::Open(checkpoint_.path() + "/rank-0.safetensors");
    ASSERT_TRUE(shard.ok()) << shard.status();
    std::vector<TensorSource> sources;
    for (const model::Parameter& parameter : plan_.parameters) {
      if (!parameter.trainable()) continue;
      const TensorInfo* tensor = (*shard)->Find(parameter.name);
      ASSERT_NE(tensor, nullptr) << parameter.name;
      sources.push_back({parameter.name, dtype, tensor->shape, [=](uint8_t* out) {
                           std::vector<float> values(static_cast<size_t>(tensor->elements()));
                           const absl::Status copied = CopyAsFloat(*tensor, values.data());
                           values[0] += change;
                           Store(values, dtype, out);
                           return copied;
                         }});
    }
    ASSERT_TRUE(WriteSafetensors(path, sources).status().ok());
  }

  static void Store(const std::vector<float>& values, ElementType dtype, uint8_t* out) {
    if (dtype == ElementType::kF32) {
      std::memcpy(out, values.data(), values.size() * sizeof(float));
      return;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = FloatToBf16(values[i]);
      std::memcpy(out + 2 * i, &bits, sizeof(bits));
    }
  }

  plan::Plan plan_;
  std::unique_ptr<Engine> engine_;
  double trained_ = 0;
  const support::ScratchFolder checkpoint_, written_;
};

TEST_F(LoadWrittenTest, AnAdapterReadBackComputesTheTrainedBits) {
  Train(/*lora_rank=*/4);
  WriteTrained(written_.path() + "/adapter_model.safetensors", 0);
  ASSERT_TRUE(engine_->Load({.adapter_dir = written_.path()}).ok());
  EXPECT_EQ(Loss(), trained_);
  WriteTrained(written_.path() + "/adapter_model.safetensors", 0.25f);
  ASSERT_TRUE(engine_->Load({.adapter_dir = written_.path()}).ok());
  EXPECT_NE(Loss(), trained_);
}

TEST_F(LoadWrittenTest, AModelReadBackComputesTheTrainedBits) {
  Train(/*lora_rank=*/0);
  WriteTrained(written_.path() + "/model.safetensors", 0);
  ASSERT_TRUE(engine_->Load({.model_dir = written_.path()}).ok());
  EXPECT_EQ(Loss(), trained_);
  WriteTrained(written_.path() + "/model.safetensors", 0.25f);
  ASSERT_TRUE(engine_->Load({.model_dir = written_.path()}).ok());
  EXPECT_NE(Loss(), trained_);
}

// Whatever was read in between.
TEST_F(LoadWrittenTest, TheCheckpointBringsTheTrainedStateBack) {
  Train(/*lora_rank=*/4);
  WriteTrained(written_.path() + "/adapter_model.safetensors", 0.25f);
  ASSERT_TRUE(engine_->Load({.adapter_dir = written_.path()}).ok());
  ASSERT_TRUE(engine_->Load({.checkpoint_dir = checkpoint_.path()}).ok());
  EXPECT_EQ(Loss(), trained_);
}

// As the exporter rounds: to nearest, each tensor to its type in the files.
TEST_F(LoadWrittenTest, ACheckpointRoundedAsAModelHasTheBitsOfTheModel) {
  Train(/*lora_rank=*/0);
  WriteTrained(written_.path() + "/model.safetensors", 0, ElementType::kBF16);
  ASSERT_TRUE(engine_->Load({.model_dir = written_.path()}).ok());
  const double read = Loss();
  EXPECT_NE(read, trained_);
  ASSERT_TRUE(
      engine_->Load({.model_dir = written_.path(), .checkpoint_dir = checkpoint_.path()}).ok());
  EXPECT_EQ(Loss(), read);
}

// By the gradient: ten times the change does about ten times as much.
TEST_F(LoadWrittenTest, AShakeMovesTheLossInProportion) {
  Train(/*lora_rank=*/0);
  ASSERT_TRUE(engine_->Load({.checkpoint_dir = checkpoint_.path(), .shake = 1e-4}).ok());
  const double little = Loss() - trained_;
  ASSERT_TRUE(engine_->Load({.checkpoint_dir = checkpoint_.path(), .shake = 1e-3}).ok());
  const double more = Loss() - trained_;
  EXPECT_NE(little, 0);
  EXPECT_NEAR(more / little, 10, 2);
}

TEST_F(LoadWrittenTest, NothingIsTrainedOrSavedBehindIt) {
  Train(/*lora_rank=*/4);
  ASSERT_TRUE(engine_->Load({.checkpoint_dir = checkpoint_.path()}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Train(Step(2)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Snapshot(2)));
}

TEST_F(LoadWrittenTest, NamesTheTensorThatIsNotThere) {
  Train(/*lora_rank=*/4);
  ASSERT_TRUE(WriteSafetensors(written_.path() + "/adapter_model.safetensors", {}).status().ok());
  const absl::Status status = engine_->Load({.adapter_dir = written_.path()});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("lora_A"), std::string::npos) << status;
}

TEST_F(LoadWrittenTest, WantsFoldersThatGoTogether) {
  Train(/*lora_rank=*/4);
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->Load({})));
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->Load({.model_dir = "/a", .adapter_dir = "/b"})));
}

}  // namespace
}  // namespace load_written_test
}  // namespace coxswain::engine
