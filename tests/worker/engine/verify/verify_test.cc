// A job that does not train fails. Invariant engine-7.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/weights.h"
#include "worker/engine/step/verified_step.h"
#include "worker/engine/verify/verified_tensors.h"
#include "worker/engine/verify/verify.h"

namespace coxswain::engine {
namespace verify_test {
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
  for (const char* optimizer : {"adamw", "adamw_bf16", "adamw_8bit"}) {
    for (int64_t rank : {0, 4}) {
      PlanOptions options = Options(rank);
      options.optimizer = optimizer;
      EXPECT_TRUE(Train(MakePlan(BlockyConfig(), options), 4).ok()) << optimizer << " " << rank;
    }
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
    for (const VerifiedTensor& tensor : (*state)->verified_tensors) {
      double squares = 0;
      for (const float g : GradientOf(**state, tensor.parameter)) {
        squares += static_cast<double>(g) * g;
      }
      EXPECT_EQ(squares == 0, tensor.zero_factor.has_value()) << tensor.name;
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
    for (model::Parameter& parameter : plan.parameters) {
      if (parameter.group == group) parameter.group = model::kFrozen;
    }
    Finish(&plan);
    plan.groups = groups;  // the count that the planner expected
    ExpectFailure(Train(plan, 1), "group \"" + name + "\"");
  }
}

TEST(SelfVerificationTest, ADroppedAdapterFailsAtPrepare) {
  plan::Plan plan = MakePlan(SmallConfig(), Options(4));
  const std::vector<plan::ParameterGroup> groups = plan.groups;
  std::erase_if(plan.parameters, [](const model::Parameter& parameter) {
    return parameter.layer == 1 && model::IsAdapter(parameter) &&
           parameter.name.find("o_proj") != std::string::npos;
  });
  Finish(&plan);
  plan.groups = groups;
  ExpectFailure(Train(plan, 1), "group \"lora_a\"");
}

TEST(SelfVerificationTest, AZeroGradientFailsByTheSecondStep) {
  const support::ScratchFolder folder;
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
  ExpectFailure(Train(plan, 2), "had a gradient of zero");
}

// What attention and MLP of one layer put out is multiplied by zero: nothing behind it trains.
TEST(SelfVerificationTest, ALayerWhoseOutputsAreZeroFailsByName) {
  const support::ScratchFolder folder;
  PlanOptions options = Options(4);
  options.init = "pretrained";
  options.model_path = folder.path();
  options.lora_targets = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"};
  std::vector<TensorSource> tensors = BaseTensors(MakePlan(SmallConfig(), options));
  for (TensorSource& tensor : tensors) {
    if (tensor.name == "model.layers.1.self_attn.o_proj.weight" ||
        tensor.name == "model.layers.1.mlp.down_proj.weight") {
      tensor = ZeroTensor(tensor.name, tensor.dtype, tensor.shape);
    }
  }
  ASSERT_TRUE(WriteSafetensors(folder.path() + "/model.safetensors", tensors).ok());
  const absl::Status status = Train(MakePlan(SmallConfig(), options), 2);
  ExpectFailure(status, "self-verification: 5 tensors had a gradient of zero");
  for (const std::string& target : options.lora_targets) {
    ExpectFailure(status, target + ".lora_B.weight");
  }
  EXPECT_EQ(std::string(status.message()).find("layers.0."), std::string::npos) << status;
  // Where the two train, they move in the first step and let a gradient through in the second.
  options.lora_targets = {"all-linear"};
  EXPECT_TRUE(Train(MakePlan(SmallConfig(), options), 4).ok());
  options.lora_rank = 0;
  EXPECT_TRUE(Train(MakePlan(SmallConfig(), options), 4).ok());
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

// Weights and norms in groups of their own; nothing in the second is zero, where any update shows.
model::ModelConfig ConfigOfOnes() {
  model::ModelConfig config = SmallConfig();
  config.qkv_bias = false;
  if (TestDevice() == "cuda") config.head_dim = 16;
  return config;
}

// The formats that this test's kernels run: float32, and on a GPU stochastically rounded bfloat16.
std::vector<PlanOptions> Formats() {
  std::vector<PlanOptions> formats = {Options(0)};
  if (TestDevice() == "cpu") return formats;
  formats.push_back(Options(0));
  formats.back().compute_dtype = formats.back().master_dtype = "bfloat16";
  return formats;
}

std::unique_ptr<State> Prepared(const PlanOptions& options) {
  std::string doing;
  auto state = MakeState(MakePlan(ConfigOfOnes(), options), 0, "", &doing);
  EXPECT_TRUE(state.ok()) << state.status();
  return state.ok() ? *std::move(state) : nullptr;
}

// The optimizer leaves the group as it is.
void Freeze(const State& state, int32_t group) {
  std::vector<kernels::AdamWTensor> tensors(static_cast<size_t>(state.layout.pieces));
  const auto bytes = static_cast<int64_t>(tensors.size() * sizeof(tensors[0]));
  kernels::CopyMemory(tensors.data(), state.buffers.adamw_tensors, bytes, nullptr);
  kernels::Synchronize(nullptr);
  for (kernels::AdamWTensor& tensor : tensors) {
    if (state.plan.parameters[tensor.index].group == group) tensor.lr_scale = 0;
  }
  kernels::CopyMemory(state.buffers.adamw_tensors, tensors.data(), bytes, nullptr);
  kernels::Synchronize(nullptr);
}

// A float32 norm weight of 1.0 is the same after 1e-9 more or less, one of bfloat16 but for one
// time in millions.
TEST(SelfVerificationTest, ALongWarmUpIsHealthy) {
  for (const PlanOptions& options : Formats()) {
    const auto state = Prepared(options);
    ASSERT_NE(state, nullptr);
    for (int64_t step = 0; step < 4; ++step) {
      const auto stats = RunTrainStep(*state, Step(step, 1e-9));
      EXPECT_TRUE(stats.ok()) << options.compute_dtype << " step " << step << ": "
                              << stats.status();
    }
    EXPECT_FALSE(state->verification->finished());
    for (int64_t step = 4; step < 8; ++step) {
      const auto stats = RunTrainStep(*state, Step(step, 1e-2));
      EXPECT_TRUE(stats.ok()) << stats.status();
    }
    EXPECT_TRUE(state->verification->finished());
  }
}

// The name of the first tensor of a group.
std::string FirstOf(const plan::Plan& plan, int32_t group) {
  const auto found = std::find_if(plan.parameters.begin(), plan.parameters.end(),
                                  [group](const model::Parameter& p) { return p.group == group; });
  return found->name;
}

TEST(SelfVerificationTest, AFrozenGroupFailsInTheSecondUpdate) {
  for (const PlanOptions& options : Formats()) {
    for (const int32_t group : {0, 1}) {
      const auto state = Prepared(options);
      ASSERT_NE(state, nullptr);
      Freeze(*state, group);
      EXPECT_TRUE(RunTrainStep(*state, Step(0, 1e-1)).ok());
      ExpectFailure(RunTrainStep(*state, Step(1, 1e-1)).status(),
                    "did not move in 2 applied updates, the last at a learning rate of 0.1: " +
                        FirstOf(state->plan, group));
    }
  }
}

TEST(SelfVerificationTest, AFrozenGroupFailsWhenTheRateHasGrown) {
  for (const int32_t group : {0, 1}) {
    const auto state = Prepared(Options(0));
    ASSERT_NE(state, nullptr);
    Freeze(*state, group);
    for (int64_t step = 0; step < 4; ++step) {
      EXPECT_TRUE(RunTrainStep(*state, Step(step, 1e-9)).ok());
    }
    ExpectFailure(RunTrainStep(*state, Step(4, 1e-4)).status(), "did not move in 5 applied");
  }
}

class VerificationRulesTest : public testing::Test {
 protected:
  // Two groups of tensors: of a full job weights and norms, else A and B.
  void Begin(const PlanOptions& options, const model::ModelConfig& config = ConfigOfOnes()) {
    plan_ = MakePlan(config, options);
    tensors_ = MakeVerifiedTensors(plan_);
    verification_ = std::make_unique<SelfVerification>(plan_, tensors_);
  }
  void SetUp() override { Begin(Options(4)); }

  const model::Parameter& ParameterOf(size_t tensor) const {
    return plan_.parameters[tensors_[tensor].parameter];
  }
  size_t Find(const std::string& part) const {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& tensor) {
      return tensor.name.find(part) != std::string::npos;
    });
    EXPECT_NE(found, tensors_.end()) << part;
    return static_cast<size_t>(found - tensors_.begin());
  }

  // Squares of the gradients, and which groups differ from what was loaded: root mean squares 0.1
  // and `value`.
  StepSums Sums(std::array<double, 2> squares, std::array<bool, 2> moved, double value = 0) const {
    StepSums sums{.tensors = {}, .attending_targets = 1};
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const size_t group = ParameterOf(t).group == 0 ? 0 : 1;
      const double scale = group == 0 ? 0.1 : value;
      const auto elements = static_cast<double>(ParameterOf(t).elements());
      sums.tensors.push_back({.gradient_squares = squares[group],
                              .value_squares = scale * scale * elements,
                              .moved = moved[group] ? 1.0 : 0.0,
                              .loaded_nonzero = scale == 0 ? 0.0 : 1.0});
    }
    return sums;
  }

  // An update in which weights move and norms of 1.0 do or do not.
  absl::Status Update(double rate, bool norms_move) {
    const StepSums sums = Sums({1, 1}, {true, norms_move}, 1.0);
    EXPECT_TRUE(verification_->CheckGradients(sums).ok());
    return verification_->CheckUpdate(sums, {rate});
  }

  plan::Plan plan_;
  std::vector<VerifiedTensor> tensors_;
  std::unique_ptr<SelfVerification> verification_;
};

TEST_F(VerificationRulesTest, LoraAMustHaveNoGradientWhileBIsZero) {
  EXPECT_TRUE(verification_->CheckGradients(Sums({0.0, 1.0}, {})).ok());
  ExpectFailure(verification_->CheckGradients(Sums({1e-30, 1.0}, {})),
                "while the other factor of the adapter is: base_model.model.model.layers.0.");
}

// One pair in which B is not zero excuses no other.
TEST_F(VerificationRulesTest, AWaitsForItsOwnB) {
  const size_t a = Find("layers.1.self_attn.q_proj.lora_A"),
               b = Find("layers.1.self_attn.q_proj.lora_B");
  ASSERT_EQ(tensors_[a].zero_factor, b);
  StepSums sums = Sums({0, 1}, {false, true});
  sums.tensors[b].loaded_nonzero = 1;
  sums.tensors[a].gradient_squares = 1;
  EXPECT_TRUE(verification_->CheckGradients(sums).ok());
  sums.tensors[Find("layers.2.self_attn.q_proj.lora_A")].gradient_squares = 1e-30;
  ExpectFailure(verification_->CheckGradients(sums), "model.layers.2.self_attn.q_proj.lora_A");
}

// B of one projection gets its first gradient in the second step: its A is asked in the third.
TEST_F(VerificationRulesTest, AIsAskedOnceItsBHasMoved) {
  const size_t a = Find("layers.1.mlp.up_proj.lora_A"), b = Find("layers.1.mlp.up_proj.lora_B");
  StepSums first = Sums({0, 1}, {true, true});
  first.tensors[b].gradient_squares = first.tensors[b].moved = 0;
  EXPECT_TRUE(verification_->CheckGradients(first).ok());
  EXPECT_TRUE(verification_->CheckUpdate(first, {1e-4}).ok());
  StepSums second = Sums({1, 1}, {true, true});
  second.tensors[a].gradient_squares = 0;
  EXPECT_TRUE(verification_->CheckGradients(second).ok());
  EXPECT_TRUE(verification_->CheckUpdate(second, {1e-4}).ok());
  EXPECT_FALSE(verification_->finished());
  EXPECT_TRUE(verification_->LooksAt(1e-4));
  ExpectFailure(verification_->CheckGradients(second), tensors_[a].name);
}

TEST_F(VerificationRulesTest, OneTensorWithoutGradientFailsByName) {
  const size_t b = Find("layers.1.self_attn.q_proj.lora_B");
  for (const int step : {0, 1}) {
    StepSums sums = Sums({step == 0 ? 0.0 : 1.0, 1}, {true, true});
    sums.tensors[b].gradient_squares = 0;
    const absl::Status status = verification_->CheckGradients(sums);
    if (step == 0) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(verification_->CheckUpdate(sums, {1e-4}).ok());
    } else {
      ExpectFailure(status,
                    "self-verification: 1 tensor had a gradient of zero in all of the "
                    "first 2 updates");
      ExpectFailure(status, "reaches them: " + tensors_[b].name);
    }
  }
}

TEST_F(VerificationRulesTest, ALongListOfNamesIsCut) {
  EXPECT_TRUE(verification_->CheckGradients(Sums({0, 0}, {})).ok());
  EXPECT_TRUE(verification_->CheckUpdate(Sums({0, 0}, {}), {1e-4}).ok());
  const absl::Status status = verification_->CheckGradients(Sums({0, 0}, {}));
  // Of three layers seven B; every A waits for its own.
  ExpectFailure(status, "21 tensors");
  ExpectFailure(status, " and 5 more");
  EXPECT_LT(status.message().size(), 2000u);
}

// Where every target sees one token, or one token again and again, q and k show nothing.
TEST_F(VerificationRulesTest, QueriesAndKeysNeedATargetThatSeesTwoTokens) {
  const size_t q = Find("layers.1.self_attn.q_proj.lora_B"),
               v = Find("layers.1.self_attn.v_proj.lora_B");
  EXPECT_TRUE(tensors_[q].needs_attention);
  EXPECT_FALSE(tensors_[v].needs_attention);
  StepSums sums = Sums({0, 1}, {true, true});
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (tensors_[t].needs_attention) sums.tensors[t].gradient_squares = 0;
    if (tensors_[t].zero_factor.has_value()) sums.tensors[t].gradient_squares = 0;
  }
  sums.attending_targets = 0;
  const auto look = [&] {
    const absl::Status status = verification_->CheckGradients(sums);
    EXPECT_TRUE(verification_->CheckUpdate(sums, {1e-4}).ok());
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (!tensors_[t].needs_attention) sums.tensors[t].gradient_squares = 1;
    }
    return status;
  };
  for (int step = 0; step < 4; ++step) EXPECT_TRUE(look().ok()) << step;
  EXPECT_FALSE(verification_->finished());
  EXPECT_TRUE(verification_->LooksAt(1e-4));
  sums.attending_targets = 3;
  EXPECT_TRUE(look().ok());
  ExpectFailure(look(), tensors_[q].name);
}

TEST(AttendingTargetsTest, SeeTwoDifferentTokensOfTheirDocument) {
  BinBatch bins;
  bins.document_lengths = {2, 4, 3};
  bins.token_ids = {1, 2, 5, 5, 6, 6, 7, 7, 7};
  bins.targets = {1, 0, 1, 1, 1, 0, 1, 1, 0};
  EXPECT_EQ(AttendingTargets(bins), 1);
  EXPECT_EQ(AttendingTargets(BinBatch{}), 0);
}

// Softmax takes a key bias away where keys are not rotated: no gradient is asked for, but what has
// one must move.
TEST_F(VerificationRulesTest, AKeyBiasIsJudgedByItsMovementAlone) {
  for (const double squares : {0.0, 1.0}) {
    Begin(Options(0), SmallConfig());
    const size_t bias = Find("layers.1.self_attn.k_proj.bias");
    EXPECT_FALSE(tensors_[bias].needs_gradient);
    EXPECT_TRUE(tensors_[Find("layers.1.self_attn.q_proj.bias")].needs_gradient);
    StepSums sums = Sums({1, 1}, {true, true}, 1.0);
    sums.tensors[bias].gradient_squares = squares;
    sums.tensors[bias].moved = 0;
    EXPECT_TRUE(verification_->CheckGradients(sums).ok());
    EXPECT_TRUE(verification_->CheckUpdate(sums, {1e-4}).ok());
    EXPECT_TRUE(verification_->CheckGradients(sums).ok());
    const absl::Status status = verification_->CheckUpdate(sums, {1e-4});
    EXPECT_EQ(status.ok(), squares == 0) << status;
    EXPECT_EQ(verification_->LooksAt(1e-4), squares != 0);
  }
}

// The sample of a tensor does not tell that all of it stayed.
TEST_F(VerificationRulesTest, WhatShouldHaveMovedIsToldByTensor) {
  Begin(Options(0));
  const size_t norm = Find("layers.2.input_layernorm");
  StepSums sums = Sums({1, 1}, {true, true}, 1.0);
  sums.tensors[norm].moved = 0;
  EXPECT_TRUE(verification_->Unmoved(sums, {1e-9}).empty());
  EXPECT_EQ(verification_->Unmoved(sums, {1e-4}), std::vector<size_t>{norm});
}

TEST_F(VerificationRulesTest, EveryTensorMustMoveInTwoUpdates) {
  EXPECT_TRUE(verification_->CheckGradients(Sums({0.0, 1.0}, {})).ok());
  EXPECT_TRUE(verification_->CheckUpdate(Sums({0.0, 1.0}, {}), {1e-4}).ok());
  EXPECT_TRUE(verification_->CheckGradients(Sums({1.0, 1.0}, {})).ok());
  EXPECT_FALSE(verification_->finished());
  // A moves, B does not.
  ExpectFailure(verification_->CheckUpdate(Sums({1.0, 1.0}, {true, false}), {1e-4}), "lora_B");
}

// An ulp of 1.0 is 1.2e-7: 1e-6 and more must be seen.
TEST_F(VerificationRulesTest, Float32MovesByAFewUlps) {
  Begin(Options(0));
  EXPECT_TRUE(Update(1e-8, false).ok());
  EXPECT_TRUE(Update(1e-8, false).ok());
  EXPECT_FALSE(verification_->finished());
  EXPECT_FALSE(verification_->LooksAt(5e-7));
  EXPECT_TRUE(verification_->LooksAt(2e-6));
  verification_->CountUpdate(5e-7);
  ExpectFailure(Update(2e-6, false), "model.layers.0.input_layernorm.weight");
}

TEST_F(VerificationRulesTest, WhatHasMovedIsNotLookedAtAgain) {
  Begin(Options(0));
  EXPECT_TRUE(Update(1e-8, true).ok());
  EXPECT_TRUE(Update(1e-8, false).ok());
  EXPECT_TRUE(verification_->finished());
  EXPECT_FALSE(verification_->LooksAt(1.0));
}

// Of the 48 elements of a norm, each of which moves with a chance of rate / 2^-7, 256 should have:
// at a rate of 1e-4 after 417 updates.
TEST_F(VerificationRulesTest, RoundedStochasticallyManyElementsShouldMove) {
  PlanOptions options = Options(0);
  options.compute_dtype = options.master_dtype = "bfloat16";
  for (const bool moves : {false, true}) {
    Begin(options);
    EXPECT_TRUE(Update(1e-4, false).ok());
    EXPECT_TRUE(Update(1e-4, false).ok());
    int64_t updates = 2;
    for (; updates < 1000 && !verification_->LooksAt(1e-4); ++updates) {
      verification_->CountUpdate(1e-4);
    }
    EXPECT_NEAR(static_cast<double>(updates), 256 / (48 * 1e-4 * 128), 2);
    const absl::Status status = Update(1e-4, moves);
    EXPECT_EQ(status.ok(), moves) << status;
    EXPECT_EQ(verification_->finished(), moves);
  }
  Begin(options);
  EXPECT_TRUE(Update(1e-1, false).ok());
  EXPECT_FALSE(Update(1e-1, false).ok());
}

// Adam's eps damps the updates of gradients of its own size.
TEST_F(VerificationRulesTest, TinyGradientsMoveLittle) {
  Begin(Options(0));
  plan_.eps = 1e-3;
  verification_ = std::make_unique<SelfVerification>(plan_, tensors_);
  const StepSums sums = Sums({1e-12, 1e-12}, {true, false}, 1.0);
  EXPECT_TRUE(verification_->CheckGradients(sums).ok());
  EXPECT_TRUE(verification_->CheckUpdate(sums, {1e-4}).ok());
  EXPECT_TRUE(verification_->CheckUpdate(sums, {1e-4}).ok());
  EXPECT_FALSE(verification_->LooksAt(1e-4));
}

}  // namespace
}  // namespace verify_test
}  // namespace coxswain::engine
