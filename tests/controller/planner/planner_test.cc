#include "controller/planner/planner.h"

#include <algorithm>
#include <cmath>

#include "common/files/hash.h"
#include "common/model/flops.h"
#include "common/plan/checks/plan_bytes.h"
#include "common/plan/extents.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/plan_scalars.h"
#include "controller/planner/time/gpu_time.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

class PlannerTest : public testing::Test {
 protected:
  absl::StatusOr<PlannedJob> Plan(const WorkerResources& resources = {}) {
    auto recipe = Recipe::Make(job_, model_, data_);
    EXPECT_TRUE(recipe.ok()) << recipe.status();
    return MakePlan("small-1", job_, model_, *recipe, resources);
  }

  PlannedJob MustPlan(const WorkerResources& resources = {}) {
    auto planned = Plan(resources);
    EXPECT_TRUE(planned.ok()) << planned.status();
    return std::move(*planned);
  }

  data::PreparedData data_ = SmallData(101, 20);
  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
};

int64_t Elements(const plan::Plan& plan, int32_t group) {
  int64_t sum = 0;
  for (const model::Parameter& p : plan.parameters) sum += p.group == group ? p.elements() : 0;
  return sum;
}

TEST_F(PlannerTest, BinsOfPairsHaveRoomForTwoDocuments) {
  job_.method = "dpo";
  job_.preference.loss = {"sigmoid"};
  job_.preference.loss_weights = {1};
  plan::Plan plan;
  SetScalars("small-1", job_, "", &plan);
  EXPECT_EQ(plan.sequence_len, 128);
  job_.packing.strategy = config::PackingStrategy::kNone;
  SetScalars("small-1", job_, "", &plan);
  EXPECT_EQ(plan.max_documents_per_bin, 2);
}

// The head is computed twice, and the base beside the policy: memory and time are foreseen.
TEST_F(PlannerTest, ALossOfPairsIsPlanned) {
  job_.adapter = config::Adapter::kLora;
  job_.lora.r = 4;
  job_.lora.alpha = 8;
  job_.lora.target_modules = {"q_proj"};
  const plan::Plan plain = Plan()->plan;
  EXPECT_FALSE(plain.document_loss.any());
  job_.method = "dpo";
  job_.preference = {.loss = {"sigmoid"}, .loss_weights = {1}, .beta = 0.1, .reference = "start"};
  const absl::StatusOr<PlannedJob> pairs = Plan();
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_EQ(pairs->plan.document_loss.reference, "base");
  const auto has = [](const plan::Plan& plan, const char* name) {
    return std::any_of(plan.buffers.begin(), plan.buffers.end(),
                       [&](const plan::Buffer& buffer) { return buffer.name == name; });
  };
  EXPECT_TRUE(has(pairs->plan, "documents.references"));
  EXPECT_FALSE(has(plain, "documents.rows"));
}

TEST_F(PlannerTest, CarriesTheJobToTheWorker) {
  job_.init_seed = 9;
  job_.train.seed = 8;
  job_.train.beta1 = 0.8;
  job_.train.beta2 = 0.95;
  job_.train.eps = 1e-6;
  job_.train.max_grad_norm = 0.5;
  job_.train.label_smoothing = 0.1;
  job_.train.z_loss = 1e-4;
  job_.packing.max_documents_per_bin = 5;
  job_.lora.dropout = 0.25;
  const PlannedJob planned = MustPlan();
  const plan::Plan& plan = planned.plan;
  EXPECT_EQ(plan.job, "small-1");
  EXPECT_EQ(plan.recipe_hash, Recipe::Make(job_, model_, data_)->hash());
  EXPECT_EQ(plan.model_path, "/models/small");
  EXPECT_EQ(plan.init, BaseInit::kRandom);
  EXPECT_EQ(plan.init_seed, 9u);
  EXPECT_EQ(plan.seed, 8u);
  EXPECT_EQ(plan.model, model_);
  EXPECT_EQ(plan.replicate, 1);
  EXPECT_EQ(plan.shard, 2);
  EXPECT_EQ(plan.zero, 1);
  EXPECT_EQ(plan.sequence_len, 64);
  EXPECT_EQ(plan.max_documents_per_bin, 5);
  EXPECT_EQ(plan.lora.dropout, 0.25);
  EXPECT_EQ(plan.beta1, 0.8);
  EXPECT_EQ(plan.beta2, 0.95);
  EXPECT_EQ(plan.eps, 1e-6);
  EXPECT_EQ(plan.max_grad_norm, 0.5);
  EXPECT_EQ(plan.label_smoothing, 0.1);
  EXPECT_EQ(plan.z_loss, 1e-4);
  EXPECT_EQ(plan.compute_dtype, Precision::kFloat32);
}

TEST_F(PlannerTest, BytesAreThePlanAndHashIsTheirs) {
  const PlannedJob planned = MustPlan();
  const auto parsed = plan::ParsePlan(planned.bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, planned.plan);
  EXPECT_EQ(planned.hash, Sha256(planned.bytes));
  EXPECT_EQ(MustPlan().bytes, planned.bytes);
}

// Invariant planner-5: membership by table role.
TEST_F(PlannerTest, LoraPlusGroupsHoldExactlyAAndB) {
  const plan::Plan plan = MustPlan().plan;
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].name, "lora_a");
  EXPECT_EQ(plan.groups[0].lr_scale, 1.0);
  EXPECT_EQ(plan.groups[1].name, "lora_b");
  EXPECT_EQ(plan.groups[1].lr_scale, 16.0);
  for (const model::Parameter& p : plan.parameters) {
    const bool a = p.name.ends_with(".lora_A.weight"), b = p.name.ends_with(".lora_B.weight");
    EXPECT_EQ(p.group, a ? 0 : b ? 1 : model::kFrozen) << p.name;
  }
  for (int32_t group : {0, 1}) {
    EXPECT_EQ(plan.groups[group].weight_decay, 0.01);  // one decay, not scaled by the ratio
    EXPECT_EQ(plan.groups[group].expected_elements, Elements(plan, group));
    EXPECT_GT(Elements(plan, group), 0);
  }
}

TEST_F(PlannerTest, MagnitudesOfDoraLearnAtThePlainRate) {
  job_.lora.use_dora = true;
  const plan::Plan plan = MustPlan().plan;
  EXPECT_TRUE(plan.lora.dora);
  ASSERT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.groups[2].name, "lora_magnitude");
  EXPECT_EQ(plan.groups[2].lr_scale, 1.0);
  EXPECT_EQ(plan.groups[2].weight_decay, 0.01);
  EXPECT_EQ(plan.groups[2].expected_elements, Elements(plan, 2));
  for (const model::Parameter& p : plan.parameters) {
    EXPECT_EQ(p.group == 2, p.name.ends_with(".lora_magnitude_vector")) << p.name;
  }
}

TEST_F(PlannerTest, SavedModulesLearnAtThePlainRate) {
  job_.lora.modules_to_save = {"lm_head", "norm"};
  plan::Plan plan = MustPlan().plan;
  ASSERT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.groups[2].name, "saved_modules");
  EXPECT_EQ(plan.groups[2].lr_scale, 1.0);
  EXPECT_EQ(plan.groups[2].weight_decay, 0.01);
  for (const model::Parameter& p : plan.parameters) {
    const bool saved = model::IsEmbedding(p) || model::IsBase(p, model::Kind::kNorm);
    EXPECT_EQ(p.group == 2, saved) << p.name;
  }
  job_.train.decay_norm_and_bias = false;
  plan = MustPlan().plan;
  ASSERT_EQ(plan.groups.size(), 4u);
  EXPECT_EQ(plan.groups[3].name, "saved_norms_and_biases");
  EXPECT_EQ(plan.groups[3].weight_decay, 0.0);
  EXPECT_EQ(plan.groups[2].expected_elements, Elements(plan, 2));
  EXPECT_EQ(plan.parameters[0].group, 2);
  job_.lora.modules_to_save = {"norm"};
  plan = MustPlan().plan;
  ASSERT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.groups[2].name, "saved_norms_and_biases");
  job_.lora.modules_to_save = {"head"};
  EXPECT_EQ(MustPlan().plan.groups[2].name, "saved_modules");
  job_.lora.modules_to_save = {"q_proj"};
  EXPECT_NE(Plan().status().ToString().find("lora.modules_to_save: \"q_proj\""), std::string::npos);
}

// LoRA+ gives an adapted embedding a rate of its own; plain LoRA has one for all.
TEST_F(PlannerTest, AdaptersOutsideTheBlocks) {
  job_.lora.target_modules = {"embed_tokens", "lm_head"};
  job_.lora.loraplus_lr_embedding = 2e-5;
  plan::Plan plan = MustPlan().plan;
  ASSERT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.groups[2].name, "lora_embedding");
  EXPECT_DOUBLE_EQ(plan.groups[2].lr_scale * job_.train.learning_rate, 2e-5);
  for (const model::Parameter& p : plan.parameters) {
    if (!p.trainable()) continue;
    const bool embedding = p.name.find("lora_embedding_") != std::string::npos;
    EXPECT_EQ(p.group, embedding ? 2 : p.name.ends_with("lora_A.weight") ? 0 : 1) << p.name;
    EXPECT_EQ(p.unit, embedding ? 0 : plan.model.num_layers + 1);
  }
  job_.lora.target_modules = {"embed_tokens"};
  EXPECT_EQ(MustPlan().plan.groups.size(), 1u);
  job_.lora.loraplus_lr_ratio = 1;
  plan = MustPlan().plan;
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].name, "lora_a");
  EXPECT_EQ(plan.groups[0].lr_scale, 1.0);
  const auto expect_refused = [this](const char* part) {
    EXPECT_NE(Plan().status().ToString().find(part), std::string::npos) << Plan().status();
  };
  job_.export_merge = true;
  expect_refused("share their weight; set export.merge: false");
  job_.export_merge = false;
  job_.lora.modules_to_save = {"lm_head"};
  job_.lora.target_modules = {"lm_head"};
  expect_refused("name the module in one of the two");
  job_.lora.modules_to_save = {};
  job_.lora.use_dora = true;
  expect_refused("\"lm_head\" has no DoRA");
}

// A router of softmax has no bias that could move; an adapter alone could not hold one that does.
TEST_F(PlannerTest, BalancingByABiasNeedsOneAndAnExportThatHoldsIt) {
  const auto expect_refused = [this](const char* part) {
    EXPECT_NE(Plan().status().ToString().find(part), std::string::npos) << Plan().status();
  };
  job_.moe.bias_rate = 0.001;
  expect_refused("Qwen2ForCausalLM has none; set moe.balance: none");
  model_.tie_embeddings = model_.qkv_bias = false;
  model_.architecture = "Qwen3MoeForCausalLM";
  model_.qk_norm = true;
  model_.mixture = {.experts = 8, .chosen = 2, .width = 12};
  expect_refused("Qwen3MoeForCausalLM has none; set moe.balance: none, and moe.aux_loss.coef");
  model_.architecture = "Glm4MoeForCausalLM";
  model_.mixture.score = "sigmoid";
  expect_refused("set export.merge: true to export the whole model, or moe.balance: none");
  job_.export_merge = true;
  EXPECT_EQ(MustPlan().plan.router_bias_rate, 0.001);
  job_.export_merge = false;
  job_.adapter = config::Adapter::kNone;
  EXPECT_EQ(MustPlan().plan.router_bias_rate, 0.001);
  const std::string hash = Recipe::Make(job_, model_, data_)->hash();
  job_.moe.bias_rate = 0.002;
  EXPECT_NE(Recipe::Make(job_, model_, data_)->hash(), hash);
  job_.moe.bias_rate.reset();
  EXPECT_EQ(MustPlan().plan.router_bias_rate, 0);
  EXPECT_NE(Recipe::Make(job_, model_, data_)->hash(), hash);
}

TEST_F(PlannerTest, RowsOfAddedTokensMustBeTrained) {
  model_.added_tokens = {.count = 3, .known = 127, .base_rows = 128};
  model_.vocab_size = 130;
  const auto expect_refused = [this](const char* part) {
    EXPECT_NE(Plan().status().ToString().find(part), std::string::npos) << Plan().status();
  };
  expect_refused("add lora.modules_to_save: [embed_tokens]");
  job_.lora.modules_to_save = {"lm_head"};
  MustPlan();
  model_.tie_embeddings = false;
  expect_refused("embed_tokens would be frozen; add lora.modules_to_save: [embed_tokens, lm_head]");
  job_.adapter = config::Adapter::kNone;
  EXPECT_EQ(MustPlan().plan.parameters[0].rows, 130);
}

TEST_F(PlannerTest, ScaleIsAlphaOverRankOrItsRoot) {
  EXPECT_DOUBLE_EQ(MustPlan().plan.lora.scale, 64.0 / 32);
  job_.lora.use_rslora = true;
  EXPECT_DOUBLE_EQ(MustPlan().plan.lora.scale, 64.0 / std::sqrt(32.0));
  EXPECT_EQ(MustPlan().plan.lora.rank, 32);
}

TEST_F(PlannerTest, FullJobTrainsEverythingInOneGroup) {
  job_.adapter = config::Adapter::kNone;
  const PlannedJob planned = MustPlan();
  ASSERT_EQ(planned.plan.groups.size(), 1u);
  EXPECT_EQ(planned.plan.groups[0].name, "weights");
  EXPECT_EQ(planned.plan.groups[0].expected_elements, planned.estimate.total_parameters);
  EXPECT_EQ(planned.estimate.trainable_parameters, planned.estimate.total_parameters);
  EXPECT_EQ(planned.plan.lora, plan::Lora{});
}

TEST_F(PlannerTest, NormsAndBiasesKeepOutOfDecayOnRequest) {
  job_.adapter = config::Adapter::kNone;
  job_.train.decay_norm_and_bias = false;
  const plan::Plan plan = MustPlan().plan;
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].weight_decay, 0.01);
  EXPECT_EQ(plan.groups[1].name, "norms_and_biases");
  EXPECT_EQ(plan.groups[1].weight_decay, 0.0);
  for (const model::Parameter& p : plan.parameters)
    EXPECT_EQ(p.group, p.cols == 1 ? 1 : 0) << p.name;
  EXPECT_EQ(plan.groups[1].expected_elements, Elements(plan, 1));
}

TEST_F(PlannerTest, RanksShareOneReplicaUnlessTheJobSaysOtherwise) {
  job_.workers = 4;
  const auto mesh = [this] {
    const plan::Plan plan = MustPlan().plan;
    return std::vector<int32_t>{plan.replicate, plan.shard, plan.zero};
  };
  EXPECT_EQ(mesh(), (std::vector<int32_t>{1, 4, 1}));
  job_.replicate = 2;
  EXPECT_EQ(mesh(), (std::vector<int32_t>{2, 2, 1}));
  job_.zero = 3;
  EXPECT_EQ(mesh(), (std::vector<int32_t>{2, 2, 3}));
  job_.replicate.reset();
  job_.zero = 0;
  EXPECT_EQ(mesh(), (std::vector<int32_t>{4, 1, 0}));
}

TEST_F(PlannerTest, AutoTakesTheLowestStageThatFits) {
  job_.adapter = config::Adapter::kNone;
  job_.workers = 4;
  std::vector<uint64_t> bytes;
  job_.resident_blocks = 2;
  for (const int64_t zero : {1, 2, 3}) {
    job_.zero = zero;
    bytes.push_back(MustPlan().estimate.total_bytes);
  }
  job_.resident_blocks.reset();
  EXPECT_GT(bytes[0], bytes[1]);
  EXPECT_GT(bytes[1], bytes[2]);
  job_.zero.reset();
  for (int32_t stage = 1; stage <= 3; ++stage) {
    const auto planned = Plan({.memory_bytes = bytes[static_cast<size_t>(stage) - 1]});
    ASSERT_TRUE(planned.ok()) << planned.status();
    EXPECT_EQ(planned->plan.zero, stage);
    EXPECT_EQ(planned->plan.recompute, RecomputeLevel::kNone);
  }
}

// Three blocks.
TEST_F(PlannerTest, FreeMemoryKeepsGatheredBlocks) {
  job_.adapter = config::Adapter::kNone;
  job_.workers = 4;
  job_.zero = 3;
  std::vector<PlannedJob> planned;
  for (const int64_t blocks : {2, 3, 1000}) {
    job_.resident_blocks = blocks;
    planned.push_back(MustPlan());
  }
  EXPECT_EQ(planned[0].plan.weight_slots, 2);
  EXPECT_EQ(planned[2].hash, planned[1].hash);  // there are no more
  const uint64_t two = planned[0].estimate.total_bytes, three = planned[1].estimate.total_bytes;
  ASSERT_LT(two, three);
  EXPECT_LT(planned[1].plan.predicted.comm_seconds, planned[0].plan.predicted.comm_seconds);
  job_.resident_blocks.reset();
  EXPECT_EQ(MustPlan().plan.weight_slots, 3);  // no limit is known
  for (const auto& [memory, slots] :
       {std::pair{two, 2}, {three - 1, 2}, {three, 3}, {8 * three, 3}}) {
    const auto found = Plan({.memory_bytes = memory});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->plan.weight_slots, slots) << memory;
    EXPECT_LE(found->estimate.total_bytes, memory);
  }
  job_.zero = 2;
  EXPECT_EQ(MustPlan().plan.weight_slots, 2);
}

TEST_F(PlannerTest, PredictsCommunicationOfSeveralRanksOnly) {
  const plan::Plan two = MustPlan().plan;
  EXPECT_GT(two.predicted.comm_seconds, 0);
  EXPECT_GT(two.predicted.exposed_seconds, 0);
  EXPECT_LE(two.predicted.exposed_seconds, two.predicted.comm_seconds);
  EXPECT_GT(two.predicted.step_seconds, two.predicted.exposed_seconds);
  job_.workers = 1;
  const plan::Plan one = MustPlan().plan;
  EXPECT_EQ(one.predicted.comm_seconds, 0);
  EXPECT_TRUE(one.links.empty());
  EXPECT_FALSE(two.links_measured);
  job_.workers = 2;
  const auto measured = Plan({.links = {{1 << 20, 1e12}}});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_LT(measured->plan.predicted.comm_seconds, two.predicted.comm_seconds / 100);
  EXPECT_TRUE(measured->plan.links_measured);
  EXPECT_NE(measured->hash, MustPlan().hash);
}

TEST_F(PlannerTest, WorkersChangeThePlanButNotTheRecipe) {
  const PlannedJob two = MustPlan();
  job_.workers = 4;
  const PlannedJob four = MustPlan();
  EXPECT_NE(two.hash, four.hash);
  EXPECT_EQ(two.plan.recipe_hash, four.plan.recipe_hash);
}

TEST_F(PlannerTest, EstimateIsTheBufferTable) {
  const PlannedJob planned = MustPlan();
  const Estimate& e = planned.estimate;
  uint64_t total = 0, weights = 0;
  for (const plan::Buffer& buffer : planned.plan.buffers) {
    total += static_cast<uint64_t>(buffer.bytes);
    if (buffer.memory_class == plan::MemoryClass::kWeights) {
      weights += static_cast<uint64_t>(buffer.bytes);
    }
  }
  EXPECT_EQ(e.total_bytes, total);
  EXPECT_EQ(e.weights, weights);
  EXPECT_EQ(e.weights + e.gradients + e.optimizer + e.activations + e.workspace, total);
  // And less than 64 elements of padding per rank and flat, two flats a unit.
  EXPECT_GE(e.weights, 4u * static_cast<uint64_t>(e.total_parameters));
  EXPECT_LT(e.weights, 4u * static_cast<uint64_t>(e.total_parameters + 2 * 64 * 2 * 5));
  EXPECT_EQ(e.gradients, 4u * static_cast<uint64_t>(e.trainable_parameters));
  EXPECT_EQ(2 * e.optimizer, 5 * e.gradients);  // half of m, v and a snapshot of master, m, v
}

TEST_F(PlannerTest, TimeFollowsFromOperationsAndRate) {
  job_.eval_steps = 3;
  const auto recipe = Recipe::Make(job_, model_, data_);
  const WorkerResources resources{.threads = 3};
  const double rate = 2 * 3 * kFlopsPerSecondPerThread;
  double squares = 0, sum = 0;  // documents of 5 to 44 tokens in bins of 64
  for (const int32_t length : Lengths(101)) {
    squares += static_cast<double>(length) * length;
    sum += length;
  }
  const int64_t span = std::llround(squares / sum);
  EXPECT_EQ(recipe->attention_span(), span);
  const PlannedJob planned = MustPlan(resources);
  const double flops = model::TrainingFlops(model_, planned.plan.parameters, span).total();
  const double forward = model::ForwardFlopsPerToken(model_, planned.plan.parameters, span);
  EXPECT_DOUBLE_EQ(planned.estimate.flops_per_token, flops);
  const int64_t steps = recipe->total_steps();
  const auto tokens = static_cast<double>(recipe->train_tokens());
  const auto rate_of = [&](const PlannedJob& job, double operations) {
    const double waits = static_cast<double>(steps) * job.plan.predicted.exposed_seconds;
    return tokens / (tokens * operations / rate + waits);
  };
  EXPECT_DOUBLE_EQ(planned.estimate.tokens_per_second, rate_of(planned, flops));
  const int64_t evaluations = 1 + steps / 3 + (steps % 3 != 0 ? 1 : 0);
  EXPECT_NEAR(planned.estimate.seconds,
              tokens / rate_of(planned, flops) +
                  static_cast<double>(evaluations * recipe->eval_tokens()) * forward / rate,
              1e-9);
  job_.recompute = RecomputeLevel::kBlock;
  const PlannedJob again = MustPlan(resources);
  EXPECT_DOUBLE_EQ(again.estimate.tokens_per_second, rate_of(again, flops + forward));
  const auto computes = [](const PlannedJob& job) {
    return job.plan.predicted.step_seconds - job.plan.predicted.exposed_seconds;
  };
  EXPECT_NEAR(computes(again) / computes(planned), (flops + forward) / flops, 1e-9);
}

TEST_F(PlannerTest, RefusesWhatThisBuildCannotRun) {
  job_.compute_dtype = Precision::kBfloat16;
  const auto planned = Plan();
  EXPECT_EQ(planned.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(planned.status().ToString().find("precision.compute is bfloat16"), std::string::npos);
  job_.compute_dtype = Precision::kFloat32;
  job_.lora.target_modules = {"q_prj"};
  EXPECT_NE(Plan().status().ToString().find("\"q_prj\""), std::string::npos);
  model_.rope.type = "dynamic";
  model_.rope.original_max_position = job_.sequence_len - 1;
  EXPECT_NE(Plan().status().ToString().find("rope type \"dynamic\""), std::string::npos);
}

class CudaPlannerTest : public PlannerTest {
 protected:
  CudaPlannerTest() {
    job_.device = config::Device::kCuda;
    job_.workers = 1;
    job_.compute_dtype = Precision::kBfloat16;
    job_.master_dtype = job_.gradient_dtype = std::nullopt;
    model_.head_dim = 8;
  }
  void ExpectRefused(const std::string& part, const WorkerResources& resources = {}) {
    const auto planned = Plan(resources);
    EXPECT_NE(planned.status().ToString().find(part), std::string::npos) << planned.status();
  }
};

TEST_F(CudaPlannerTest, CarriesDeviceFormatsAndAttention) {
  job_.attention_deterministic = false;
  job_.attention_workspace_gib = 0.5;
  const PlannedJob planned = MustPlan();
  EXPECT_EQ(planned.plan.device, DeviceKind::kCuda);
  EXPECT_EQ(planned.plan.compute_dtype, Precision::kBfloat16);
  EXPECT_EQ(planned.plan.master_dtype, Precision::kFloat32);
  EXPECT_EQ(planned.plan.gradient_dtype, Precision::kFloat32);
  EXPECT_FALSE(planned.plan.attention_deterministic);
  EXPECT_EQ(planned.plan.attention_workspace_bytes, 1 << 29);
  EXPECT_TRUE(plan::ParsePlan(planned.bytes).ok());
  EXPECT_GT(planned.estimate.host, 0u);
}

TEST_F(CudaPlannerTest, TimeIsThatOfItsSlotsAndUpdates) {
  const auto recipe = Recipe::Make(job_, model_, data_);
  const Gpu gpu = GpuOf("NVIDIA H100 80GB HBM3");
  const PlannedJob planned = MustPlan({.gpu = gpu});
  const GpuTime time = PredictGpuTime(planned.plan, recipe->attention_span(), *gpu.rates);
  const auto tokens = static_cast<double>(recipe->train_tokens());
  const double micro_steps = std::ceil(static_cast<double>(recipe->global_batch_bins()) /
                                       static_cast<double>(planned.plan.micro_batch_bins));
  const double training =
      tokens / recipe->packing_efficiency() * time.token +
      static_cast<double>(recipe->total_steps()) * (micro_steps * time.micro_step + time.step);
  EXPECT_DOUBLE_EQ(planned.estimate.tokens_per_second, tokens / training);
  EXPECT_GT(planned.estimate.seconds, training);  // and evaluations
  EXPECT_DOUBLE_EQ(planned.estimate.mfu, planned.estimate.flops_per_token *
                                             planned.estimate.tokens_per_second / 989.4e12);
}

// The layout stays: nothing is computed from a prediction.
TEST_F(CudaPlannerTest, WithoutRatesNoTimeIsPredicted) {
  job_.workers = 2;
  const PlannedJob known = MustPlan({.gpu = GpuOf("NVIDIA H200")});
  for (const Gpu& gpu : {Gpu{}, GpuOf("NVIDIA L40S")}) {
    const PlannedJob planned = MustPlan({.gpu = gpu});
    EXPECT_EQ(planned.estimate.tokens_per_second, 0);
    EXPECT_EQ(planned.estimate.seconds, 0);
    EXPECT_EQ(planned.estimate.mfu, 0);
    EXPECT_EQ(planned.plan.predicted.step_seconds, 0);
    EXPECT_EQ(planned.plan.predicted.exposed_seconds, 0);
    EXPECT_DOUBLE_EQ(planned.plan.predicted.comm_seconds, known.plan.predicted.comm_seconds);
    EXPECT_EQ(planned.estimate.total_bytes, known.estimate.total_bytes);
    EXPECT_TRUE(plan::ParsePlan(planned.bytes).ok());
  }
}

// Twice the rates, half the time, but for what the links take.
TEST_F(CudaPlannerTest, TimeFollowsTheRatesOfTheGpu) {
  Gpu slow = GpuOf("NVIDIA H200"), fast = slow;
  fast.rates->product_flops_per_second *= 2;
  fast.rates->copy_bytes_per_second *= 2;
  EXPECT_DOUBLE_EQ(MustPlan({.gpu = fast}).plan.predicted.step_seconds,
                   MustPlan({.gpu = slow}).plan.predicted.step_seconds / 2);
}

// planned_memory.peak of a job is total_bytes.
TEST_F(CudaPlannerTest, TotalHoldsWhatCudaAndNcclTake) {
  EXPECT_EQ(MustPlan().estimate.communication, 0u);
  job_.workers = 2;
  const PlannedJob planned = MustPlan();
  const Estimate& e = planned.estimate;
  EXPECT_EQ(e.communication, kNcclBytesPerCommunicator + kCopyStagingBytes);
  EXPECT_EQ(e.total_bytes, e.weights + e.gradients + e.optimizer + e.activations + e.workspace +
                               plan::kCudaRuntimeBytes + kNcclBytesPerCommunicator +
                               kCopyStagingBytes);
  const auto recipe = Recipe::Make(job_, model_, data_);
  const std::string page = FormatPlan(job_, *recipe, planned, data_);
  EXPECT_NE(page.find("  runtime      553.0 MiB, CUDA's\n  NCCL         934.4 MiB"),
            std::string::npos)
      << page;
}

TEST_F(CudaPlannerTest, RefusesWhatAGpuCannotRun) {
  job_.compute_dtype = std::nullopt;
  ExpectRefused("precision.compute is auto");
  job_.compute_dtype = Precision::kBfloat16;
  ExpectRefused("compute capability 7.5, at least 8.0", {.compute_capability = 75});
  EXPECT_TRUE(Plan({.compute_capability = 90}).ok());
  for (const int64_t dim : {4, 12, 260, 512}) {
    model_.head_dim = dim;
    ExpectRefused("head_dim is " + std::to_string(dim));
  }
  for (const int64_t dim : {8, 80, 128, 256}) {
    model_.head_dim = dim;
    EXPECT_TRUE(Plan().ok()) << dim;
  }
}

TEST_F(CudaPlannerTest, RefusesValuesThatAGpuCannotAttendTo) {
  model_.architecture = "DeepseekV3ForCausalLM";
  model_.qk_norm = model_.qkv_bias = false;
  model_.num_kv_heads = model_.num_heads;
  model_.head_dim = 24;
  model_.rope.rotated = 8;
  model_.latent = {.kv_rank = 16, .nope = 16, .rope = 8, .value = 12};
  ExpectRefused("v_head_dim is 12");
  model_.latent->value = 16;
  EXPECT_TRUE(Plan().ok()) << Plan().status();
}

}  // namespace
}  // namespace coxswain::planner
