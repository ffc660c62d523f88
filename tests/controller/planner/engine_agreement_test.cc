// The engine accepts what the planner writes, and uses exactly the planned bytes.
#include "common/plan/checks/plan_bytes.h"
#include "controller/planner/planner.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"
#include "worker/engine/engine.h"

namespace coxswain::planner {
namespace {

struct Case {
  const char* name;
  void (*change)(config::JobSpec& job, model::ModelConfig& model);
};

class EngineAgreementTest : public testing::TestWithParam<Case> {};

// Invariant planner-6.
TEST_P(EngineAgreementTest, PreparesThePlanAndAllocatesItsBytes) {
  const data::PreparedData data = SmallData(40);
  config::JobSpec job = SmallJob();
  model::ModelConfig model = SmallModel();
  GetParam().change(job, model);
  const auto recipe = Recipe::Make(job, model, data);
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const auto planned = MakePlan("small-1", job, model, *recipe, {});
  ASSERT_TRUE(planned.ok()) << planned.status();
  const auto plan = plan::ParsePlan(planned->bytes);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (int rank = 0; rank < plan->world_size(); ++rank) {
    const auto engine = engine::Engine::Prepare(*plan, rank, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    const engine::MemoryBytes memory = (*engine)->memory();
    EXPECT_EQ(memory.weights, planned->estimate.weights);
    EXPECT_EQ(memory.gradients, planned->estimate.gradients);
    EXPECT_EQ(memory.optimizer, planned->estimate.optimizer);
    EXPECT_EQ(memory.activations, planned->estimate.activations);
    EXPECT_EQ(memory.workspace, planned->estimate.workspace);
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, EngineAgreementTest,
                         testing::Values(Case{"Lora", [](config::JobSpec&, model::ModelConfig&) {}},
                                         Case{"LoraOfTwoModules",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.lora.target_modules = {"v_proj", "down_proj"};
                                                job.lora.dropout = 0.1;
                                              }},
                                         Case{"LoraOfSomeLayers",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.lora.target_modules = {
                                                    ".*[02]\\..*(v|up)_proj"};
                                                job.lora.dropout = 0.1;
                                              }},
                                         Case{"Reward",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.method = "reward";
                                                job.lora.modules_to_save = {"score"};
                                                model.labels = 1;
                                                model.new_head = true;
                                                model.tie_embeddings = false;
                                              }},
                                         Case{"ClassesInFull",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.method = "classification";
                                                job.classification.num_labels = 5;
                                                job.adapter = config::Adapter::kNone;
                                                model.labels = 5;
                                                model.tie_embeddings = false;
                                              }},
                                         Case{"SavedModules",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.lora.modules_to_save = {"embed_tokens",
                                                                            "lm_head", "norm"};
                                              }},
                                         Case{"CutHead",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.loss_head = config::LossHead::kCut;
                                                job.adapter = config::Adapter::kNone;
                                              }},
                                         Case{"CutHeadOfTheLeastMemory",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.loss_head = config::LossHead::kCut;
                                                job.head_memory_mib = 1;
                                                model.vocab_size = 5000;
                                              }},
                                         Case{"AdaptersOutsideTheBlocks",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.lora.target_modules = {"lm_head",
                                                                           "embed_tokens"};
                                                job.lora.dropout = 0.1;
                                              }},
                                         Case{"AddedTokens",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.lora.modules_to_save = {"embed_tokens"};
                                                model.added_tokens = {
                                                    .count = 3, .known = 127, .base_rows = 128};
                                                model.vocab_size = 130;
                                              }},
                                         Case{"Dora",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.lora.use_dora = true;
                                                job.recompute = RecomputeLevel::kFfn;
                                              }},
                                         Case{"DoraOfTwoModules",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.lora.use_dora = true;
                                                job.lora.r = 1;
                                                job.lora.target_modules = {"v_proj", "down_proj"};
                                                job.recompute = RecomputeLevel::kBlock;
                                                model.qk_norm = model.output_bias = model.mlp_bias =
                                                    true;
                                              }},
                                         Case{"Nf4",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.quantization = "nf4";
                                              }},
                                         Case{"Nf4DoubleMeshZero3",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.quantization = "nf4_double";
                                                job.lora.target_modules = {"v_proj", "down_proj"};
                                                job.workers = 4;
                                                job.replicate = 2;
                                                job.zero = 3;
                                              }},
                                         Case{"Int8DoraZero3",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.quantization = "int8";
                                                job.lora.use_dora = true;
                                                job.recompute = RecomputeLevel::kBlock;
                                                job.workers = 3;
                                                job.zero = 3;
                                                model.intermediate_size = 43;
                                              }},
                                         Case{
                                             "Mxfp4",
                                             [](config::JobSpec& job, model::ModelConfig& model) {
                                               job.quantization = "mxfp4";
                                               job.recompute = RecomputeLevel::kBlock;
                                               model = SmallExperts();
                                             }},
                                         Case{"Mxfp4Zero3",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.quantization = "mxfp4";
                                                job.workers = 3;
                                                job.zero = 3;
                                                model = SmallExperts();
                                              }},
                                         Case{"RoutersAndStacksOfTwoRanks",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.lora.r = 4;
                                                job.lora.gate_up_r = 32;
                                                job.lora.target_modules = {"q_proj", "router"};
                                                job.lora.target_parameters = {
                                                    "mlp.experts.gate_up_proj",
                                                    "mlp.experts.down_proj"};
                                                job.recompute = RecomputeLevel::kBlock;
                                                model = SmallExperts();
                                              }},
                                         Case{"Full",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.adapter = config::Adapter::kNone;
                                              }},
                                         Case{"Fp8Tensorwise",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.adapter = config::Adapter::kNone;
                                                job.fp8.emplace().keeps_activations = true;
                                                job.fp8->keeps_weights = true;
                                                model.intermediate_size = 48;
                                              }},
                                         Case{"Fp8BlockwiseLoraZero3",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.fp8.emplace().recipe =
                                                    config::Fp8Recipe::kBlockwise;
                                                job.workers = 3;
                                                job.zero = 3;
                                                model.intermediate_size = 144;
                                              }},
                                         Case{"Fp8DelayedZero2",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.adapter = config::Adapter::kNone;
                                                job.fp8.emplace().recipe =
                                                    config::Fp8Recipe::kDelayed;
                                                job.workers = 3;
                                                job.zero = 2;
                                                model.intermediate_size = 144;
                                              }},
                                         Case{"Fp8DelayedGathersCodes",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.adapter = config::Adapter::kNone;
                                                job.fp8.emplace().recipe =
                                                    config::Fp8Recipe::kDelayed;
                                                job.fp8->gathers_codes = true;
                                                job.workers = 3;
                                                job.zero = 3;
                                                model.intermediate_size = 144;
                                              }},
                                         Case{"Fp8Experts",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.adapter = config::Adapter::kNone;
                                                job.fp8.emplace().experts = true;
                                                model = SmallExperts();
                                                model.mixture.width = 48;
                                              }},
                                         Case{"Fp8DelayedExpertsLoraZero3",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.fp8.emplace().recipe =
                                                    config::Fp8Recipe::kDelayed;
                                                job.fp8->experts = true;
                                                job.fp8->gathers_codes = true;
                                                job.lora.target_parameters = {
                                                    "mlp.experts.gate_up_proj"};
                                                job.workers = 3;
                                                job.zero = 3;
                                                model = SmallExperts();
                                                model.mixture.width = 48;
                                              }},
                                         Case{"Fp8Attention",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.adapter = config::Adapter::kNone;
                                                job.fp8.emplace().attention = true;
                                                model.head_dim = 16;
                                              }},
                                         Case{"Fp8AttentionOfWideHeads",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.fp8.emplace().attention = true;
                                                job.fp8->exclude = {"self_attn"};
                                                job.sequence_len = 48;
                                                model.intermediate_size = 48;
                                                model.head_dim = 128;
                                                model.layer_windows = {0, 16, 0};
                                              }},
                                         Case{"Fp8RowwiseWithFfnRecompute",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.adapter = config::Adapter::kNone;
                                                job.fp8.emplace().recipe =
                                                    config::Fp8Recipe::kRowwise;
                                                job.recompute = RecomputeLevel::kFfn;
                                              }},
                                         Case{"StatesInBlocksZero3",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.adapter = config::Adapter::kNone;
                                                job.train.optimizer = OptimizerKind::kAdamW8bit;
                                                job.workers = 3;
                                                job.zero = 3;
                                                model.intermediate_size = 300;
                                              }},
                                         Case{"StatesInBfloat16",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.train.optimizer = OptimizerKind::kAdamWBf16;
                                              }},
                                         Case{"FullWithBlockRecompute",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.adapter = config::Adapter::kNone;
                                                job.recompute = RecomputeLevel::kBlock;
                                                job.train.decay_norm_and_bias = false;
                                                job.packing.strategy =
                                                    config::PackingStrategy::kNone;
                                              }},
                                         Case{"NormAndSwigluRecompute",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.adapter = config::Adapter::kNone;
                                                job.recompute = RecomputeLevel::kNormSwiglu;
                                              }},
                                         Case{"FfnRecompute",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.recompute = RecomputeLevel::kFfn;
                                              }},
                                         Case{"ExpertOutRecompute",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.recompute = RecomputeLevel::kExpertOut;
                                                job.lora.target_parameters = {
                                                    "mlp.experts.gate_up_proj",
                                                    "mlp.experts.down_proj"};
                                                model = SmallExperts();
                                              }},
                                         Case{"SegmentsOfTwoBlocks",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.adapter = config::Adapter::kNone;
                                                job.recompute = RecomputeLevel::kBlock;
                                                job.recompute_every = 2;
                                              }},
                                         Case{"EveryBiasAndNorm",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.adapter = config::Adapter::kNone;
                                                model.qk_norm = model.output_bias = model.mlp_bias =
                                                    true;
                                                model.tie_embeddings = false;
                                                model.layer_windows = {0, 16, 0};
                                              }},
                                         Case{"ThreeRanksZero2",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.adapter = config::Adapter::kNone;
                                                job.workers = 3;
                                                job.zero = 2;
                                              }},
                                         Case{"MeshZero3",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.lora.use_dora = true;
                                                job.workers = 4;
                                                job.replicate = 2;
                                                job.zero = 3;
                                              }},
                                         Case{"Replicas",
                                              [](config::JobSpec& job, model::ModelConfig&) {
                                                job.workers = 2;
                                                job.zero = 0;
                                              }},
                                         Case{"OddVocabulary",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.adapter = config::Adapter::kNone;
                                                model.vocab_size = 131;
                                              }},
                                         Case{"LongSequence",
                                              [](config::JobSpec& job, model::ModelConfig& model) {
                                                job.sequence_len = 1000;
                                                model.num_kv_heads = 1;
                                              }}),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

}  // namespace
}  // namespace coxswain::planner
