// Experts that are dequantised a few at a time have the bits of all at once: in training at every
// recompute level, in gradients and in answers.
#include "tests/worker/engine/support/expert_ranges.h"

#include <algorithm>
#include <memory>

#include "common/plan/storage.h"
#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/parameter_store.h"

namespace coxswain::engine {
namespace expert_ranges_test {
namespace {

class ExpertRangesTest : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<StepStats> Train(const plan::Plan& plan) {
    std::vector<StepStats> all;
    const auto engine = Engine::Prepare(plan, 0, "");
    EXPECT_TRUE(engine.ok()) << engine.status();
    for (int64_t step = 0; engine.ok() && step < 3; ++step) {
      const auto stats =
          (*engine)->Train(MakeStep(step, BinsOfRanges(100 + static_cast<uint64_t>(step))));
      EXPECT_TRUE(stats.ok()) << stats.status();
      if (stats.ok()) all.push_back(*stats);
    }
    return all;
  }

  static std::unique_ptr<State> Made(const plan::Plan& plan) {
    std::string doing;
    auto state = MakeState(plan, 0, "", &doing);
    EXPECT_TRUE(state.ok()) << doing << ": " << state.status();
    return state.ok() ? *std::move(state) : nullptr;
  }

  // What begins at 0: B, with which the gradient of A does, and the biases of experts.
  static void GiveValues(const State& state) {
    const ParameterStore store(state.plan, state.layout, state.buffers);
    for (size_t i = 0; i < state.plan.parameters.size(); ++i) {
      const model::Parameter& parameter = state.plan.parameters[i];
      std::vector<float> values(static_cast<size_t>(parameter.elements()));
      for (size_t at = 0; at < values.size(); ++at)
        values[at] = 0.001f * static_cast<float>(at % 97);
      if (model::IsLoraB(parameter)) SetTrainedValues(state, i, values);
      if (!model::IsBase(parameter, model::Kind::kExpertBias)) continue;
      WriteFloats(values, store.Compute(i).data, store.Compute(i).dtype);
    }
  }
};

TEST_P(ExpertRangesTest, TrainWithTheBitsOfAllAtOnce) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    if (std::string(dtype) == "bfloat16" && TestDevice() == "cpu") continue;
    for (const auto& [level, every] : {std::pair{"none", 1},
                                       {"norm_swiglu", 1},
                                       {"expert_out", 1},
                                       {"ffn", 1},
                                       {"block", 1},
                                       {"block", 2}}) {
      plan::Plan plan = PlanOfRanges(GetParam());
      plan.compute_dtype = *FromString<Precision>(dtype);
      plan.recompute = *FromString<RecomputeLevel>(level);
      plan.recompute_every = every;
      const std::vector<StepStats> whole = Train(AtOnce(plan, 0));
      for (const int64_t experts : {1, 4, 6}) {
        ExpectSameSteps(Train(AtOnce(plan, experts)), whole);
        ASSERT_FALSE(HasFailure()) << dtype << " " << level << " " << every << ", " << experts;
      }
    }
  }
}

TEST_P(ExpertRangesTest, GradientsHaveTheBitsOfAllAtOnce) {
  const plan::Plan plan = PlanOfRanges(GetParam());
  const std::unique_ptr<State> whole = Made(AtOnce(plan, 0));
  const std::unique_ptr<State> ranges = Made(AtOnce(plan, 4));
  ASSERT_TRUE(whole != nullptr && ranges != nullptr);
  const ExpertLinear& stack = ranges->model.blocks[1].experts.begin()->second;
  EXPECT_EQ(stack.weight.value, nullptr);
  EXPECT_NE(stack.quantized.packed.codes, nullptr);
  for (const State* state : {whole.get(), ranges.get()}) GiveValues(*state);
  const TrainStep step = MakeStep(0, BinsOfRanges(7));
  EXPECT_EQ(GradientStep(*ranges, step), GradientStep(*whole, step));
  const std::vector<float> gradients = AllGradients(*ranges);
  EXPECT_EQ(gradients, AllGradients(*whole));
  EXPECT_TRUE(std::any_of(gradients.begin(), gradients.end(), [](float g) { return g != 0; }));
}

TEST_P(ExpertRangesTest, AnswersAreThoseOfAllAtOnce) {
  std::vector<std::vector<int32_t>> answers;
  for (const int64_t experts : {0, 1, 4}) {
    const auto engine =
        Engine::Prepare(OnlyGenerating(AtOnce(PlanOfRanges(GetParam()), experts), 2, 40), 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    GenerateChunk chunk{.prompts = {{5, 6, 7}, {9}}};
    chunk.tokens = 20;
    const auto stats = (*engine)->Generate(chunk);
    ASSERT_TRUE(stats.ok()) << stats.status();
    for (const auto& text : stats->texts) answers.push_back(text.ids);
  }
  ASSERT_EQ(answers.size(), 6u);
  EXPECT_EQ(answers[0].size(), 20u);
  for (const size_t other : {2, 4}) {
    EXPECT_EQ(answers[other], answers[0]);
    EXPECT_EQ(answers[other + 1], answers[1]);
  }
}

// Of gate and up, 96 x 128 an expert, the workspace holds a range. The slots of the blocks keep
// what else is quantised.
TEST_P(ExpertRangesTest, TakeTheMemoryOfARange) {
  const auto bytes = [](const plan::Plan& plan, const std::string& name) {
    for (const plan::Buffer& buffer : plan.buffers) {
      if (buffer.name == name) return buffer.bytes;
    }
    return int64_t{0};
  };
  const plan::Plan whole = AtOnce(PlanOfRanges(GetParam()), 0);
  const int64_t element = plan::ComputeBytes(whole);
  EXPECT_EQ(bytes(whole, "expert_weights"), 0);
  for (const int64_t experts : {1, 4, 6}) {
    const plan::Plan ranges = AtOnce(whole, experts);
    EXPECT_EQ(bytes(ranges, "expert_weights"), element * experts * 96 * 128);
    EXPECT_EQ(bytes(whole, "weight_slots") - bytes(ranges, "weight_slots"),
              2 * element * 6 * 96 * (128 + 64));
    // Codes and scales of two flats a block are padded instead of one.
    const int64_t more = bytes(ranges, "weights") - bytes(whole, "weights");
    EXPECT_TRUE(more >= 0 && more <= 3 * 2 * 128) << more;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ExpertRangesTest,
                         testing::Values("nf4", "nf4_double", "int8", "mxfp4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace expert_ranges_test
}  // namespace coxswain::engine
