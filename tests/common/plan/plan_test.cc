#include "common/plan/plan.h"

#include <cmath>
#include <functional>
#include <limits>

#include "common/files/hash.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/plan/checks/plan_bytes.h"
#include "common/plan/optimizer_states.h"
#include "coxswain/v1/plan.pb.h"
#include "gtest/gtest.h"

namespace coxswain::plan {
namespace {

model::ModelConfig Model() {
  return {.architecture = "Qwen3ForCausalLM",
          .vocab_size = 512,
          .hidden_size = 64,
          .intermediate_size = 160,
          .num_layers = 2,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 32,
          .rms_norm_eps = 1e-5,
          .tie_embeddings = true,
          .qkv_bias = true,
          .output_bias = true,
          .mlp_bias = true,
          .qk_norm = true,
          .rope = {},
          .layer_windows = {0, 16},
          .unrotated_layers = {1}};
}

// Heads of 32 elements, 8 of which rotate.
model::LatentAttention& SetLatent(Plan* plan) {
  plan->model.num_kv_heads = plan->model.num_heads;
  plan->model.rope.rotated = 8;
  plan->model.latent = {.q_rank = 6, .kv_rank = 10, .nope = 24, .rope = 8, .value = 12};
  return *plan->model.latent;
}

// Every field away from its default.
Plan Full() {
  Plan plan;
  plan.job = "job-1";
  plan.recipe_hash = std::string(32, '\x80');
  plan.model_path = "/models/m";
  plan.init = BaseInit::kRandom;
  plan.init_seed = 7;
  plan.seed = std::numeric_limits<uint64_t>::max();
  plan.model = Model();
  plan.model.rope.type = "llama3";
  plan.model.rope.theta = 5e5;
  plan.model.rope.factor = 8;
  plan.model.rope.low_freq_factor = 2;
  plan.model.rope.high_freq_factor = 5;
  plan.model.rope.original_max_position = 64;
  plan.architecture = model::ArchitectureOf(plan.model);
  plan.parameters = {{.name = "model.embed_tokens.weight",
                      .kind = model::Kind::kEmbedding,
                      .tensor = model::kEmbeddingTensor,
                      .rows = 512,
                      .cols = 64,
                      .group = model::kFrozen},
                     {.name = "a",
                      .kind = model::Kind::kLinear,
                      .part = model::Part::kLoraB,
                      .reach = model::Reach::kScores,
                      .layer = 1,
                      .tensor = 3,
                      .packed = 2,
                      .batch = 2,
                      .rows = 64,
                      .cols = 8,
                      .unit = 2,
                      .group = 0}};
  plan.groups = {{.name = "lora_b", .lr_scale = 16, .weight_decay = 0.1, .expected_elements = 512}};
  plan.lora = {.rank = 8, .scale = 2.5, .dropout = 0.25, .init_from = "/adapters/a"};
  plan.replicate = 3;
  plan.shard = 2;
  plan.zero = 2;
  plan.overlap = false;
  plan.links = {{1024, 1e6}, {4096, 2e6}};
  plan.predicted = {1.5, 0.25, 0.125};
  plan.sequence_len = 2048;
  plan.micro_batch_bins = 4;
  plan.max_documents_per_bin = 7;
  plan.recompute = RecomputeLevel::kBlock;
  plan.lm_head_chunk_tokens = 256;
  plan.beta1 = 0.8;
  plan.beta2 = 0.95;
  plan.eps = 1e-6;
  plan.max_grad_norm = 0.5;
  plan.label_smoothing = 0.1;
  plan.z_loss = 1e-4;
  plan.recompute_every = 2;
  plan.device = DeviceKind::kCuda;
  plan.compute_dtype = Precision::kBfloat16;
  plan.master_dtype = Precision::kBfloat16;
  plan.gradient_dtype = Precision::kBfloat16;
  plan.gradient_sum = GradientSum::kCompensated;
  plan.attention_deterministic = false;
  plan.attention_workspace_bytes = 1 << 20;
  plan.generation = {.sequences = 3, .length = 100};
  plan.buffers = {
      {.name = "w", .memory_class = MemoryClass::kWeights, .bytes = 128, .alias_of = {}},
      {.name = "x", .memory_class = MemoryClass::kActivations, .alias_of = "w"}};
  return plan;
}

TEST(PlanTest, RoundTripKeepsEveryField) {
  const auto parsed = ParsePlan(SerializePlan(Full()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Full());
}

// Invariant plan-1.
TEST(PlanTest, BytesAndHashAreAFunctionOfThePlan) {
  EXPECT_EQ(SerializePlan(Full()), SerializePlan(Full()));
  EXPECT_EQ(PlanHash(SerializePlan(Full())), Sha256(SerializePlan(Full())));
  EXPECT_EQ(PlanHash("").size(), 32u);
}

TEST(PlanTest, RoundTripKeepsAPolicyLoss) {
  Plan plan = Full();
  plan.label_smoothing = plan.z_loss = 0;
  plan.policy_loss = {.objective = "clip",
                      .ratio = "sequence",
                      .normaliser = "constant",
                      .epsilon_low = 0.25,
                      .epsilon_high = 0.5,
                      .delta = 2,
                      .kl_weight = 0.125};
  const auto parsed = ParsePlan(SerializePlan(plan));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, plan);
}

// Releases before the blocks were in the plan: parameters had a name and extents.
TEST(PlanTest, APlanWithoutBlocksIsCompleted) {
  Plan plan = Full();
  plan.parameters = model::BaseParameterTable(plan.architecture);
  plan.parameters =
      *model::WithLora(plan.parameters, plan.architecture,
                       {.rank = 8, .targets = {"q_proj", "k_proj", "lm_head", "embed_tokens"}});
  for (model::Parameter& parameter : plan.parameters) {
    parameter.group = model::IsAdapter(parameter) ? 0 : model::kFrozen;
  }
  v1::Plan message;
  ASSERT_TRUE(message.ParseFromString(SerializePlan(plan)));
  message.clear_architecture();
  for (v1::Parameter& parameter : *message.mutable_parameters()) {
    parameter.clear_kind();
    parameter.clear_part();
    parameter.clear_reach();
    parameter.clear_tensor();
    parameter.clear_packed();
    parameter.clear_batch();
  }
  const auto completed = ParsePlan(message.SerializeAsString());
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(*completed, plan);
  message.mutable_parameters(3)->set_name("model.layers.0.unknown.weight");
  EXPECT_NE(ParsePlan(message.SerializeAsString()).status().ToString().find("unknown.weight"),
            std::string::npos);
}

// Plans made before the field was there are read, and keep their bytes.
TEST(PlanTest, AdamWGoesWithoutItsName) {
  Plan plan = Full();
  EXPECT_EQ(plan.optimizer, OptimizerKind::kAdamW);
  EXPECT_EQ(SerializePlan(plan).find("adamw"), std::string::npos);
  plan.optimizer = OptimizerKind::kAdamWBf16;
  EXPECT_NE(SerializePlan(plan).find("adamw_bf16"), std::string::npos);
}

// Jobs that generate nothing keep their bytes.
TEST(PlanTest, NoGenerationIsAbsent) {
  Plan plan = Full();
  plan.generation = {};
  v1::Plan message;
  ASSERT_TRUE(message.ParseFromString(SerializePlan(plan)));
  EXPECT_FALSE(message.has_generation());
}

TEST(PlanTest, APlanThatOnlyGeneratesTrainsNothing) {
  Plan plan = Full();
  EXPECT_TRUE(plan.trains());
  plan.groups.clear();
  plan.parameters[1].group = model::kFrozen;
  const auto parsed = ParsePlan(SerializePlan(plan));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->trains());
}

// Invariant plan-2. Each change of a field changes the bytes: nothing is forgotten on the way to
// the wire.
TEST(PlanTest, EveryFieldReachesTheBytes) {
  const std::vector<std::function<void(Plan&)>> changes = {
      [](Plan& p) { p.job = "job-2"; },
      [](Plan& p) { p.recipe_hash[0] = 'x'; },
      [](Plan& p) { p.model_path = "/other"; },
      [](Plan& p) { p.init = BaseInit::kPretrained; },
      [](Plan& p) { p.init_seed = 0; },
      [](Plan& p) { p.seed = 1; },
      [](Plan& p) { p.model.architecture = "x"; },
      [](Plan& p) { ++p.model.vocab_size; },
      [](Plan& p) { p.model.added_tokens = {.count = 1, .known = 2, .base_rows = 512}; },
      [](Plan& p) { ++p.model.hidden_size; },
      [](Plan& p) { ++p.model.intermediate_size; },
      [](Plan& p) { ++p.model.num_layers; },
      [](Plan& p) { ++p.model.num_heads; },
      [](Plan& p) { ++p.model.num_kv_heads; },
      [](Plan& p) { ++p.model.head_dim; },
      [](Plan& p) { p.model.rms_norm_eps *= 2; },
      [](Plan& p) { p.model.tie_embeddings = false; },
      [](Plan& p) { p.model.qkv_bias = false; },
      [](Plan& p) { p.model.output_bias = false; },
      [](Plan& p) { p.model.mlp_bias = false; },
      [](Plan& p) { p.model.qk_norm = false; },
      [](Plan& p) { p.model.rope.type = "default"; },
      [](Plan& p) { ++p.model.rope.theta; },
      [](Plan& p) { ++p.model.rope.factor; },
      [](Plan& p) { ++p.model.rope.low_freq_factor; },
      [](Plan& p) { ++p.model.rope.high_freq_factor; },
      [](Plan& p) { ++p.model.rope.original_max_position; },
      [](Plan& p) { p.model.activation = "gelu"; },
      [](Plan& p) { p.model.norm_weights_from_one = true; },
      [](Plan& p) { p.model.embedding_scale_rounded = true; },
      [](Plan& p) { p.model.embedding_scale = 2; },
      [](Plan& p) { p.model.attention_scale = 2; },
      [](Plan& p) { p.model.logit_scale = 2; },
      [](Plan& p) { ++p.model.rope.beta_fast; },
      [](Plan& p) { ++p.model.rope.beta_slow; },
      [](Plan& p) { p.model.rope.truncate = true; },
      [](Plan& p) { ++p.model.rope.attention_factor; },
      [](Plan& p) { p.model.rope.short_factors = {2}; },
      [](Plan& p) { p.model.rope.long_factors = {2}; },
      [](Plan& p) { p.model.rope.rotated = 2; },
      [](Plan& p) { p.model.rope.interleaved = true; },
      [](Plan& p) { p.model.rope.query_scale_beta = 2; },
      [](Plan& p) { p.model.window_rope = model::Rope{}; },
      [](Plan& p) { p.model.attention_softcap = 2; },
      [](Plan& p) { p.model.logit_softcap = 2; },
      [](Plan& p) { p.fusions = {"add_norm"}; },
      [](Plan& p) { p.model.layer_windows[0] = 1; },
      [](Plan& p) { p.model.mixture = {.experts = 4, .chosen = 2, .width = 8}; },
      [](Plan& p) { p.model.latent = model::LatentAttention{.kv_rank = 4}; },
      [](Plan& p) { p.model.latent = model::LatentAttention{.q_rank = 4}; },
      [](Plan& p) { p.model.latent = model::LatentAttention{.nope = 4}; },
      [](Plan& p) { p.model.latent = model::LatentAttention{.rope = 4}; },
      [](Plan& p) { p.model.latent = model::LatentAttention{.value = 4}; },
      [](Plan& p) {
        p.document_loss.terms = {{"sigmoid", 1}};
      },
      [](Plan& p) {
        p.document_loss.terms = {{"sigmoid", 0.5}};
      },
      [](Plan& p) {
        p.document_loss.terms = {{"ipo", 1}};
      },
      [](Plan& p) {
        p.document_loss = {.terms = {{"ipo", 1}}, .beta = 0.5};
      },
      [](Plan& p) {
        p.document_loss = {.terms = {{"ipo", 1}}, .label_smoothing = 0.25};
      },
      [](Plan& p) {
        p.document_loss = {.terms = {{"ipo", 1}}, .margin = 0.5};
      },
      [](Plan& p) {
        p.document_loss = {.terms = {{"ipo", 1}}, .reference = "kept"};
      },
      [](Plan& p) {
        p.document_loss = {.terms = {{"ipo", 1}}, .desirable_weight = 2};
      },
      [](Plan& p) {
        p.document_loss = {.terms = {{"ipo", 1}}, .undesirable_weight = 2};
      },
      [](Plan& p) { p.policy_loss.objective = "clip"; },
      [](Plan& p) { p.router_losses.balance = 0.5; },
      [](Plan& p) { p.router_losses.z = 0.5; },
      [](Plan& p) { p.router_losses.by_micro_batch = true; },
      [](Plan& p) { p.router_bias_rate = 0.5; },
      [](Plan& p) { p.architecture.outside.layers += "x"; },
      [](Plan& p) { p.model.unrotated_layers[0] = 0; },
      [](Plan& p) { p.parameters[1].name = "b"; },
      [](Plan& p) { p.parameters[1].kind = model::Kind::kHead; },
      [](Plan& p) { p.parameters[1].part = model::Part::kLoraA; },
      [](Plan& p) { p.parameters[1].reach = model::Reach::kDirect; },
      [](Plan& p) { ++p.parameters[1].tensor; },
      [](Plan& p) { ++p.parameters[1].packed; },
      [](Plan& p) { ++p.parameters[1].batch; },
      [](Plan& p) { p.parameters[1].layer = 0; },
      [](Plan& p) { ++p.parameters[1].rows; },
      [](Plan& p) { ++p.parameters[1].cols; },
      [](Plan& p) { ++p.parameters[1].unit; },
      [](Plan& p) { p.parameters[1].group = model::kFrozen; },
      [](Plan& p) { p.groups[0].name = "x"; },
      [](Plan& p) { ++p.groups[0].lr_scale; },
      [](Plan& p) { ++p.groups[0].weight_decay; },
      [](Plan& p) { ++p.groups[0].expected_elements; },
      [](Plan& p) { ++p.lora.rank; },
      [](Plan& p) { ++p.lora.scale; },
      [](Plan& p) { p.lora.dropout = 0; },
      [](Plan& p) { p.lora.init_from = ""; },
      [](Plan& p) { p.lora.dora = true; },
      [](Plan& p) { ++p.replicate; },
      [](Plan& p) { ++p.shard; },
      [](Plan& p) { ++p.zero; },
      [](Plan& p) { ++p.weight_slots; },
      [](Plan& p) { p.overlap = true; },
      [](Plan& p) { ++p.links[0].bytes; },
      [](Plan& p) { p.links_measured = true; },
      [](Plan& p) { ++p.links[1].bytes_per_second; },
      [](Plan& p) { ++p.predicted.step_seconds; },
      [](Plan& p) { ++p.predicted.comm_seconds; },
      [](Plan& p) { ++p.predicted.exposed_seconds; },
      [](Plan& p) { ++p.sequence_len; },
      [](Plan& p) { ++p.micro_batch_bins; },
      [](Plan& p) { ++p.max_documents_per_bin; },
      [](Plan& p) { p.recompute = RecomputeLevel::kNone; },
      [](Plan& p) { ++p.lm_head_chunk_tokens; },
      [](Plan& p) { ++p.lm_head_panel_bytes; },
      [](Plan& p) { p.optimizer = OptimizerKind::kAdamWBf16; },
      [](Plan& p) { p.beta1 = 0; },
      [](Plan& p) { p.beta2 = 0; },
      [](Plan& p) { p.eps = 1; },
      [](Plan& p) { p.max_grad_norm = 0; },
      [](Plan& p) { p.label_smoothing = 0; },
      [](Plan& p) { p.z_loss = 0; },
      [](Plan& p) { --p.recompute_every; },
      [](Plan& p) { p.device = DeviceKind::kCpu; },
      [](Plan& p) { p.compute_dtype = Precision::kFloat32; },
      [](Plan& p) { p.quantization = Quantization::kNf4; },
      [](Plan& p) { ++p.experts_at_once; },
      [](Plan& p) { p.fp8.recipe = Fp8Recipe::kRowwise; },
      [](Plan& p) { p.fp8.recipe = Fp8Recipe::kDelayed; },
      [](Plan& p) { p.fp8.e4m3_gradients = !p.fp8.e4m3_gradients; },
      [](Plan& p) { p.fp8.keeps_activations = !p.fp8.keeps_activations; },
      [](Plan& p) { p.fp8.keeps_weights = !p.fp8.keeps_weights; },
      [](Plan& p) { p.fp8.gathers_codes = !p.fp8.gathers_codes; },
      [](Plan& p) { p.fp8.experts = !p.fp8.experts; },
      [](Plan& p) { p.fp8.attention = !p.fp8.attention; },
      [](Plan& p) {
        p.fp8.excluded.push_back({1, 3});
      },
      [](Plan& p) { p.snapshot_in_slices = true; },
      [](Plan& p) { p.model.quantization = Quantization::kInt8; },
      [](Plan& p) { p.master_dtype = Precision::kFloat32; },
      [](Plan& p) { p.gradient_dtype = Precision::kFloat32; },
      [](Plan& p) { p.gradient_sum = GradientSum::kStochastic; },
      [](Plan& p) { p.attention_deterministic = true; },
      [](Plan& p) { ++p.attention_workspace_bytes; },
      [](Plan& p) { ++p.generation.sequences; },
      [](Plan& p) { ++p.generation.length; },
      [](Plan& p) { p.buffers[0].name = "v"; },
      [](Plan& p) { p.buffers[0].memory_class = MemoryClass::kWorkspace; },
      [](Plan& p) { ++p.buffers[0].bytes; },
      [](Plan& p) { p.buffers[1].alias_of = ""; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Plan plan = Full();
    changes[i](plan);
    EXPECT_NE(SerializePlan(plan), SerializePlan(Full())) << "change " << i;
  }
}

void ExpectRefused(const std::function<void(Plan&)>& change, const std::string& field) {
  Plan plan = Full();
  change(plan);
  const auto parsed = ParsePlan(SerializePlan(plan));
  ASSERT_FALSE(parsed.ok()) << field;
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(parsed.status().ToString().find(field), std::string::npos) << parsed.status();
}

// Full() on the wire, with one word of another spelling.
std::string Misspelt(const std::function<void(v1::Plan&)>& change) {
  v1::Plan message;
  EXPECT_TRUE(message.ParseFromString(SerializePlan(Full())));
  change(message);
  return std::string(ParsePlan(message.SerializeAsString()).status().message());
}

TEST(PlanTest, RefusesUnknownWordsByName) {
  EXPECT_EQ(Misspelt([](v1::Plan& p) { p.set_device("tpu"); }),
            "plan: device is \"tpu\", expected one of cpu, cuda");
  EXPECT_EQ(Misspelt([](v1::Plan& p) { p.set_init("zero"); }),
            "plan: init is \"zero\", expected one of pretrained, random");
  EXPECT_EQ(
      Misspelt([](v1::Plan& p) { p.set_recompute("all"); }),
      "plan: recompute is \"all\", expected one of none, norm_swiglu, expert_out, ffn, block");
  EXPECT_EQ(Misspelt([](v1::Plan& p) { p.set_optimizer("adam"); }),
            "plan: optimizer is \"adam\", expected one of adamw, adamw_bf16, adamw_8bit");
  EXPECT_EQ(Misspelt([](v1::Plan& p) { p.set_compute_dtype("int8"); }),
            "plan: compute_dtype is \"int8\", expected one of float32, bfloat16");
  EXPECT_EQ(Misspelt([](v1::Plan& p) { p.set_master_dtype("float16"); }),
            "plan: master_dtype is \"float16\", expected one of float32, bfloat16");
  EXPECT_EQ(Misspelt([](v1::Plan& p) { p.set_gradient_dtype(""); }),
            "plan: gradient_dtype is \"\", expected one of float32, bfloat16");
  EXPECT_EQ(Misspelt([](v1::Plan& p) { p.set_quantization("fp4"); }),
            "plan: quantization is \"fp4\", expected one of \"\", nf4, nf4_double, int8, mxfp4");
  EXPECT_EQ(
      Misspelt([](v1::Plan& p) { p.mutable_model()->set_quantization("fp4"); }),
      "plan: model.quantization is \"fp4\", expected one of \"\", nf4, nf4_double, int8, mxfp4");
}

// What stored plans and journals hold: a word on the wire is its spelling, not a number.
TEST(PlanTest, WordsTravelAsTheyAreSpelled) {
  v1::Plan message;
  const auto on_wire = [&](const Plan& plan) -> const v1::Plan& {
    EXPECT_TRUE(message.ParseFromString(SerializePlan(plan)));
    return message;
  };
  Plan plan = Full();
  for (const char* word : {"cpu", "cuda"}) {
    plan.device = *FromString<DeviceKind>(word);
    EXPECT_EQ(on_wire(plan).device(), word);
  }
  for (const char* word : {"pretrained", "random"}) {
    plan.init = *FromString<BaseInit>(word);
    EXPECT_EQ(on_wire(plan).init(), word);
  }
  for (const char* word : {"none", "norm_swiglu", "expert_out", "ffn", "block"}) {
    plan.recompute = *FromString<RecomputeLevel>(word);
    EXPECT_EQ(on_wire(plan).recompute(), word);
  }
  for (const char* word : {"float32", "bfloat16"}) {
    plan.compute_dtype = plan.master_dtype = plan.gradient_dtype = *FromString<Precision>(word);
    EXPECT_EQ(on_wire(plan).compute_dtype(), word);
    EXPECT_EQ(message.master_dtype(), word);
    EXPECT_EQ(message.gradient_dtype(), word);
  }
  for (const char* word : {"", "nf4", "nf4_double", "int8", "mxfp4"}) {
    plan.quantization = plan.model.quantization = *FromString<Quantization>(word);
    EXPECT_EQ(on_wire(plan).quantization(), word);
    EXPECT_EQ(message.model().quantization(), word);
  }
  for (const char* word : {"adamw_bf16", "adamw_8bit"}) {
    plan.optimizer = *FromString<OptimizerKind>(word);
    EXPECT_EQ(on_wire(plan).optimizer(), word);
  }
}

TEST(PlanTest, EveryOptimizerHasARow) {
  for (const char* word : kSpellings<OptimizerKind>) {
    Plan plan = Full();
    plan.optimizer = *FromString<OptimizerKind>(word);
    EXPECT_EQ(OptimizerOf(plan).kind, plan.optimizer) << word;
  }
}

TEST(PlanTest, RefusesScalarsOutOfRange) {
  const double nan = std::nan("");
  ExpectRefused([](Plan& p) { p.job = ""; }, "job");
  ExpectRefused([](Plan& p) { p.recipe_hash = "short"; }, "recipe_hash");
  ExpectRefused([](Plan& p) { p.model_path = "relative"; }, "model_path");
  ExpectRefused([](Plan& p) { p.replicate = 0; }, "replicate");
  ExpectRefused([](Plan& p) { p.shard = -1; }, "shard");
  ExpectRefused([](Plan& p) { p.zero = 4; }, "zero is 4");
  ExpectRefused([](Plan& p) { p.weight_slots = 1; }, "weight_slots is 1");
  ExpectRefused([](Plan& p) { p.weight_slots = 3; }, "weight_slots is 3");  // zero is 2
  ExpectRefused([](Plan& p) { p.zero = 0; }, "zero is 0");   // with 2 ranks of a replica
  ExpectRefused([](Plan& p) { p.shard = 1; }, "zero is 2");  // with 1
  ExpectRefused([](Plan& p) { p.links[1].bytes = 1024; }, "links bytes is 1024");
  ExpectRefused([](Plan& p) { p.links[0].bytes_per_second = 0; }, "links bytes_per_second");
  ExpectRefused([](Plan& p) { p.predicted.exposed_seconds = -1; }, "predicted.exposed_seconds");
  ExpectRefused([](Plan& p) { p.experts_at_once = 1; }, "experts_at_once is 1");
  ExpectRefused([](Plan& p) { p.fp8.recipe = static_cast<Fp8Recipe>(5); }, "fp8.recipe is 5");
  ExpectRefused([](Plan& p) { p.fp8.recipe = Fp8Recipe::kRowwise, p.fp8.gathers_codes = true; },
                "fp8.gathers_codes beside fp8.recipe is rowwise, expected tensorwise or delayed");
  ExpectRefused([](Plan& p) { p.fp8.recipe = Fp8Recipe::kBlockwise, p.fp8.experts = true; },
                "fp8.experts beside fp8.recipe is blockwise, expected tensorwise or delayed");
  ExpectRefused([](Plan& p) { p.fp8.recipe = Fp8Recipe::kNone, p.fp8.attention = true; },
                "fp8.attention beside fp8.recipe is none, expected a recipe");
  ExpectRefused(
      [](Plan& p) {
        p.quantization = Quantization::kNone;
        p.fp8.recipe = Fp8Recipe::kRowwise, p.fp8.attention = true;
        p.model.attention_softcap = 50;
      },
      "attention_softcap beside fp8.attention is 50, expected 0");
  ExpectRefused(
      [](Plan& p) {
        p.fp8.recipe = Fp8Recipe::kDelayed;
        p.fp8.gathers_codes = p.fp8.keeps_weights = true;
        p.zero = 3;
      },
      "fp8.keeps_weights beside fp8.gathers_codes");
  ExpectRefused(
      [](Plan& p) {
        p.fp8.recipe = Fp8Recipe::kTensorwise;
        p.fp8.gathers_codes = p.lora.dora = true;
        p.lora.dropout = 0;
      },
      "fp8.gathers_codes beside lora.dora");
  ExpectRefused([](Plan& p) { p.fp8.excluded = {{1, 0}, {0, 0}}; }, "fp8.excluded is unsorted");
  ExpectRefused([](Plan& p) { p.fp8.excluded = {{99, 0}}; }, "fp8.excluded layer is 99");
  ExpectRefused(
      [](Plan& p) {
        p.device = DeviceKind::kCpu;
        p.snapshot_in_slices = true;
      },
      "snapshot_in_slices");
  ExpectRefused([](Plan& p) { p.sequence_len = 0; }, "sequence_len");
  ExpectRefused([](Plan& p) { p.micro_batch_bins = 0; }, "micro_batch_bins");
  ExpectRefused([](Plan& p) { p.max_documents_per_bin = 0; }, "max_documents_per_bin");
  ExpectRefused([](Plan& p) { p.lm_head_chunk_tokens = 0; }, "lm_head_chunk_tokens");
  ExpectRefused([](Plan& p) { p.lm_head_panel_bytes = -1; }, "lm_head_panel_bytes is -1");
  // The logits of texts that are answered lie there.
  ExpectRefused([](Plan& p) { p.lm_head_panel_bytes = 1; }, "lm_head_panel_bytes is 1");
  ExpectRefused([](Plan& p) { p.beta1 = 1.0; }, "beta1");
  ExpectRefused([&](Plan& p) { p.beta2 = nan; }, "beta2");
  ExpectRefused([](Plan& p) { p.eps = 0; }, "eps");
  ExpectRefused([](Plan& p) { p.generation.sequences = 257; }, "generation.sequences is 257");
  ExpectRefused([](Plan& p) { p.generation.length = 2049; }, "generation.length is 2049");
  ExpectRefused([](Plan& p) { p.generation.length = 0; }, "generation.length is 0");
  ExpectRefused([](Plan& p) { p.max_grad_norm = -1; }, "max_grad_norm");
  ExpectRefused([](Plan& p) { p.label_smoothing = 1; }, "label_smoothing");
  ExpectRefused([](Plan& p) { p.z_loss = -1; }, "z_loss");
  ExpectRefused([](Plan& p) { p.policy_loss.objective = "ppo"; }, "policy_loss.objective");
  ExpectRefused([](Plan& p) { p.policy_loss.objective = "clip"; },
                "label_smoothing and z_loss beside policy_loss is 0.1 and 0.0001");
  ExpectRefused(
      [](Plan& p) {
        p.label_smoothing = p.z_loss = 0;
        p.max_documents_per_bin = 8;
        p.document_loss.terms = {{"sigmoid", 1}};
        p.policy_loss.objective = "clip";
      },
      "policy_loss beside document_loss");
  ExpectRefused([](Plan& p) { p.recompute_every = 0; }, "recompute_every");
  ExpectRefused([](Plan& p) { p.recompute_every = 3; }, "recompute_every");
  ExpectRefused([](Plan& p) { p.fusions = {"everything"}; }, "fusions");
  ExpectRefused([](Plan& p) { p.gradient_sum = static_cast<GradientSum>(3); }, "gradient_sum");
  ExpectRefused([](Plan& p) { p.gradient_dtype = Precision::kFloat32; }, "gradient_sum");
  ExpectRefused([](Plan& p) { p.attention_workspace_bytes = 0; }, "attention_workspace_bytes");
  ExpectRefused([](Plan& p) { p.lora.rank = -1; }, "lora.rank");
  ExpectRefused([&](Plan& p) { p.lora.scale = nan; }, "lora.scale");
  ExpectRefused([](Plan& p) { p.lora.dropout = 1; }, "lora.dropout");
  ExpectRefused([](Plan& p) { p.lora.dora = true; }, "lora.dropout is 0.25, expected 0");
}

TEST(PlanTest, RefusesModelsOutOfRange) {
  ExpectRefused([](Plan& p) { p.model.vocab_size = 0; }, "vocab_size");
  ExpectRefused(
      [](Plan& p) { p.model.added_tokens = {.count = 2, .known = 512, .base_rows = 512}; },
      "vocab_size with added tokens is 512, expected 514");
  ExpectRefused([](Plan& p) { p.model.added_tokens = {.count = 2, .known = 9, .base_rows = 8}; },
                "added_tokens.known");
  ExpectRefused([](Plan& p) { p.model.hidden_size = int64_t{1} << 31; }, "hidden_size");
  ExpectRefused([](Plan& p) { p.model.intermediate_size = -1; }, "intermediate_size");
  ExpectRefused([](Plan& p) { p.model.num_layers = 0; }, "num_layers");
  ExpectRefused([](Plan& p) { p.model.num_heads = 0; }, "num_heads");
  ExpectRefused([](Plan& p) { p.model.num_kv_heads = 3; }, "num_kv_heads");
  ExpectRefused([](Plan& p) { p.model.head_dim = 31; }, "head_dim");
  ExpectRefused([](Plan& p) { p.model.rms_norm_eps = 0; }, "rms_norm_eps");
  ExpectRefused([](Plan& p) { p.model.architecture = "MambaForCausalLM"; },
                "model.architecture is \"MambaForCausalLM\", expected a family of this build");
  ExpectRefused([](Plan& p) { p.model.attention_softcap = -1; }, "attention_softcap");
  ExpectRefused([](Plan& p) { p.model.logit_softcap = -1; }, "logit_softcap");
  ExpectRefused([](Plan& p) { p.model.rope.type = "ntk"; }, "rope.type");
  ExpectRefused([](Plan& p) { p.model.rope.type = "longrope"; }, "rope.attention_factor");
  ExpectRefused(
      [](Plan& p) {
        p.model.rope.type = "longrope";
        p.model.rope.attention_factor = 1;
        p.model.rope.short_factors = {1, 2};
      },
      "rope.short_factors count");
  ExpectRefused([](Plan& p) { p.model.rope.rotated = 3; }, "rope.rotated is 3");
  ExpectRefused([](Plan& p) { p.model.rope.rotated = 1000; }, "rope.rotated is 1000");
  ExpectRefused([](Plan& p) { p.model.rope.query_scale_beta = -1; }, "query_scale_beta");
  ExpectRefused([](Plan& p) { p.model.window_rope = model::Rope{.theta = 0}; },
                "window_rope.theta");
  ExpectRefused([](Plan& p) { p.model.window_rope = model::Rope{.rotated = 2}; },
                "window_rope.rotated");
  ExpectRefused([](Plan& p) { SetLatent(&p).kv_rank = 0; }, "latent.kv_rank is 0");
  ExpectRefused([](Plan& p) { SetLatent(&p).q_rank = -1; }, "latent.q_rank is -1");
  ExpectRefused([](Plan& p) { SetLatent(&p).value = 0; }, "latent.value is 0");
  ExpectRefused([](Plan& p) { SetLatent(&p).nope = 22; }, "latent.rope is 8, expected 10");
  ExpectRefused([](Plan& p) { SetLatent(&p), p.model.rope.rotated = 6; }, "rope.rotated is 6");
  ExpectRefused([](Plan& p) { SetLatent(&p), p.model.num_kv_heads = 2; }, "num_kv_heads is 2");
  ExpectRefused([](Plan& p) { p.model.rope.type = "yarn"; }, "rope.beta_fast");
  ExpectRefused([](Plan& p) { p.model.unrotated_layers = {1, 1}; }, "unrotated_layers");
  ExpectRefused([](Plan& p) { p.model.unrotated_layers = {2}; }, "unrotated_layers");
  ExpectRefused([](Plan& p) { p.model.rope.theta = 0; }, "rope.theta");
  ExpectRefused([](Plan& p) { p.model.rope.factor = 0; }, "rope.factor");
  ExpectRefused([](Plan& p) { p.model.rope.low_freq_factor = 0; }, "low_freq_factor");
  ExpectRefused([](Plan& p) { p.model.rope.high_freq_factor = 0; }, "high_freq_factor");
  ExpectRefused([](Plan& p) { p.model.rope.original_max_position = 0; }, "original_max_position");
  ExpectRefused([](Plan& p) { p.model.layer_windows = {0}; }, "layer_windows");
  ExpectRefused([](Plan& p) { p.model.layer_windows = {0, -1}; }, "layer_windows");
}

// Invariant plan-4.
TEST(PlanTest, RefusesTablesOutOfRange) {
  ExpectRefused([](Plan& p) { p.parameters.clear(); }, "parameters");
  ExpectRefused([](Plan& p) { p.parameters[1].name = p.parameters[0].name; }, "unique");
  ExpectRefused([](Plan& p) { p.parameters[1].name = ""; }, "parameter name");
  ExpectRefused([](Plan& p) { p.parameters[1].kind = static_cast<model::Kind>(31); }, "kind");
  ExpectRefused([](Plan& p) { p.parameters[1].part = static_cast<model::Part>(31); }, "part");
  ExpectRefused([](Plan& p) { p.parameters[1].reach = static_cast<model::Reach>(31); }, "reach");
  ExpectRefused([](Plan& p) { p.parameters[1].tensor = 99; }, "tensor");
  ExpectRefused([](Plan& p) { p.parameters[1].batch = 99; }, "batch");
  ExpectRefused([](Plan& p) { p.parameters[1].layer = 2; }, "layer");
  ExpectRefused([](Plan& p) { p.parameters[1].rows = 0; }, "rows");
  ExpectRefused([](Plan& p) { p.parameters[1].cols = 0; }, "cols");
  ExpectRefused([](Plan& p) { p.parameters[1].unit = 4; }, "unit");
  ExpectRefused([](Plan& p) { p.parameters[1].group = 1; }, "group");
  ExpectRefused(
      [](Plan& p) {
        p.groups.clear();
        p.parameters[1].group = model::kFrozen;
        p.generation = {};
      },
      "groups");
  ExpectRefused([](Plan& p) { p.groups[0].lr_scale = 0; }, "lr_scale");
  ExpectRefused([](Plan& p) { p.groups[0].weight_decay = -1; }, "weight_decay");
  ExpectRefused([](Plan& p) { p.groups[0].expected_elements = 0; }, "expected_elements");
  ExpectRefused([](Plan& p) { p.groups.push_back(p.groups[0]); }, "group name");
  ExpectRefused([](Plan& p) { p.buffers[0].memory_class = static_cast<MemoryClass>(7); }, "class");
  ExpectRefused([](Plan& p) { p.buffers[0].bytes = 0; }, "bytes");
  ExpectRefused([](Plan& p) { p.buffers.clear(); }, "buffers");
  ExpectRefused([](Plan& p) { p.buffers[1].bytes = 1; }, "bytes of an alias");
  ExpectRefused([](Plan& p) { p.buffers[1].alias_of = "y"; }, "alias_of");
  ExpectRefused([](Plan& p) { p.buffers[1].name = "w"; }, "buffer name");
}

// Invariant plan-3.
TEST(PlanTest, RefusesUnknownFieldsAtEveryDepth) {
  const std::string bytes = SerializePlan(Full());
  v1::Plan message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  const auto refuse = [](const std::string& changed) {
    const auto parsed = ParsePlan(changed);
    return !parsed.ok() && parsed.status().ToString().find("does not know") != std::string::npos;
  };
  const std::string unknown("\xfa\x3e\x01x", 4);  // field 1007, one byte
  EXPECT_TRUE(refuse(bytes + unknown));
  v1::Plan deep = message;
  deep.mutable_model()
      ->mutable_rope()
      ->GetReflection()
      ->MutableUnknownFields(deep.mutable_model()->mutable_rope())
      ->AddVarint(1007, 1);
  EXPECT_TRUE(refuse(deep.SerializeAsString()));
  deep = message;
  deep.mutable_parameters(0)
      ->GetReflection()
      ->MutableUnknownFields(deep.mutable_parameters(0))
      ->AddVarint(1007, 1);
  EXPECT_TRUE(refuse(deep.SerializeAsString()));
}

TEST(PlanTest, RefusesGarbage) {
  const std::string bytes = SerializePlan(Full());
  EXPECT_FALSE(ParsePlan("").ok());
  EXPECT_FALSE(ParsePlan("not a plan").ok());
  EXPECT_FALSE(ParsePlan(bytes + bytes).ok());  // merges as a message, is no plan
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    // A cut behind the last required field leaves a shorter plan, with another hash.
    const auto parsed = ParsePlan(bytes.substr(0, cut));
    EXPECT_TRUE(!parsed.ok() || !parsed->buffers.empty()) << cut;
  }
}

}  // namespace
}  // namespace coxswain::plan
