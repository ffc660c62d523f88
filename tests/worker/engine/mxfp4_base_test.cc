// Experts that stay in MXFP4 as their files have them: the bits of training, answers and resuming
// are those of the base dequantised, at every recompute level.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "common/files/safetensors/safetensors.h"
#include "common/plan/shard_map.h"
#include "kernels/device.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace mxfp4_base_test {
namespace {

constexpr int64_t kSteps = 4;

class Mxfp4BaseTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = support::GoldenFolder(GetParam());
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
    golden_ = LoadGoldenCase(GetParam());
    ASSERT_EQ(golden_.plan.quantization, Quantization::kMxfp4);
  }

  // The same base as what it stands for.
  static plan::Plan Dequantised(plan::Plan plan) {
    plan.quantization = Quantization::kNone;
    Finish(&plan);
    return plan;
  }

  TrainStep Step(int64_t step) const {
    TrainStep train = MakeStep(step, golden_.bins);
    train.loss_denominator = golden_.targets;
    return train;
  }

  std::vector<StepStats> Train(Engine& engine, int64_t begin, int64_t end) const {
    std::vector<StepStats> all;
    for (int64_t step = begin; step < end; ++step) {
      const auto stats = engine.Train(Step(step));
      EXPECT_TRUE(stats.ok()) << stats.status();
      if (stats.ok()) all.push_back(*stats);
    }
    return all;
  }

  std::vector<StepStats> Run(const plan::Plan& plan) const {
    const auto engine = Engine::Prepare(plan, 0, "");
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? Train(**engine, 0, kSteps) : std::vector<StepStats>{};
  }

  static void ExpectSame(const std::vector<StepStats>& one, const std::vector<StepStats>& other) {
    ASSERT_EQ(one.size(), other.size());
    ASSERT_FALSE(one.empty());
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].global_loss_sum, other[i].global_loss_sum) << "step " << i;
      EXPECT_EQ(one[i].grad_norm, other[i].grad_norm) << "step " << i;
      EXPECT_GT(one[i].grad_norm, 0) << "step " << i;
    }
  }

  GoldenCase golden_;
};

TEST_P(Mxfp4BaseTest, TrainsWithTheBitsOfTheBaseDequantised) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    golden_.plan.compute_dtype = *FromString<Precision>(dtype);
    if (golden_.plan.compute_dtype == Precision::kBfloat16 && TestDevice() == "cpu") continue;
    for (const auto& [level, every] : {std::pair{"none", 1},
                                       {"norm_swiglu", 1},
                                       {"expert_out", 1},
                                       {"ffn", 1},
                                       {"block", 1},
                                       {"block", 2}}) {
      plan::Plan plan = golden_.plan;
      plan.recompute = *FromString<RecomputeLevel>(level);
      plan.recompute_every = every;
      Finish(&plan);
      ExpectSame(Run(plan), Run(Dequantised(plan)));
      ASSERT_FALSE(HasFailure()) << dtype << " " << level << " " << every;
    }
  }
}

// Rows of down are in memory as in the file. Those of gate and up take turns there.
TEST_P(Mxfp4BaseTest, KeepsTheBytesOfTheFile) {
  std::string doing;
  const auto state = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  const auto file = SafetensorsFile::Open(support::GoldenFolder(GetParam()) + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  int stacks = 0;
  for (size_t i = 0; i < golden_.plan.parameters.size(); ++i) {
    const model::Parameter& parameter = golden_.plan.parameters[i];
    if (!parameter.name.ends_with("experts.down_proj")) continue;
    ++stacks;
    const plan::ParameterPlace& place = (*state)->layout.map.places[i];
    const PackedMemory& kept = (*state)->buffers.flats[place.flat].packed;
    for (const auto& [suffix, bytes, data] :
         {std::tuple{"_blocks", parameter.elements() / 2, kept.codes + place.packed / 2},
          std::tuple{"_scales", parameter.elements() / 32, kept.scales + place.packed / 32}}) {
      const TensorInfo* const tensor = (*file)->Find(parameter.name + suffix);
      ASSERT_NE(tensor, nullptr);
      ASSERT_EQ(tensor->bytes, bytes);
      std::vector<uint8_t> here(static_cast<size_t>(bytes));
      kernels::CopyMemory(here.data(), data, bytes, nullptr);
      EXPECT_TRUE(std::equal(here.begin(), here.end(), tensor->data)) << parameter.name << suffix;
    }
  }
  EXPECT_EQ(stacks, golden_.plan.model.num_layers);
}

TEST_P(Mxfp4BaseTest, TakesFourBitsAndAQuarterAnElement) {
  const plan::ShardMap packed(golden_.plan), plain(Dequantised(golden_.plan));
  int64_t experts = 0;
  for (const model::Parameter& parameter : golden_.plan.parameters) {
    if (model::IsBase(parameter, model::Kind::kExperts)) experts += parameter.elements();
  }
  EXPECT_GT(experts, 0);
  EXPECT_EQ(plain.weights - packed.weights, 4 * experts - experts * 17 / 32);
  EXPECT_EQ(packed.weight_slot, 4 * experts / golden_.plan.model.num_layers);
}

// Every value of the format is its own nearest one, whatever scale quantising takes.
TEST_P(Mxfp4BaseTest, QuantisingWhatItStandsForGivesItBack) {
  plan::Plan twin = golden_.plan;
  twin.model_path += "/dequantised";
  ExpectSame(Run(twin), Run(golden_.plan));
}

TEST_P(Mxfp4BaseTest, ResumesWithTheSameBits) {
  const support::ScratchFolder folder;
  const auto whole = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(whole.ok()) << whole.status();
  Train(**whole, 0, 2);
  ASSERT_TRUE((*whole)->Snapshot(2).ok());
  ASSERT_TRUE((*whole)->SaveShard(folder.path(), 2).ok());
  SealCheckpoint(folder.path());
  const auto second = Engine::Prepare(golden_.plan, 0, folder.path());
  ASSERT_TRUE(second.ok()) << second.status();
  ExpectSame(Train(**second, 2, kSteps), Train(**whole, 2, kSteps));
}

TEST_P(Mxfp4BaseTest, AnswersAreThoseOfTheBaseDequantised) {
  std::vector<std::vector<int32_t>> answers;
  for (const plan::Plan& base : {golden_.plan, Dequantised(golden_.plan)}) {
    const auto engine = Engine::Prepare(OnlyGenerating(base, 2, 40), 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    GenerateChunk chunk{.prompts = {{5, 6, 7}, {9}}};
    chunk.tokens = 20;
    const auto stats = (*engine)->Generate(chunk);
    ASSERT_TRUE(stats.ok()) << stats.status();
    for (const auto& text : stats->texts) answers.push_back(text.ids);
  }
  EXPECT_EQ(answers[0], answers[2]);
  EXPECT_EQ(answers[1], answers[3]);
  EXPECT_EQ(answers[0].size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Cases, Mxfp4BaseTest,
                         testing::Values("moe/gpt_oss_mxfp4_attn_lora",
                                         "moe/gpt_oss_mxfp4_expert_lora"),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("moe/").size());
                         });

}  // namespace
}  // namespace mxfp4_base_test
}  // namespace coxswain::engine
