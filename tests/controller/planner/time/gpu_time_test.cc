#include "controller/planner/time/gpu_time.h"

#include <algorithm>

#include "common/model/flops.h"
#include "common/model/read/read_model_config.h"
#include "common/plan/fp8_linears.h"
#include "controller/planner/model/parameter_groups.h"
#include "controller/planner/time/cut_head.h"
#include "controller/planner/time/product_shares.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"
#include "tests/support/half_billion.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::planner {
namespace {

using support::HalfBillion;

// Qwen3-30B-A3B by its published extents.
constexpr char kQwen3Moe[] =
    R"({"architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 151936, "hidden_size": 2048,
        "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
        "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128})";

constexpr GpuRates kRates = {685e12, 4.28e12};  // of an H200

class GpuTimeTest : public testing::Test {
 protected:
  GpuTimeTest() {
    job_.adapter = config::Adapter::kNone;
    plan_.model = HalfBillion();
    plan_.device = DeviceKind::kCuda;
    plan_.compute_dtype = Precision::kBfloat16;
  }
  GpuTime Time(int64_t span = 1024) {
    EXPECT_TRUE(MakeParameters(job_, &plan_).ok());
    return PredictGpuTime(plan_, span, kRates);
  }

  config::JobSpec job_ = SmallJob();
  plan::Plan plan_;
};

// The parts are measured: 32,768 tokens of products at their best take 137 ms; attention of
// documents of 1,024 tokens 0.196 + 0.514 ms a layer. The whole must be above, and not by much.
TEST_F(GpuTimeTest, HalfABillionParametersOnAnH200) {
  const double seconds = 32768 * Time().token;
  EXPECT_GT(seconds, 0.137 + 24 * 0.7e-3);
  EXPECT_LT(seconds, 0.26);
  EXPECT_NEAR(Time().step, 494e6 * (16 + 8 + 10) / kRates.copy_bytes_per_second, 2e-5);
}

TEST_F(GpuTimeTest, LongerDocumentsAndRecomputationTakeLonger) {
  const double none = Time().token;
  EXPECT_GT(Time(8192).token, none);
  double last = none;
  for (const char* level : {"norm_swiglu", "ffn", "block"}) {
    plan_.recompute = *FromString<RecomputeLevel>(level);
    EXPECT_GT(Time().token, last) << level;
    EXPECT_LT(Time().token, 1.5 * none) << level;
    last = Time().token;
  }
}

// Each x is quantised twice, each gradient of an output once; a scale that is expected saves the
// read that finds it, 2 bytes an element, of what neither norm nor gate has stored: what attention
// puts out and the gradient of q, k and v. Weights are as they were.
TEST_F(GpuTimeTest, DelayedScalesSaveARead) {
  plan_.fp8.recipe = plan::Fp8Recipe::kTensorwise;
  plan_.fp8.keeps_activations = false;
  const GpuTime found = Time();
  plan_.fp8.recipe = plan::Fp8Recipe::kDelayed;
  const GpuTime expected = Time();
  double elements = 0;
  plan::VisitFp8Linears(plan_, [&elements](const auto& linear, int64_t) {
    if (linear.name == "o") elements += static_cast<double>(2 * linear.in_features);
    if (linear.name == "qkv") elements += static_cast<double>(linear.out_features);
  });
  EXPECT_GT(elements, 0);
  EXPECT_NEAR(found.token - expected.token, 2 * elements / kRates.copy_bytes_per_second,
              1e-9 * found.token);
  EXPECT_EQ(found.step, expected.step);
  EXPECT_EQ(found.micro_step, expected.micro_step);
}

// Rows of experts are quantised forward and backward, at 5 bytes an element, and two of their three
// products are faster; weights are read and written as plain ones are, 5 bytes each way.
TEST_F(GpuTimeTest, ExpertsInFp8SaveTheProductsOfRows) {
  const support::ScratchFolder folder;
  folder.Write("config.json", kQwen3Moe);
  plan_.model = *model::ReadModelConfig(folder.path());
  plan_.fp8.recipe = plan::Fp8Recipe::kTensorwise;
  const GpuTime without = Time();
  plan_.fp8.experts = true;
  const GpuTime with = Time();
  double rows = 0, products = 0, weights = 0;
  plan::VisitFp8Experts(plan_, [&](const auto& experts, int64_t) {
    const auto in = static_cast<double>(experts.in_features);
    const auto out = static_cast<double>(experts.out_features);
    rows += 8 * (in + out);
    products += 8 * 2 * in * out * 2;
    weights += 128 * in * out;
  });
  EXPECT_GT(products, 0);
  const double spent = 5 * rows / kRates.copy_bytes_per_second;
  const double saved =
      products / (kGroupedShare * kRates.product_flops_per_second) * (1 - 1 / 1.75);
  EXPECT_NEAR(with.token - without.token, spent - saved, 1e-9 * without.token);
  EXPECT_NEAR(with.forward_micro_step - without.forward_micro_step,
              5 * weights / kRates.copy_bytes_per_second, 1e-9 * without.micro_step);
}

// Forward of attention is another, and nothing else: longer of heads of 64, which run as those of
// 128.
TEST_F(GpuTimeTest, AttentionInFp8HasAForwardOfItsOwn) {
  plan_.fp8.recipe = plan::Fp8Recipe::kTensorwise;
  const double without[] = {Time(1024).forward_token, Time(8192).forward_token};
  const GpuTime all = Time(8192);
  plan_.fp8.attention = true;
  const double with[] = {Time(1024).forward_token, Time(8192).forward_token};
  // 24 layers of 14 heads; seconds a position of an element of a query, 1.09 times that in a step.
  const double positions = 24 * 14 * (8192 - 1024) * 1.09;
  EXPECT_NEAR(without[1] - without[0], positions * 64 * 3.83e-15, 1e-6 * without[1]);
  EXPECT_NEAR(with[1] - with[0], positions * 128 * 2.559e-15, 1e-6 * with[1]);
  EXPECT_NEAR(all.token - Time(8192).token, without[1] - with[1], 1e-12 * all.token);
}

// Of two ranks, bytes an element of a weight: values are read and written, 3 forward and 3
// backward, and read once an update for the amax, 2. Codes are made of half of them, 3 of each
// half, and turned, 2; the amax is found once an update, 2 of a half.
TEST_F(GpuTimeTest, GatheredCodesAreMadeOfAPartAndTurned) {
  plan_.fp8.recipe = plan::Fp8Recipe::kTensorwise;
  plan_.shard = 2;
  plan_.zero = 3;
  const GpuTime values = Time();
  plan_.fp8.gathers_codes = true;
  const GpuTime codes = Time();
  double elements = 0;
  bool trained = true;
  plan::VisitFp8Linears(plan_, [&](const auto& linear, int64_t layer) {
    elements += static_cast<double>(linear.in_features * linear.out_features);
    trained = trained && plan::TrainsWeight(plan_, linear, layer);
  });
  const double byte = elements / kRates.copy_bytes_per_second;
  EXPECT_NEAR(values.forward_micro_step - codes.forward_micro_step, (3 - 1.5) * byte, 1e-9 * byte);
  EXPECT_NEAR(values.micro_step - codes.micro_step, (6 - 1.5 - 3.5) * byte, 1e-9 * byte);
  EXPECT_NEAR(values.step - codes.step, trained ? byte : 0, 1e-9 * byte);
}

// Its logits are computed twice; those of a loss of documents are with either head.
TEST_F(GpuTimeTest, ACutHeadTakesItsLogitsOnceMore) {
  const double before = Time().token;
  plan_.lm_head_panel_bytes = int64_t{136} << 20;
  EXPECT_NEAR(Time().token - before, 2 * 896.0 * 151936 / kRates.product_flops_per_second, 1e-12);
  plan_.document_loss.terms = {{.type = "sigmoid", .weight = 1}};
  const double cut = Time().token;
  plan_.lm_head_panel_bytes = 0;
  EXPECT_EQ(Time().token, cut);
}

// At 16,384 x 4,096 x 128,256 with a float32 gradient: small chunks wait for its traffic.
TEST_F(GpuTimeTest, ACutHeadIsFasterThanSmallChunksOfATrainedHead) {
  EXPECT_TRUE(MakeParameters(job_, &plan_).ok());
  plan_.gradient_dtype = Precision::kFloat32;
  plan_.model.hidden_size = 4096;
  plan_.model.vocab_size = 128256;
  plan_.micro_batch_bins = 16;
  plan_.sequence_len = 1024;
  const auto chunked = [&](int64_t rows) {
    plan_.lm_head_chunk_tokens = rows;
    plan_.lm_head_panel_bytes = 0;
    return HeadSeconds(plan_);
  };
  const double large = chunked(16384), small = chunked(192);
  plan_.lm_head_chunk_tokens = 4096;
  plan_.lm_head_panel_bytes = int64_t{136} << 20;
  const double cut = HeadSeconds(plan_);
  EXPECT_GT(cut, 4.0 / 3 * 0.95 * large);
  EXPECT_LT(cut, small);
}

// Measured: documents of 2,048 tokens take 0.101 + 0.443 ms a layer more than of 1,024, alone; 9 %
// more in a step.
TEST_F(GpuTimeTest, HeadsOf256TakeTheTimeOfTheirKernels) {
  plan_.model.num_heads = 8;
  plan_.model.num_kv_heads = 4;
  plan_.model.head_dim = 256;
  const double seconds = 16384 * (Time(2048).token - Time(1024).token);
  EXPECT_NEAR(seconds, 1.09 * 24 * 0.544e-3, 24 * 0.004e-3);
}

// q and k, 14 and 2 heads of 64, are read and written once less by each, in each of 24 layers.
TEST_F(GpuTimeTest, RotationsOfProductAndAttentionTakeNoPass) {
  const double pass = 24 * 2 * (14 + 2) * 64 * 2 / kRates.copy_bytes_per_second;
  const GpuTime plain = Time();
  plan_.fusions = {"linear_rotate"};
  EXPECT_NEAR(plain.forward_token - Time().forward_token, pass, 1e-6 * pass);
  EXPECT_NEAR(plain.token - Time().token, pass, 1e-6 * pass);
  plan_.fusions = {"linear_rotate", "attention_rotate"};
  EXPECT_NEAR(plain.forward_token - Time().forward_token, pass, 1e-6 * pass);
  EXPECT_NEAR(plain.token - Time().token, 2 * pass, 1e-6 * pass);
}

// Per block and pass of the stream: the norms read and write it (4), the sums copy it, read two and
// write one (10). A norm that adds has 4 where the two have 7; a product that adds reads one.
TEST_F(GpuTimeTest, ResidualsTakeWhatTheirFusionsLeave) {
  const double stream = 24 * 896 * 2 / kRates.copy_bytes_per_second;
  const GpuTime plain = Time();
  plan_.fusions = {"linear_add"};
  EXPECT_NEAR(plain.forward_token - Time().forward_token, 8 * stream, 1e-6 * stream);
  plan_.fusions = {"add_norm"};
  // The last sum goes into the final norm.
  EXPECT_NEAR(plain.forward_token - Time().forward_token, (6 + 1.0 / 24 * 2) * stream,
              1e-6 * stream);
}

// Forward writes y alone, where a pass reads gate and up too; backward reads and writes gate and up
// and leaves out the gradient of y. Six tenths of what is left are not hidden.
TEST_F(GpuTimeTest, GatedFusionsTakeAPartOfTheirPasses) {
  const GpuTime plain = Time();
  const double width = 24 * 4864 * 2 / kRates.copy_bytes_per_second;
  plan_.fusions = {"gated_linear"};
  EXPECT_NEAR(plain.forward_token - Time().forward_token, (3 - 0.6) * width, 1e-6 * width);
  EXPECT_NEAR(plain.token - Time().token, (3 - 0.6) * width, 1e-6 * width);
  plan_.fusions = {"gate_down"};
  EXPECT_DOUBLE_EQ(Time().forward_token, plain.forward_token);
  EXPECT_NEAR(plain.token - Time().token, (5 - 3 * 0.6) * width, 1e-6 * width);
}

// 494 million elements, a thousandth of them in vectors, in 2 bytes; their gradients in 4.
TEST_F(GpuTimeTest, EveryMicroStepReadsTheWeights) {
  const double pass = 0.7 * 494e6 * 2 / kRates.copy_bytes_per_second;
  const GpuTime full = Time();
  EXPECT_NEAR(full.forward_micro_step, pass, 0.001 * pass);
  const double gradients = 0.35 * 494e6 * 2 * 4 / kRates.copy_bytes_per_second;
  EXPECT_NEAR(full.micro_step, 2 * pass + gradients, 0.002 * pass);
  job_.adapter = config::Adapter::kLora;
  EXPECT_NEAR(Time().micro_step, 2 * pass, 0.002 * pass);
  plan_.recompute = RecomputeLevel::kBlock;  // all but the head, which is the embedding
  const double head = 0.7 * 896 * 151936 * 2 / kRates.copy_bytes_per_second;
  EXPECT_NEAR(Time().micro_step, 3 * pass - head, 0.003 * pass);
}

// Each expert, whatever the tokens of a micro-step, of which each has 8.
TEST_F(GpuTimeTest, EveryMicroStepReadsAllExperts) {
  const support::ScratchFolder folder;
  folder.Write("config.json", kQwen3Moe);
  plan_.model = *model::ReadModelConfig(folder.path());
  const double experts = 48.0 * 128 * 3 * 768 * 2048;
  EXPECT_GT(Time().forward_micro_step, 0.7 * experts * 2 / kRates.copy_bytes_per_second);
}

// With a memory that takes no time a frozen base saves the gradients of its weights; an adapter of
// rank 1 adds 3 thousandths of them.
TEST_F(GpuTimeTest, GradientsOfWeightsAreSlowerProducts) {
  const GpuRates products{685e12, 1e30};
  ASSERT_TRUE(MakeParameters(job_, &plan_).ok());
  const double full = PredictGpuTime(plan_, 1024, products).token;
  job_.adapter = config::Adapter::kLora;
  job_.lora.r = 1;
  EXPECT_TRUE(MakeParameters(job_, &plan_).ok());
  const double gradients = 2 * 494e6 / (kWeightGradientShare * 685e12);
  EXPECT_NEAR(full - PredictGpuTime(plan_, 1024, products).token, gradients, 0.01 * gradients);
}

TEST_F(GpuTimeTest, Float32IsManyTimesSlower) {
  const double bfloat16 = Time().token;
  plan_.compute_dtype = Precision::kFloat32;
  EXPECT_GT(Time().token, 5 * bfloat16);
}

TEST_F(GpuTimeTest, AdaptersSaveAThirdOfTheProductsAndTheUpdate) {
  const GpuTime full = Time();
  job_.adapter = config::Adapter::kLora;
  const GpuTime lora = Time();
  EXPECT_LT(lora.token, full.token);
  EXPECT_LT(lora.step, full.step / 10);
  plan_.lora = {};
  job_.adapter = config::Adapter::kNone;
  plan_.master_dtype = plan_.gradient_dtype = Precision::kBfloat16;
  EXPECT_LT(Time().step, full.step);
}

// m and v read and written in 4, 2 and 1 1/64 bytes; vectors, a thousandth, keep float32.
TEST_F(GpuTimeTest, AnUpdateTakesTheTimeOfItsStates) {
  const double full = Time().step;
  plan_.optimizer = OptimizerKind::kAdamWBf16;
  EXPECT_NEAR(full - Time().step, 494e6 * 8 / kRates.copy_bytes_per_second, 2e-5);
  plan_.optimizer = OptimizerKind::kAdamW8bit;
  EXPECT_NEAR(full - Time().step, 494e6 * (16 - 4 * (1 + 4.0 / 256)) / kRates.copy_bytes_per_second,
              2e-5);
}

// Of adapters of experts: from level to level the products of down, then those of gate and up.
TEST_F(GpuTimeTest, LevelsOfExpertsTakeTheTimeOfTheirProducts) {
  const support::ScratchFolder folder;
  folder.Write("config.json", kQwen3Moe);
  plan_.model = *model::ReadModelConfig(folder.path());
  job_.adapter = config::Adapter::kLora;
  job_.lora.r = 16;
  job_.lora.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  std::vector<double> seconds;
  for (const char* level : {"none", "norm_swiglu", "expert_out", "ffn", "block"}) {
    plan_.recompute = *FromString<RecomputeLevel>(level);
    seconds.push_back(Time(200).token);
  }
  EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end()));
  // Two norms, the rows of 8 experts with their token, and the gated product.
  const double touched = 48.0 * (2 * 2 * 2048 + 9 * 2048 + 3 * 8 * 768);
  EXPECT_NEAR(seconds[1] - seconds[0], touched * 2 / kRates.copy_bytes_per_second, 1e-12);
  const double pairs = 48 * 8;
  const auto adapters = [&](double widths) {
    return pairs * widths *
           (2 * 16 / kRates.product_flops_per_second + 1.0 * 2 / kRates.copy_bytes_per_second);
  };
  const double down = 2 * pairs * 768 * 2048 / (kGroupedShare * kRates.product_flops_per_second);
  EXPECT_NEAR(seconds[2] - seconds[1], down + adapters(768 + 2048), 1e-6 * down);
  EXPECT_NEAR(seconds[3] - seconds[2], 2 * down + adapters(2048 + 2 * 768), 1e-6 * down);
}

// Measured: 473 ms of 16,384 tokens with adapters on attention, 703 with those of experts, which
// need recomputation of products. Source: bench/results/h200_experts.json, documents of about 200
// tokens.
TEST_F(GpuTimeTest, MixturesTakeTheTimeOfTheExpertsOfAToken) {
  const support::ScratchFolder folder;
  folder.Write("config.json", kQwen3Moe);
  plan_.model = *model::ReadModelConfig(folder.path());
  job_.adapter = config::Adapter::kLora;
  job_.lora.r = 16;
  plan_.recompute = RecomputeLevel::kNormSwiglu;
  const GpuTime attention = Time(200);
  EXPECT_NEAR(16384 * attention.token + attention.micro_step + attention.step, 0.473, 0.0473);
  job_.lora.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  plan_.recompute = RecomputeLevel::kFfn;
  const GpuTime experts = Time(200);
  EXPECT_NEAR(16384 * experts.token + experts.micro_step + experts.step, 0.703, 0.0703);
}

// Of 8 experts, gate and up of 768 columns are not read again in each of 48 layers.
TEST_F(GpuTimeTest, TheGateOfExpertsTakesNoPass) {
  const support::ScratchFolder folder;
  folder.Write("config.json", kQwen3Moe);
  plan_.model = *model::ReadModelConfig(folder.path());
  const GpuTime plain = Time();
  plan_.fusions = {"grouped_gated_linear"};
  const double read = 48 * 2 * 8 * 768 * 2 / kRates.copy_bytes_per_second;
  EXPECT_NEAR(plain.forward_token - Time().forward_token, read, 1e-6 * read);
  EXPECT_NEAR(plain.token - Time().token, read, 1e-6 * read);
}

TEST_F(GpuTimeTest, ForwardIsAPart) {
  const GpuTime time = Time();
  EXPECT_GT(time.forward_token, 0.2 * time.token);
  EXPECT_LT(time.forward_token, 0.5 * time.token);
}

}  // namespace
}  // namespace coxswain::planner
