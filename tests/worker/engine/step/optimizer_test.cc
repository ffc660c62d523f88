// What a step does to values and states, beside the optimizer's formula in double: each of 20 steps
// from what the last one left, with the gradient that the engine computed.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <type_traits>

#include "common/plan/optimizer_states.h"
#include "kernels/device.h"
#include "tests/kernels/adamw_8bit_check.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/parameter_store.h"

namespace coxswain::engine {
namespace optimizer_test {
namespace {

using Doubles = std::vector<double>;
using Options = reference::AdamWOptions<double>;

constexpr double kUnit = 0x1p-24;

// Of one parameter: values and states by their suffix.
struct Held {
  Doubles p;
  std::map<std::string, Doubles> states;
};

Doubles ReadState(const StateValues& values) {
  const int64_t count = values.elements.count();
  if (values.storage == plan::Storage::kDynamic8) {
    std::vector<uint8_t> codes(static_cast<size_t>(count));
    kernels::CopyMemory(codes.data(), values.data, count, nullptr);
    return {codes.begin(), codes.end()};
  }
  const std::vector<float> floats = ReadFloats(values.data, DTypeOf(values.storage), count);
  return {floats.begin(), floats.end()};
}

Held Read(const State& state, size_t i) {
  const std::vector<float> p = TrainedValues(state, i);
  Held held{{p.begin(), p.end()}, {}};
  const std::vector<StateValues> states =
      ParameterStore(state.plan, state.layout, state.buffers).States(i);
  for (size_t s = 0; s < states.size(); ++s) {
    if (states[s].data == nullptr) continue;
    held.states[plan::OptimizerOf(state.plan).states[s].suffix] = ReadState(states[s]);
  }
  return held;
}

// The step, m being what it is added from: roundings are of its size.
double StepSize(const Options& o, double m, double g, double v, int64_t update) {
  const double count = static_cast<double>(update);
  const double root = std::sqrt(v / (1 - std::pow(o.beta2, count))) + o.eps;
  const double parts = o.beta1 * std::abs(m) + (1 - o.beta1) * std::abs(g);
  return o.lr / (1 - std::pow(o.beta1, count)) * parts / root;
}

// States of an element each, in float32 or, `rounded`, off by less than an ulp of bfloat16.
void CheckElements(const Options& o, const Doubles& gradient, int64_t update, bool rounded,
                   const Held& before, const Held& after) {
  const Doubles &m = before.states.at(".m"), &v = before.states.at(".v");
  const double ulp = rounded ? 0x1p-7 : 0;
  for (size_t e = 0; e < gradient.size(); ++e) {
    reference::AdamWElement<double> want{before.p[e], m[e], v[e]};
    reference::AdamWUpdate(o, gradient[e], update, &want);
    const double step = StepSize(o, m[e], gradient[e], want.v, update);
    ASSERT_NEAR(after.p[e], want.p, (2 * std::abs(want.p) + 16 * step) * kUnit) << e;
    const double parts = std::abs(m[e]) + std::abs(gradient[e]);
    ASSERT_NEAR(after.states.at(".m")[e], want.m, ulp * std::abs(want.m) + 8 * kUnit * parts);
    ASSERT_NEAR(after.states.at(".v")[e], want.v, (ulp + 8 * kUnit) * want.v);
  }
}

std::vector<uint8_t> Codes(const Doubles& values) { return {values.begin(), values.end()}; }

reference::AdamW8bitState<double> Blocks(const Held& held) {
  return {held.p,
          {Codes(held.states.at(".m")), held.states.at(".m_absmax")},
          {Codes(held.states.at(".v")), held.states.at(".v_absmax")}};
}

class OptimizerTest : public testing::TestWithParam<std::tuple<const char*, int64_t>> {};

TEST_P(OptimizerTest, EveryStepIsThatOfTheFormula) {
  const auto [optimizer, lora_rank] = GetParam();
  PlanOptions options;
  options.init = "random";
  options.optimizer = optimizer;
  options.lora_rank = lora_rank;
  options.lora_plus_ratio = 16;
  options.weight_decay = 0.1;
  options.sequence_len = 40;
  std::string doing;
  const auto made = MakeState(MakePlan(BlockyConfig(), options), 0, "", &doing);
  ASSERT_TRUE(made.ok()) << made.status();
  State& state = **made;
  const plan::Plan& plan = state.plan;
  for (int64_t update = 1; update <= 20; ++update) {
    std::map<size_t, Held> before;
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      if (plan.parameters[i].trainable()) before[i] = Read(state, i);
    }
    const TrainStep step =
        MakeStep(update - 1, RandomBins({{17, 9}, {31, 3}}, 131, static_cast<uint64_t>(update)));
    const auto stats = RunTrainStep(state, step);
    ASSERT_TRUE(stats.ok()) << stats.status();
    Scalars scalars;
    kernels::CopyMemory(&scalars, state.buffers.scalars, sizeof(scalars), nullptr);
    for (const auto& [i, held] : before) {
      const plan::ParameterGroup& group =
          plan.groups[static_cast<size_t>(plan.parameters[i].group)];
      const Options o{step.learning_rate * group.lr_scale, plan.beta1, plan.beta2, plan.eps,
                      group.weight_decay};
      Doubles gradient;
      for (const float g : GradientOf(state, i)) {
        gradient.push_back(g * scalars.optimizer.clip_factor);
      }
      const Held after = Read(state, i);
      if (state.layout.map.places[i].in_blocks) {
        kernels::ExpectUpdate(o, gradient, update, /*rounding=*/0, Blocks(held), Blocks(after));
      } else {
        CheckElements(o, gradient, update, std::string(optimizer) == "adamw_bf16", held, after);
      }
      ASSERT_FALSE(HasFatalFailure()) << plan.parameters[i].name << ", update " << update;
    }
  }
}

// A row of the table cannot be without a scale, and its scale is what its launch does first: to
// elements of a bias that were zero, where decay does nothing, lr times it.
static_assert(!std::is_default_constructible_v<plan::UpdateScale>);
TEST(OptimizerScaleTest, TheRowsScaleIsThatOfAnUpdate) {
  for (const plan::Optimizer& optimizer : plan::Optimizers()) {
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    options.optimizer = ToString(optimizer.kind);
    std::string doing;
    auto state = MakeState(MakePlan(SmallConfig(), options), 0, "", &doing);
    ASSERT_TRUE(state.ok()) << state.status();
    const plan::Plan& plan = (*state)->plan;
    const auto stats =
        RunTrainStep(**state, MakeStep(0, RandomBins({{17, 9}, {31, 3}}, 131, 1), 1e-3));
    ASSERT_TRUE(stats.ok()) << stats.status();
    const double clip = (*state)->received[0].optimizer.clip_factor;
    int64_t compared = 0;
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      if (plan.parameters[i].name.find("v_proj.bias") == std::string::npos) continue;
      const std::vector<float> values = TrainedValues(**state, i);
      const std::vector<float> gradient = GradientOf(**state, i);
      for (size_t e = 0; e < values.size(); ++e, ++compared) {
        const double want = 1e-3 * optimizer.scale(clip * std::abs(gradient[e]), plan);
        EXPECT_NEAR(std::abs(values[e]), want, 1e-2 * want) << options.optimizer << " " << e;
      }
    }
    EXPECT_GT(compared, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(FullAndAdapters, OptimizerTest,
                         testing::Combine(testing::Values("adamw", "adamw_bf16", "adamw_8bit"),
                                          testing::Values(int64_t{0}, int64_t{64})),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == 0 ? "Full" : "Lora");
                         });

}  // namespace
}  // namespace optimizer_test
}  // namespace coxswain::engine
