// A job of which one tensor of one layer does not train fails and names it, whatever trains, by
// every ZeRO stage, on every rank alike. Invariant engine-7.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/step/step.h"
#include "worker/engine/verify/verified_tensors.h"

namespace coxswain::engine {
namespace untrained_layers_test {
namespace {

constexpr const char* kTraining[] = {"full", "lora", "dora", "qlora", "modules_to_save"};
constexpr const char* kFaults[] = {"freeze", "zero gradient", "detach"};
constexpr int32_t kLayers[] = {0, 1, 2};
constexpr int32_t kStages[] = {0, 1, 2, 3};
constexpr int kRanks = 2;

plan::Plan MakeCase(const std::string& training, int32_t zero) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.head_chunk = 24;
  options.zero = zero;
  (zero == 0 ? options.replicate : options.shard) = kRanks;
  if (training != "full") options.lora_rank = 4;
  options.dora = training == "dora";
  if (training == "qlora") options.quantization = "nf4";
  if (training == "modules_to_save") options.modules_to_save = {"input_layernorm"};
  return MakePlan(SmallConfig(), options);
}

TrainStep StepOf(const plan::Plan& plan, int rank, int64_t step) {
  const BinBatch bins = RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {13, 13, 13}, {20}, {7, 30}},
                                   plan.model.vocab_size, 100 + static_cast<uint64_t>(step));
  TrainStep train = MakeStep(step, bins);
  train.bins = PartOf(plan, bins, rank);
  return train;
}

// The records of the optimizer and of the norm are changed: what they say of `parameter`.
class Records {
 public:
  explicit Records(State& state)
      : state_(state),
        updates_(static_cast<size_t>(state.layout.pieces)),
        norms_(state.verified_tensors.size()) {
    kernels::CopyMemory(updates_.data(), state.buffers.adamw_tensors, UpdateBytes(), nullptr);
    kernels::CopyMemory(norms_.data(), state.buffers.norm_tensors, NormBytes(), nullptr);
  }

  // The optimizer leaves it as it is.
  void Freeze(size_t parameter) {
    for (kernels::AdamWTensor& update : updates_) {
      if (update.index == parameter) update.lr_scale = 0;
    }
    Write();
  }

  // Backward leaves zeros in its gradient.
  void ZeroGradient(size_t parameter) {
    zeros_.assign(static_cast<size_t>(state_.plan.parameters[parameter].elements()), 0.0f);
    for (kernels::AdamWTensor& update : updates_) {
      if (update.index == parameter) update.g = zeros_.data();
    }
    for (size_t t = 0; t < norms_.size(); ++t) {
      if (state_.verified_tensors[t].parameter == parameter) norms_[t].data = zeros_.data();
    }
    Write();
  }

 private:
  int64_t UpdateBytes() const {
    return static_cast<int64_t>(updates_.size() * sizeof(updates_[0]));
  }
  int64_t NormBytes() const { return static_cast<int64_t>(norms_.size() * sizeof(norms_[0])); }
  void Write() const {
    kernels::CopyMemory(state_.buffers.adamw_tensors, updates_.data(), UpdateBytes(), nullptr);
    kernels::CopyMemory(state_.buffers.norm_tensors, norms_.data(), NormBytes(), nullptr);
  }

  State& state_;
  std::vector<kernels::AdamWTensor> updates_;
  std::vector<kernels::NormTensor> norms_;
  std::vector<float> zeros_;
};

// Nothing of the loss comes back to this layer and those below it.
void Detach(State& state, int32_t layer) { state.ops.lowest = layer + 1; }

// Status of the first step that fails, or of the last, by rank. `step` counts them on rank 0.
struct Outcome {
  std::array<absl::Status, kRanks> statuses;
  int64_t steps = 0;
  bool finished = false;
};

struct Fault {
  std::string kind;  // empty: none
  int32_t layer = 0;
  size_t parameter = 0;
};

Outcome Train(const plan::Plan& plan, const Fault& fault) {
  Outcome outcome;
  WithStates(plan, [&](State& state) {
    Records records(state);
    if (fault.kind == "freeze") records.Freeze(fault.parameter);
    if (fault.kind == "zero gradient") records.ZeroGradient(fault.parameter);
    if (fault.kind == "detach") Detach(state, fault.layer);
    absl::Status status;
    int64_t step = 0;
    for (; step < 4 && status.ok(); ++step) {
      // What no product writes any more is zero, not of the step before.
      kernels::SetMemory(state.buffers.gradients, 0, state.layout.map.gradients, state.stream);
      status = RunTrainStep(state, StepOf(plan, state.rank, step)).status();
    }
    outcome.statuses[static_cast<size_t>(state.rank)] = status;
    if (state.rank != 0) return;
    outcome.steps = step;
    outcome.finished = state.verification->finished();
  });
  return outcome;
}

// The tensors of a layer that a fault of one is tried on, in turn. Under modules_to_save those that
// are trained in full.
std::vector<size_t> TensorsOf(const plan::Plan& plan, const std::string& training, int32_t layer,
                              const std::string& fault) {
  std::vector<size_t> tensors;
  for (const VerifiedTensor& tensor : MakeVerifiedTensors(plan)) {
    const model::Parameter& parameter = plan.parameters[tensor.parameter];
    if (parameter.layer != layer) continue;
    if (training == "modules_to_save" && model::IsAdapter(parameter)) continue;
    if (fault == "zero gradient" && !tensor.needs_gradient) continue;  // by rule
    tensors.push_back(tensor.parameter);
  }
  return tensors;
}

void ExpectNamed(const plan::Plan& plan, const Fault& fault, const Outcome& outcome) {
  const std::string message(outcome.statuses[0].message());
  EXPECT_EQ(outcome.statuses[0].code(), absl::StatusCode::kFailedPrecondition) << message;
  EXPECT_EQ(outcome.statuses[1], outcome.statuses[0]);
  EXPECT_EQ(outcome.steps, 2) << message;
  const bool detached = fault.kind == "detach";
  const std::string name = detached ? "model.layers.0." : plan.parameters[fault.parameter].name;
  EXPECT_NE(message.find(name), std::string::npos) << message;
  if (!detached) {
    EXPECT_NE(message.find("self-verification: 1 tensor "), std::string::npos) << message;
  }
  for (int32_t above = fault.layer + 1; above < 3; ++above) {
    EXPECT_EQ(message.find(absl::StrCat("layers.", above, ".")), std::string::npos) << message;
  }
}

TEST(UntrainedLayersTest, EveryFaultFailsTheJobByName) {
  size_t cases = 0;
  for (const char* training : kTraining) {
    for (const int32_t zero : kStages) {
      const plan::Plan plan = MakeCase(training, zero);
      for (const char* kind : kFaults) {
        for (const int32_t layer : kLayers) {
          const std::vector<size_t> tensors = TensorsOf(plan, training, layer, kind);
          ASSERT_FALSE(tensors.empty());
          const Fault fault{kind, layer, tensors[cases * 5 % tensors.size()]};
          SCOPED_TRACE(absl::StrCat(training, ", ZeRO ", zero, ", ", kind, ", layer ", layer, ", ",
                                    plan.parameters[fault.parameter].name));
          ExpectNamed(plan, fault, Train(plan, fault));
          ++cases;
        }
      }
    }
  }
  EXPECT_EQ(cases,
            std::size(kTraining) * std::size(kStages) * std::size(kFaults) * std::size(kLayers));
  std::printf("%zu cases of a layer that does not train, each failed by name\n", cases);
}

// Each tensor of the middle layer by itself, by one stage.
TEST(UntrainedLayersTest, EveryTensorOfALayerIsSeen) {
  size_t cases = 0;
  for (const char* training : kTraining) {
    const plan::Plan plan = MakeCase(training, 2);
    for (const char* kind : {"freeze", "zero gradient"}) {
      for (const size_t parameter : TensorsOf(plan, training, 1, kind)) {
        SCOPED_TRACE(absl::StrCat(training, ", ", kind, ", ", plan.parameters[parameter].name));
        const Fault fault{kind, 1, parameter};
        ExpectNamed(plan, fault, Train(plan, fault));
        ++cases;
      }
    }
  }
  std::printf("%zu tensors that do not train, each failed by name\n", cases);
}

TEST(UntrainedLayersTest, AHealthyJobPasses) {
  for (const char* training : kTraining) {
    for (const int32_t zero : kStages) {
      const Outcome outcome = Train(MakeCase(training, zero), {});
      for (const absl::Status& status : outcome.statuses) {
        EXPECT_TRUE(status.ok()) << training << ", ZeRO " << zero << ": " << status;
      }
      EXPECT_TRUE(outcome.finished) << training << ", ZeRO " << zero;
    }
  }
}

}  // namespace
}  // namespace untrained_layers_test
}  // namespace coxswain::engine
