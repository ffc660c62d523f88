// A job that does not train fails. Invariant engine-7.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "common/safetensors.h"
#include "tests/worker/engine/test_batch.h"
#include "tests/worker/engine/test_model.h"
#include "tests/worker/engine/test_plan.h"
#include "tests/worker/engine/test_state.h"
#include "worker/engine/parts.h"
#include "worker/engine/verify.h"
#include "worker/engine/weights.h"

namespace coxswain::engine {
namespace {

PlanOptions Options(int64_t lora_rank) {
  PlanOptions options;
  options.init = "random";
  options.lora_rank = lora_rank;
  options.sequence_len = 40;
  return options;
}

TrainStep Step(int64_t step, double learning_rate = 1e-3) {
  return MakeStep(
      step, RandomBins({{17, 9}, {31, 3}}, SmallConfig().vocab_size, static_cast<uint64_t>(step)),
      learning_rate);
}

// Status of the first step that fails, or of the last.
absl::Status Train(const plan::Plan& plan, int64_t steps) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(plan, 0, "");
  if (!engine.ok()) return engine.status();
  for (int64_t step = 0; step < steps; ++step) {
    const absl::Status status = (*engine)->Train(Step(step)).status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void ExpectFailure(const absl::Status& status, const std::string& words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(std::string(status.message()).find(words), std::string::npos) << status;
}

TEST(SelfVerificationTest, AHealthyJobPasses) {
  for (int64_t rank : {0, 4}) {
    EXPECT_TRUE(Train(MakePlan(SmallConfig(), Options(rank)), 4).ok());
  }
}

// At the start DoRA computes what LoRA does: magnitudes are the norms, B is zero. Unlike A they
// have a gradient in the first step.
TEST(SelfVerificationTest, MagnitudesStartAsNormsAndHaveAGradient) {
  PlanOptions options = Options(4);
  options.lora_targets = {"q_proj", "v_proj", "up_proj", "o_proj"};
  double losses[2];
  for (const bool dora : {false, true}) {
    options.dora = dora;
    std::string doing;
    auto state = MakeState(MakePlan(SmallConfig(), options), 0, "", &doing);
    ASSERT_TRUE(state.ok()) << state.status();
    losses[dora] = GradientStep(**state, Step(0));
    for (const Part& part : (*state)->parts) {
      double squares = 0;
      for (const size_t i : part.parameters) {
        for (const float g : GradientOf(**state, i)) squares += static_cast<double>(g) * g;
      }
      EXPECT_EQ(squares == 0, part.lora_a) << part.name;
    }
    EXPECT_TRUE(Train((*state)->plan, 4).ok());
  }
  EXPECT_NEAR(losses[1] / losses[0], 1.0, 1e-6);
}

TEST(SelfVerificationTest, AFrozenGroupFailsAtPrepare) {
  for (int32_t group : {0, 1}) {
    plan::Plan plan = MakePlan(SmallConfig(), Options(0));
    const std::string name = plan.groups[static_cast<size_t>(group)].name;
    const std::vector<plan::ParameterGroup> groups = plan.groups;
    for (plan::Parameter& parameter : plan.parameters) {
      if (parameter.group == group) parameter.group = plan::kFrozen;
    }
    Finish(&plan);
    plan.groups = groups;  // the count that the planner expected
    ExpectFailure(Train(plan, 1), "group \"" + name + "\"");
  }
}

TEST(SelfVerificationTest, ADroppedAdapterFailsAtPrepare) {
  plan::Plan plan = MakePlan(SmallConfig(), Options(4));
  const std::vector<plan::ParameterGroup> groups = plan.groups;
  std::erase_if(plan.parameters, [](const plan::Parameter& parameter) {
    return parameter.layer == 1 && IsAdapter(parameter.role) &&
           parameter.name.find("o_proj") != std::string::npos;
  });
  Finish(&plan);
  plan.groups = groups;
  ExpectFailure(Train(plan, 1), "group \"lora_a\"");
}

TEST(SelfVerificationTest, AZeroGradientFailsByTheSecondStep) {
  const ScratchFolder folder("zero-gradient");
  PlanOptions options = Options(4);
  options.init = "pretrained";
  options.model_path = folder.path();
  const plan::Plan plan = MakePlan(SmallConfig(), options);
  std::vector<TensorSource> tensors = BaseTensors(plan);
  ASSERT_TRUE(WriteSafetensors(folder.path() + "/model.safetensors", tensors).ok());
  EXPECT_TRUE(Train(plan, 2).ok());
  // A final norm of zeros lets no gradient through to the blocks.
  for (TensorSource& tensor : tensors) {
    if (tensor.name == "model.norm.weight") {
      tensor = ZeroTensor(tensor.name, tensor.dtype, tensor.shape);
    }
  }
  ASSERT_TRUE(WriteSafetensors(folder.path() + "/model.safetensors", tensors).ok());
  EXPECT_TRUE(Train(plan, 1).ok());
  ExpectFailure(Train(plan, 2), "gradient was zero");
}

TEST(SelfVerificationTest, AStepWithoutLearningRateIsNotCounted) {
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Prepare(MakePlan(SmallConfig(), Options(4)), 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (int64_t step = 0; step < 3; ++step) {
    EXPECT_TRUE((*engine)->Train(Step(step, 0.0)).ok());
  }
  for (int64_t step = 3; step < 6; ++step) EXPECT_TRUE((*engine)->Train(Step(step)).ok());
}

class VerificationRulesTest : public testing::Test {
 protected:
  void SetUp() override {
    plan_ = MakePlan(SmallConfig(), Options(4));
    parts_ = MakeParts(plan_);
    verification_ = std::make_unique<SelfVerification>(parts_);
  }

  // Of the parts A and B: squares of the gradients, checksums of the values, which were 7 and 0.
  static std::vector<PartSums> Sums(std::array<double, 2> squares,
                                    std::array<uint64_t, 2> checksums) {
    std::vector<PartSums> sums;
    for (size_t i = 0; i < 2; ++i) {
      PartNumbers loaded, now;
      loaded.checksum = i == 0 ? 7 : 0;
      loaded.all_zero = i == 0 ? 0 : 1;
      now.gradient.sum_squares = squares[i];
      now.checksum = checksums[i];
      sums.push_back(PartOfRank(loaded, now));
    }
    return sums;
  }

  plan::Plan plan_;
  std::vector<Part> parts_;
  std::unique_ptr<SelfVerification> verification_;
};

TEST_F(VerificationRulesTest, LoraAMustHaveNoGradientWhileBIsZero) {
  ASSERT_EQ(parts_.size(), 2u);
  ASSERT_TRUE(parts_[0].lora_a);
  EXPECT_TRUE(verification_->CheckGradients(Sums({0.0, 1.0}, {})).ok());
  ExpectFailure(verification_->CheckGradients(Sums({1e-30, 1.0}, {})), "while B is zero");
}

TEST_F(VerificationRulesTest, EveryPartMustMoveInTwoUpdates) {
  EXPECT_TRUE(verification_->CheckGradients(Sums({0.0, 1.0}, {})).ok());
  EXPECT_TRUE(verification_->CheckUpdate(Sums({}, {7, 0})).ok());
  EXPECT_TRUE(verification_->CheckGradients(Sums({1.0, 1.0}, {})).ok());
  EXPECT_FALSE(verification_->finished());
  // A moves, B does not.
  ExpectFailure(verification_->CheckUpdate(Sums({}, {8, 0})), "(LoRA B)");
  EXPECT_TRUE(verification_->finished());
}

}  // namespace
}  // namespace coxswain::engine
