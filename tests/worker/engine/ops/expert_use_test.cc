// What routers tell of a step, and the corrections that move with it.
#include "worker/engine/ops/expert_use.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/plan/routers.h"
#include "tests/reference/experts.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/router_corrections.h"

namespace coxswain::engine {
namespace expert_use_test {
namespace {

constexpr float kRate = 0.03125f;

model::ModelConfig ConfigOf(const std::string& kind) {
  for (BlockKind& one : BlockKinds()) {
    if (one.name == kind) return one.config;
  }
  return {};
}

struct UseOptions {
  std::string kind = "GroupedExperts";
  int64_t micro_batch_bins = 4;
  double bias_rate = 0;
  int64_t lora_rank = 0;
  std::string recompute = "none";
};

plan::Plan PlanOf(const UseOptions& use) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.head_chunk = 24;
  options.micro_batch_bins = use.micro_batch_bins;
  options.lora_rank = use.lora_rank;
  options.recompute = use.recompute;
  plan::Plan plan = MakePlan(ConfigOf(use.kind), options);
  if (plan.model.mixture.experts > 0) plan.router_losses = {.balance = 0.01, .z = 0.001};
  plan.router_bias_rate = use.bias_rate;
  Finish(&plan);
  return plan;
}

TrainStep StepOf(int64_t step) {
  return MakeStep(
      step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {13, 13, 13}},
                       ConfigOf("GroupedExperts").vocab_size, 100 + static_cast<uint64_t>(step)));
}

std::unique_ptr<State> StateOf(const plan::Plan& plan, const std::string& checkpoint = "") {
  std::string doing;
  auto state = MakeState(plan, 0, checkpoint, &doing, "");
  EXPECT_TRUE(state.ok()) << doing << ": " << state.status();
  return state.ok() ? std::move(*state) : nullptr;
}

ExpertUse UseOfStep(State& state, int64_t step = 0) {
  const absl::StatusOr<StepStats> stats = RunTrainStep(state, StepOf(step));
  EXPECT_TRUE(stats.ok()) << stats.status();
  return stats.ok() ? stats->experts : ExpertUse();
}

std::vector<double> SumsOf(const State& state) {
  std::vector<double> sums(static_cast<size_t>(state.router_use_doubles));
  kernels::CopyMemory(sums.data(), state.buffers.router_use, 8 * state.router_use_doubles, nullptr);
  return sums;
}

// By router.
std::vector<std::vector<float>> Corrections(const State& state) {
  std::vector<std::vector<float>> all;
  for (const plan::Router& router : plan::RoutersOf(state.plan)) {
    all.push_back(ReadFloats(state.buffers.router_corrections + router.moved,
                             kernels::DType::kFloat32, router.experts));
  }
  return all;
}

// The parameter of `kind` in the first layer that has one.
size_t FirstOf(const plan::Plan& plan, model::Kind kind) {
  const auto found =
      std::find_if(plan.parameters.begin(), plan.parameters.end(),
                   [kind](const model::Parameter& p) { return model::IsBase(p, kind); });
  return static_cast<size_t>(found - plan.parameters.begin());
}

void FillParameter(const State& state, size_t i, float value) {
  SetTrainedValues(
      state, i,
      std::vector<float>(static_cast<size_t>(state.plan.parameters[i].elements()), value));
}

// Layers 0 and 2 of a plan whose routers have 4 experts, 2 of a token.
class ExpertUseOfTest : public testing::Test {
 protected:
  ExpertUseOfTest() {
    model::ModelConfig config = ConfigOf("GroupedExperts");
    config.mixture.experts = 4;
    config.mixture.chosen = 2;
    config.mixture.groups = config.mixture.top_groups = 1;
    config.mixture.dense_layers = {1, 3, 4};
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    plan_ = MakePlan(config, options);
    plan_.router_losses = {.balance = 0.5, .z = 0, .by_micro_batch = false};
  }
  plan::Plan plan_;
};

TEST_F(ExpertUseOfTest, GivesEachLayerAndTheModel) {
  const std::vector<double> sums = {6, 2, 0, 2, /**/ 5, 4.0, 1, 4, 4, 1, /**/ 4, 6.0, 30.0, 7.0};
  const ExpertUse use = ExpertUseOf(plan_, sums.data(), 20);
  ASSERT_EQ(use.layers.size(), 2u);
  EXPECT_EQ(use.layers[0].layer, 0);
  EXPECT_DOUBLE_EQ(use.layers[0].load_ratio, 6 / 2.5);
  EXPECT_EQ(use.layers[0].unused_experts, 1);
  EXPECT_DOUBLE_EQ(use.layers[0].router_entropy, 0.8);
  EXPECT_EQ(use.layers[0].nonfinite_tokens, 0);
  EXPECT_EQ(use.layers[1].layer, 2);
  EXPECT_DOUBLE_EQ(use.layers[1].load_ratio, 4 / 2.5);
  EXPECT_EQ(use.layers[1].nonfinite_tokens, 1);
  EXPECT_DOUBLE_EQ(use.load_ratio, (2.4 + 1.6) / 2);
  EXPECT_DOUBLE_EQ(use.worst_load_ratio, 2.4);
  EXPECT_EQ(use.worst_layer, 0);
  EXPECT_EQ(use.unused_experts, 1);
  EXPECT_DOUBLE_EQ(use.router_entropy, 10.0 / 9);
  EXPECT_EQ(use.nonfinite_tokens, 1);
  ASSERT_TRUE(use.balance_loss.has_value());
  EXPECT_DOUBLE_EQ(*use.balance_loss, 30.0 / (0.5 * 20));
  EXPECT_FALSE(use.z_loss.has_value());  // its factor is 0
}

TEST_F(ExpertUseOfTest, StaysFiniteWithoutTokensAndWithLossesThatAreNot) {
  std::vector<double> sums(14, 0.0);
  sums[12] = std::numeric_limits<double>::quiet_NaN();
  const ExpertUse use = ExpertUseOf(plan_, sums.data(), 20);
  EXPECT_EQ(use.load_ratio, 0);
  EXPECT_EQ(use.worst_load_ratio, 0);
  EXPECT_EQ(use.unused_experts, 8);
  EXPECT_EQ(use.router_entropy, 0);
  EXPECT_FALSE(use.balance_loss.has_value());
}

TEST(StepExpertUseTest, DenseModelsHaveNone) {
  EXPECT_TRUE(UseOfStep(*StateOf(PlanOf({.kind = "PreNorm"}))).layers.empty());
}

// Every layer, from what its router left: ids, and logits in float64.
TEST(StepExpertUseTest, IsThatOfTheRoutersRows) {
  for (const char* kind : {"SharedExperts", "GroupedExperts"}) {
    const std::unique_ptr<State> state = StateOf(PlanOf({.kind = kind}));
    const ExpertUse use = UseOfStep(*state);
    const bool sigmoid = state->plan.model.mixture.score == "sigmoid";
    size_t at = 0;
    for (const BoundBlock& block : state->ops.blocks) {
      for (const BoundOp& op : block.forward) {
        const auto* route = std::get_if<BoundRoute>(&op);
        if (route == nullptr) continue;
        const int64_t experts = route->spec.experts;
        const std::vector<float> logits = TokenRows(*state, StepOf(0).bins, route->logits, experts);
        const auto tokens = static_cast<int64_t>(logits.size()) / experts;
        double entropy = 0;
        for (auto row = logits.begin(); row != logits.end(); row += experts) {
          entropy += reference::RouterEntropy<double>({row, row + experts}, sigmoid);
        }
        ASSERT_LT(at, use.layers.size());
        EXPECT_NEAR(use.layers[at].router_entropy, entropy / static_cast<double>(tokens), 1e-5);
        EXPECT_EQ(use.layers[at].nonfinite_tokens, 0);
        EXPECT_GE(use.layers[at].load_ratio, 1.0);
        const std::vector<double> sums = SumsOf(*state);
        const double* counts = sums.data() + plan::RoutersOf(state->plan)[at].use;
        EXPECT_EQ(std::accumulate(counts, counts + experts, 0.0),
                  static_cast<double>(tokens * route->spec.chosen));
        ++at;
      }
    }
    EXPECT_EQ(at, use.layers.size());
    EXPECT_TRUE(use.balance_loss.has_value());
    EXPECT_TRUE(use.z_loss.has_value());
  }
}

// Integers are the same; means differ by the order of additions.
TEST(StepExpertUseTest, DoesNotDependOnTheCutIntoMicroStepsNorOnRecomputation) {
  const ExpertUse whole = UseOfStep(*StateOf(PlanOf({})));
  for (const UseOptions& options :
       {UseOptions{.micro_batch_bins = 1}, UseOptions{.micro_batch_bins = 2},
        UseOptions{.micro_batch_bins = 1, .recompute = "block"}}) {
    const ExpertUse cut = UseOfStep(*StateOf(PlanOf(options)));
    ASSERT_EQ(cut.layers.size(), whole.layers.size());
    for (size_t i = 0; i < whole.layers.size(); ++i) {
      EXPECT_EQ(cut.layers[i].load_ratio, whole.layers[i].load_ratio) << i;
      EXPECT_EQ(cut.layers[i].unused_experts, whole.layers[i].unused_experts) << i;
      EXPECT_NEAR(cut.layers[i].router_entropy, whole.layers[i].router_entropy, 1e-5) << i;
    }
    EXPECT_NEAR(*cut.balance_loss, *whole.balance_loss, 1e-5 * *whole.balance_loss);
    EXPECT_NEAR(*cut.z_loss, *whole.z_loss, 1e-5 * *whole.z_loss);
  }
}

// A router that chose again would count again.
TEST(StepExpertUseTest, RoutersChooseOnceAtEveryRecomputeLevel) {
  for (const char* kind : {"SharedExperts", "GroupedExperts"}) {
    const auto sums_of = [&](const char* level) {
      const std::unique_ptr<State> state = StateOf(PlanOf({.kind = kind, .recompute = level}));
      UseOfStep(*state);
      return SumsOf(*state);
    };
    const std::vector<double> once = sums_of("none");
    for (const char* level : {"norm_swiglu", "expert_out", "ffn", "block"}) {
      EXPECT_EQ(sums_of(level), once) << kind << " " << level;
    }
  }
}

// The next step starts from nothing.
TEST(StepExpertUseTest, IsOfOneStep) {
  const std::unique_ptr<State> state = StateOf(PlanOf({}));
  UseOfStep(*state, 0);
  const std::vector<double> first = SumsOf(*state);
  UseOfStep(*state, 1);
  const std::vector<double> second = SumsOf(*state);
  const auto pairs = [](const std::vector<double>& sums) {
    return std::accumulate(sums.begin(), sums.begin() + 8, 0.0);
  };
  EXPECT_EQ(pairs(first), pairs(second));
}

TEST(StepExpertUseTest, TellsWhereOneExpertHasEveryToken) {
  const std::unique_ptr<State> state = StateOf(PlanOf({.kind = "SinksAndBiases"}));
  const size_t bias = FirstOf(state->plan, model::Kind::kRouterBias);
  SetTrainedValues(*state, bias, {0, 0, 60, 0, 30, 0});
  const ExpertUse use = UseOfStep(*state);
  EXPECT_EQ(use.layers[0].load_ratio, 3.0);  // half of all pairs over a sixth
  EXPECT_EQ(use.layers[0].unused_experts, 4);
  EXPECT_NEAR(use.layers[0].router_entropy, 0.0, 1e-5);
  EXPECT_EQ(use.worst_load_ratio, 3.0);
  EXPECT_EQ(use.worst_layer, use.layers[0].layer);
  EXPECT_EQ(use.nonfinite_tokens, 0);
}

// The update is skipped and every number that is told is finite.
TEST(StepExpertUseTest, StaysFiniteWithARouterOfNan) {
  for (const char* kind : {"SharedExperts", "GroupedExperts"}) {
    const std::unique_ptr<State> state = StateOf(
        PlanOf({.kind = kind, .bias_rate = std::string(kind) == "GroupedExperts" ? kRate : 0}));
    FillParameter(*state, FirstOf(state->plan, model::Kind::kRouter),
                  std::numeric_limits<float>::quiet_NaN());
    const absl::StatusOr<StepStats> stats = RunTrainStep(*state, StepOf(0));
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_FALSE(stats->applied);
    const ExpertUse& use = stats->experts;
    EXPECT_GT(use.layers[0].nonfinite_tokens, 0);
    EXPECT_EQ(use.layers[0].router_entropy, 0);
    EXPECT_FALSE(use.balance_loss.has_value());
    EXPECT_FALSE(use.z_loss.has_value());
    for (const double value : {use.load_ratio, use.worst_load_ratio, use.router_entropy}) {
      EXPECT_TRUE(std::isfinite(value)) << value;
    }
    if (state->buffers.router_corrections == nullptr) continue;
    for (const std::vector<float>& one : Corrections(*state)) {
      EXPECT_EQ(one, std::vector<float>(one.size(), 0.0f));
    }
  }
}

TEST(RouterCorrectionsTest, MoveAgainstTheUseOfTheirExperts) {
  for (const int64_t lora_rank : {0, 3}) {
    for (const int64_t bins : {1, 4}) {
      const std::unique_ptr<State> state =
          StateOf(PlanOf({.micro_batch_bins = bins, .bias_rate = kRate, .lora_rank = lora_rank}));
      std::vector<std::vector<float>> want = Corrections(*state);
      for (int64_t step = 0; step < 2; ++step) {
        UseOfStep(*state, step);
        const std::vector<double> sums = SumsOf(*state);
        for (const plan::Router& router : plan::RoutersOf(state->plan)) {
          const double* counts = sums.data() + router.use;
          const double mean = std::accumulate(counts, counts + router.experts, 0.0) /
                              static_cast<double>(router.experts);
          for (int64_t e = 0; e < router.experts; ++e) {
            float& b =
                want[static_cast<size_t>(router.moved / router.experts)][static_cast<size_t>(e)];
            b += counts[e] < mean ? kRate : counts[e] > mean ? -kRate : 0.0f;
          }
        }
        EXPECT_EQ(Corrections(*state), want) << "step " << step;
      }
    }
  }
}

// The choice of the next step reads what has moved.
TEST(RouterCorrectionsTest, ChooseTheExpertsOfTheNextStep) {
  const std::unique_ptr<State> state = StateOf(PlanOf({.bias_rate = kRate}));
  std::vector<float> pushed = {100, 100, 100, 0, 0, 0, 0, 0};  // a group, and one of the next
  kernels::CopyMemory(state->buffers.router_corrections, pushed.data(), 32, nullptr);
  const ExpertUse use = UseOfStep(*state);
  EXPECT_EQ(use.layers[0].unused_experts, 5);
  EXPECT_DOUBLE_EQ(use.layers[0].load_ratio, 8.0 / 3);
  for (size_t e = 0; e < 8; ++e) pushed[e] += e < 3 ? -kRate : kRate;
  EXPECT_EQ(Corrections(*state)[0], pushed);
}

// All of them, whatever part of the weights the rank loads.
TEST(RouterCorrectionsTest, BeginAsTheFilesOfTheBaseHaveThem) {
  plan::Plan plan = PlanOf({.bias_rate = kRate});
  const std::unique_ptr<State> state = StateOf(plan);
  const support::ScratchFolder folder;
  std::vector<TensorSource> tensors;
  for (const model::Parameter& parameter : plan.parameters) {
    if (model::IsBuffer(parameter)) tensors.push_back(RandomTensor(parameter));
  }
  const std::string path = folder.path() + "/model.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  plan.init = BaseInit::kPretrained;
  plan.model_path = folder.path();
  ASSERT_TRUE(LoadCorrections(plan, state->layout, state->buffers).ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  for (size_t router = 0; router < tensors.size(); ++router) {
    std::vector<float> values(8);
    const TensorInfo* tensor = (*file)->Find(tensors[router].name);
    ASSERT_TRUE(CopyRangeAsFloat(*tensor, 0, 8, values.data()).ok());
    EXPECT_EQ(Corrections(*state)[router], values) << router;
  }
  EXPECT_NE(Corrections(*state)[0], Corrections(*state)[1]);
}

TEST(RouterCorrectionsTest, StayWhereTheyAreWithoutARate) {
  const plan::Plan plan = PlanOf({});
  const std::unique_ptr<State> state = StateOf(plan);
  EXPECT_EQ(state->buffers.router_corrections, nullptr);
  EXPECT_EQ(plan::RoutersOf(plan).front().moved, -1);
}

// Bit for bit, with the moved corrections in the file of rank 0.
TEST(RouterCorrectionsTest, CheckpointsHoldThem) {
  for (const int64_t lora_rank : {0, 3}) {
    const plan::Plan plan = PlanOf({.bias_rate = kRate, .lora_rank = lora_rank});
    const support::ScratchFolder folder;
    auto engine = Engine::Prepare(plan, 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    std::vector<StepStats> whole, resumed;
    for (int64_t step = 0; step < 6; ++step) {
      if (step == 3) {
        ASSERT_TRUE((*engine)->Snapshot(3).ok());
      }
      const auto stats = (*engine)->Train(StepOf(step));
      ASSERT_TRUE(stats.ok()) << stats.status();
      whole.push_back(*stats);
    }
    ASSERT_TRUE((*engine)->SaveShard(folder.path(), 3).ok());
    SealCheckpoint(folder.path());
    const auto file = SafetensorsFile::Open(folder.path() + "/rank-0.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    const TensorInfo* moved =
        (*file)->Find(plan.parameters[FirstOf(plan, model::Kind::kRouterCorrection)].name);
    ASSERT_NE(moved, nullptr);
    EXPECT_EQ(moved->shape, std::vector<int64_t>{8});

    const std::unique_ptr<State> state = StateOf(plan, folder.path());
    ASSERT_NE(state, nullptr);
    std::vector<float> values(8);
    ASSERT_TRUE(CopyRangeAsFloat(*moved, 0, 8, values.data()).ok());
    EXPECT_EQ(Corrections(*state)[0], values);
    EXPECT_NE(values, std::vector<float>(8, 0.0f));
    for (int64_t step = 3; step < 6; ++step) {
      const auto stats = RunTrainStep(*state, StepOf(step));
      ASSERT_TRUE(stats.ok()) << stats.status();
      const StepStats& want = whole[static_cast<size_t>(step)];
      EXPECT_EQ(stats->global_loss_sum, want.global_loss_sum) << step;
      EXPECT_EQ(stats->grad_norm, want.grad_norm) << step;
      EXPECT_EQ(stats->experts.load_ratio, want.experts.load_ratio) << step;
    }
  }
}

}  // namespace
}  // namespace expert_use_test
}  // namespace coxswain::engine
