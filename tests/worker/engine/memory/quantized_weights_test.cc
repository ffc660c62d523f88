// Weights that are kept quantised: what sweeps read is what the kernels make of the whole matrix,
// wherever pieces, ranks and slots cut it.
#include "worker/engine/memory/quantized_weights.h"

#include <gtest/gtest.h>

#include "kernels/quantize/int8_rows.h"
#include "kernels/quantize/mxfp4.h"
#include "kernels/quantize/nf4.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/memory/random_init.h"

namespace coxswain::engine {
namespace quantized_weights_test {
namespace {

// Experts alone, of several pieces.
plan::Plan ExpertsPlan() {
  model::ModelConfig config = SmallConfig();
  config.architecture = "GptOssForCausalLM";
  config.tie_embeddings = false;
  config.hidden_size = 160;
  config.head_dim = 16;
  config.mixture = {
      .experts = 30, .chosen = 2, .width = 224, .renormalise = true, .router_bias = true};
  PlanOptions options;
  options.init = "random";
  options.lora_rank = 2;
  options.quantization = "mxfp4";
  return MakePlan(config, options);
}

// Extents of which no matrix is whole blocks; MXFP4 has no others.
plan::Plan OddPlan(const std::string& format, const std::string& init = "random") {
  if (format == "mxfp4") return ExpertsPlan();
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 45;
  config.num_heads = 3;
  config.num_kv_heads = 1;
  config.head_dim = 14;
  config.intermediate_size = 71;
  PlanOptions options;
  options.init = init;
  options.lora_rank = 2;
  options.quantization = format;
  return MakePlan(config, options);
}

std::unique_ptr<State> Made(const plan::Plan& plan) {
  std::string doing;
  absl::StatusOr<std::unique_ptr<State>> state = MakeState(plan, 0, "", &doing);
  EXPECT_TRUE(state.ok()) << doing << ": " << state.status();
  return state.ok() ? *std::move(state) : nullptr;
}

// Device memory of a test.
template <typename T>
class Array {
 public:
  explicit Array(int64_t count)
      : data_(kernels::AllocateMemory(count * static_cast<int64_t>(sizeof(T)) + 16)) {}
  ~Array() { kernels::FreeMemory(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* data() const { return static_cast<T*>(data_); }

 private:
  void* const data_;
};

// The matrix filled, quantised and dequantised at once.
std::vector<float> Whole(const plan::Plan& plan, const model::Parameter& parameter) {
  const int64_t n = parameter.elements();
  const Array<float> values(n), absmax(n), constants(n), out(n);
  const Array<uint8_t> codes(n), absmax_codes(n);
  kernels::RandomFillArgs fill = RandomInit(plan.init_seed, parameter, plan.model);
  fill.dtype = kernels::DType::kFloat32;
  fill.count = n;
  fill.out = values.data();
  kernels::RandomFill(fill, nullptr);
  if (plan.quantization == Quantization::kInt8) {
    auto* const bytes = reinterpret_cast<int8_t*>(codes.data());
    kernels::Int8QuantizeRows({parameter.rows, parameter.cols, values.data(), bytes, absmax.data()},
                              nullptr);
    kernels::Int8DequantizeRows({kernels::DType::kFloat32, parameter.rows, parameter.cols, bytes,
                                 absmax.data(), out.data()},
                                nullptr);
  } else if (plan.quantization == Quantization::kMxfp4) {
    kernels::Mxfp4Quantize({n, values.data(), codes.data(), absmax_codes.data()}, nullptr);
    kernels::Mxfp4Dequantize(
        {kernels::DType::kFloat32, n, codes.data(), absmax_codes.data(), out.data()}, nullptr);
  } else {
    kernels::Nf4Quantize({n, values.data(), codes.data(), absmax.data()}, nullptr);
    kernels::Nf4DequantizeArgs args{.elements = n, .codes = codes.data(), .out = out.data()};
    args.absmax = absmax.data();
    if (plan.quantization == Quantization::kNf4Double) {
      kernels::Nf4QuantizeScales(
          {kernels::Nf4Blocks(n), absmax.data(), absmax_codes.data(), constants.data()}, nullptr);
      args.absmax = nullptr;
      args.absmax_codes = absmax_codes.data();
      args.constants = constants.data();
    }
    kernels::Nf4Dequantize(args, nullptr);
  }
  kernels::Synchronize(nullptr);
  return ReadFloats(out.data(), kernels::DType::kFloat32, n);
}

class QuantizedWeightsTest : public testing::TestWithParam<const char*> {};

TEST_P(QuantizedWeightsTest, SlotsHoldWhatTheKernelsMakeOfTheWholeMatrix) {
  const plan::Plan plan = OddPlan(GetParam());
  const std::unique_ptr<State> state = Made(plan);
  ASSERT_NE(state, nullptr);
  const ParameterStore store(plan, state->layout, state->buffers);
  int matrices = 0;
  for (int32_t layer = 0; layer < plan.model.num_layers; ++layer) {
    store.DequantizeBlock(layer);
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      if (plan.parameters[i].layer != layer || !store.IsQuantized(i)) continue;
      const Values values = store.Compute(i);
      EXPECT_EQ(ReadFloats(values.data, values.dtype, values.elements),
                Whole(plan, plan.parameters[i]))
          << plan.parameters[i].name;
      ++matrices;
    }
  }
  const bool experts = plan.quantization == Quantization::kMxfp4;
  EXPECT_EQ(matrices, (experts ? 2 : 7) * plan.model.num_layers);
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedWeightsTest,
                         testing::Values("nf4", "nf4_double", "int8", "mxfp4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace quantized_weights_test
}  // namespace coxswain::engine
