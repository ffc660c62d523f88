// A plan altered in any field that the engine reads runs otherwise or is refused. Invariant
// engine-8.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/model/family.h"
#include "controller/planner/memory/buffer_table.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"

// AddressSanitizer asks for its options here; without this one it ends the process where malloc
// would return null.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming): its name for it
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace coxswain::engine {
namespace plan_fields_test {
namespace {

// Everything that an observer of the engine can see of a short job, or the error.
std::string Outcome(const plan::Plan& plan, int64_t documents_per_bin) {
  const support::ScratchFolder folder;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(plan, 0, "");
  if (!engine.ok()) return engine.status().ToString();
  std::string seen;
  const std::vector<int32_t> lengths(static_cast<size_t>(documents_per_bin), 10);
  for (int64_t step = 0; step < 3; ++step) {
    const BinBatch bins = RandomBins({{17, 9}, {31, 3}, lengths}, 131, static_cast<uint64_t>(step));
    const absl::StatusOr<StepStats> stats = (*engine)->Train(MakeStep(step, bins));
    if (!stats.ok()) return stats.status().ToString();
    absl::StrAppend(&seen, stats->loss_sum, " ", stats->grad_norm, " ");
  }
  if (const absl::Status status = (*engine)->Snapshot(3); !status.ok()) return status.ToString();
  const auto files = (*engine)->SaveShard(folder.path(), 3);
  return absl::StrCat(seen, files.ok() ? files->front().blocks.Root() : files.status().ToString());
}

using Alter = std::function<void(plan::Plan*)>;

struct Field {
  std::string name;
  Alter alter;
};

model::Parameter& Find(plan::Plan* plan, const std::string& part_of_name, int32_t layer) {
  for (model::Parameter& parameter : plan->parameters) {
    const bool named = parameter.name.find(part_of_name) != std::string::npos;
    if (named && parameter.layer == layer) return parameter;
  }
  throw std::runtime_error("no such parameter");
}

plan::Buffer& FindBuffer(plan::Plan* plan, const std::string& name) {
  for (plan::Buffer& buffer : plan->buffers) {
    if (buffer.name == name) return buffer;
  }
  throw std::runtime_error("no such buffer");
}

// A plan in which every setting is in force.
plan::Plan BasePlan() {
  model::ModelConfig config = SmallConfig();
  config.qk_norm = true;
  config.layer_windows = {0, 7, 0};
  config.rope.type = "llama3";
  config.rope.factor = 8;
  config.rope.original_max_position = 64;
  PlanOptions options;
  options.init = "random";
  options.lora_rank = 4;
  options.lora_scale = 2.0;
  options.dropout = 0.1;
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.max_documents_per_bin = 3;
  options.recompute = "block";
  plan::Plan plan = MakePlan(config, options);
  plan.max_grad_norm = 1e-3;
  plan.label_smoothing = 0.1;
  plan.z_loss = 1e-3;
  return plan;
}

// Norms that count from one begin at zero: the same numbers in a drawn model.
std::vector<Field> ModelFields() {
  return {
      {"architecture", [](plan::Plan* p) { p->model.architecture = "Glm4ForCausalLM"; }},
      {"vocab_size", [](plan::Plan* p) { p->model.vocab_size = 132; }},
      {"hidden_size", [](plan::Plan* p) { p->model.hidden_size = 44; }},
      {"intermediate_size", [](plan::Plan* p) { p->model.intermediate_size = 70; }},
      {"num_layers", [](plan::Plan* p) { p->model.num_layers = 2; }},
      {"num_heads", [](plan::Plan* p) { p->model.num_heads = 2; }},
      {"num_kv_heads", [](plan::Plan* p) { p->model.num_kv_heads = 4; }},
      {"head_dim", [](plan::Plan* p) { p->model.head_dim = 6; }},
      {"rms_norm_eps", [](plan::Plan* p) { p->model.rms_norm_eps = 1e-3; }},
      {"tie_embeddings", [](plan::Plan* p) { p->model.tie_embeddings = false; }},
      {"qkv_bias", [](plan::Plan* p) { p->model.qkv_bias = false; }},
      {"output_bias", [](plan::Plan* p) { p->model.output_bias = true; }},
      {"mlp_bias", [](plan::Plan* p) { p->model.mlp_bias = true; }},
      {"qk_norm", [](plan::Plan* p) { p->model.qk_norm = false; }},
      {"activation", [](plan::Plan* p) { p->model.activation = "gelu"; }},
      {"embedding_scale", [](plan::Plan* p) { p->model.embedding_scale = 2; }},
      {"attention_scale", [](plan::Plan* p) { p->model.attention_scale = 0.5; }},
      {"logit_scale", [](plan::Plan* p) { p->model.logit_scale = 0.5; }},
      {"attention_softcap", [](plan::Plan* p) { p->model.attention_softcap = 0.01; }},
      {"logit_softcap", [](plan::Plan* p) { p->model.logit_softcap = 0.01; }},
      {"window_rope",
       [](plan::Plan* p) {
         p->model.layer_windows[1] = 24;
         p->model.window_rope = model::Rope{.theta = 7};
       }},
      {"rope.rotated", [](plan::Plan* p) { p->model.rope.rotated = 4; }},
      {"rope.interleaved", [](plan::Plan* p) { p->model.rope.interleaved = true; }},
      {"rope.query_scale_beta",
       [](plan::Plan* p) {
         p->model.rope.query_scale_beta = 1;
         p->model.rope.original_max_position = 4;
       }},
      {"unrotated_layers", [](plan::Plan* p) { p->model.unrotated_layers = {1}; }},
      {"layer_windows", [](plan::Plan* p) { p->model.layer_windows[1] = 6; }},
      {"rope.type", [](plan::Plan* p) { p->model.rope.type = "default"; }},
      {"rope.theta", [](plan::Plan* p) { p->model.rope.theta = 5000; }},
      {"rope.factor", [](plan::Plan* p) { p->model.rope.factor = 4; }},
      {"rope.low_freq_factor", [](plan::Plan* p) { p->model.rope.low_freq_factor = 2; }},
      {"rope.high_freq_factor", [](plan::Plan* p) { p->model.rope.high_freq_factor = 8; }},
      {"rope.original_max_position",
       [](plan::Plan* p) { p->model.rope.original_max_position = 128; }},
  };
}

std::vector<Field> TableFields() {
  const std::string a = "q_proj.lora_A", norm = "input_layernorm.weight";
  return {
      {"parameter.name", [=](plan::Plan* p) { Find(p, a, 1).name += "x"; }},
      {"parameter.part", [=](plan::Plan* p) { Find(p, norm, 1).part = model::Part::kMagnitude; }},
      {"parameter.tensor", [=](plan::Plan* p) { ++Find(p, norm, 1).tensor; }},
      {"parameter.layer", [=](plan::Plan* p) { Find(p, norm, 1).layer = 2; }},
      {"parameter.rows", [=](plan::Plan* p) { Find(p, norm, 1).rows += 1; }},
      {"parameter.cols", [=](plan::Plan* p) { Find(p, norm, 1).cols += 1; }},
      {"parameter.unit", [=](plan::Plan* p) { Find(p, norm, 1).unit = 0; }},
      {"parameter.group", [=](plan::Plan* p) { Find(p, a, 1).group = 1; }},
      {"parameter order", [](plan::Plan* p) { std::swap(p->parameters[2], p->parameters[3]); }},
      {"group.lr_scale", [](plan::Plan* p) { p->groups[1].lr_scale = 16; }},
      {"group.weight_decay", [](plan::Plan* p) { p->groups[0].weight_decay = 0.5; }},
      {"group.expected_elements", [](plan::Plan* p) { p->groups[0].expected_elements += 1; }},
      {"buffer.name", [](plan::Plan* p) { FindBuffer(p, "adam.m").name = "adam.n"; }},
      {"buffer.memory_class",
       [](plan::Plan* p) { FindBuffer(p, "adam.m").memory_class = plan::MemoryClass::kWorkspace; }},
      {"buffer.bytes", [](plan::Plan* p) { FindBuffer(p, "dqkv").bytes -= 1; }},
      {"buffer.alias_of",
       [](plan::Plan* p) { FindBuffer(p, "layer1.ln2").alias_of = "layer0.ln1"; }},
      {"one buffer less", [](plan::Plan* p) { p->buffers.pop_back(); }},
      {"one buffer more",
       [](plan::Plan* p) {
         p->buffers.push_back({"spare", plan::MemoryClass::kWorkspace, 64, ""});
       }},
  };
}

std::vector<Field> SettingFields() {
  return {
      {"recipe_hash", [](plan::Plan* p) { p->recipe_hash[0] = 's'; }},
      {"init", [](plan::Plan* p) { p->init = BaseInit::kPretrained; }},
      {"init_seed", [](plan::Plan* p) { p->init_seed = 43; }},
      {"seed", [](plan::Plan* p) { p->seed = 43; }},
      {"optimizer", [](plan::Plan* p) { p->optimizer = OptimizerKind::kAdamW8bit; }},
      {"optimizer of equal rows",
       [](plan::Plan* p) {
         p->optimizer = OptimizerKind::kAdamWBf16;
         Finish(p);
       }},
      {"lora.rank", [](plan::Plan* p) { p->lora.rank = 2; }},
      {"lora.scale", [](plan::Plan* p) { p->lora.scale = 1.0; }},
      {"lora.dropout", [](plan::Plan* p) { p->lora.dropout = 0.2; }},
      {"lora.dora", [](plan::Plan* p) { p->lora.dora = true; }},
      {"lora.init_from", [](plan::Plan* p) { p->lora.init_from = "/nowhere"; }},
      {"replicate", [](plan::Plan* p) { p->replicate = 2; }},
      {"shard", [](plan::Plan* p) { p->shard = 2; }},
      {"zero", [](plan::Plan* p) { p->zero = 1; }},
      {"sequence_len", [](plan::Plan* p) { p->sequence_len = 30; }},
      {"micro_batch_bins", [](plan::Plan* p) { p->micro_batch_bins = 3; }},
      {"max_documents_per_bin", [](plan::Plan* p) { p->max_documents_per_bin = 2; }},
      {"recompute", [](plan::Plan* p) { p->recompute = RecomputeLevel::kNone; }},
      {"lm_head_chunk_tokens", [](plan::Plan* p) { p->lm_head_chunk_tokens += 1; }},
      {"lm_head_panel_bytes", [](plan::Plan* p) { p->lm_head_panel_bytes = 1 << 20; }},
      {"beta1", [](plan::Plan* p) { p->beta1 = 0.8; }},
      {"beta2", [](plan::Plan* p) { p->beta2 = 0.99; }},
      {"eps", [](plan::Plan* p) { p->eps = 1e-4; }},
      {"max_grad_norm", [](plan::Plan* p) { p->max_grad_norm = 2e-3; }},
      {"label_smoothing", [](plan::Plan* p) { p->label_smoothing = 0.2; }},
      {"z_loss", [](plan::Plan* p) { p->z_loss = 2e-3; }},
      {"router_bias_rate", [](plan::Plan* p) { p->router_bias_rate = 0.5; }},
      {"compute_dtype", [](plan::Plan* p) { p->compute_dtype = Precision::kBfloat16; }},
      {"quantization", [](plan::Plan* p) { p->quantization = Quantization::kNf4; }},
  };
}

void ExpectEachMatters(const std::vector<Field>& fields) {
  const std::string unaltered = Outcome(BasePlan(), 3);
  ASSERT_EQ(Outcome(BasePlan(), 3), unaltered) << "two equal jobs differ";
  for (const Field& field : fields) {
    plan::Plan plan = BasePlan();
    field.alter(&plan);
    ASSERT_FALSE(plan == BasePlan()) << field.name;
    EXPECT_NE(Outcome(plan, 3), unaltered) << field.name << " is not read";
  }
}

TEST(PlanFieldsTest, TheBasePlanRuns) {
  EXPECT_EQ(Outcome(BasePlan(), 3).find("ARGUMENT"), std::string::npos) << Outcome(BasePlan(), 3);
  EXPECT_NE(Outcome(BasePlan(), 4).find("4 documents"), std::string::npos);
}

// Some reach the engine in the ops of the blocks alone, which the planner makes of them.
TEST(PlanFieldsTest, EachModelFieldMatters) {
  std::vector<Field> fields = ModelFields();
  for (Field& field : fields) {
    field.alter = [alter = field.alter](plan::Plan* plan) {
      alter(plan);
      plan->architecture = model::ArchitectureOf(plan->model);
    };
  }
  ExpectEachMatters(fields);
}
TEST(PlanFieldsTest, EachTableFieldMatters) { ExpectEachMatters(TableFields()); }
TEST(PlanFieldsTest, EachSettingMatters) { ExpectEachMatters(SettingFields()); }

// Read with init "pretrained" only, and in messages only.
TEST(PlanFieldsTest, ModelPathAndGroupNameMatter) {
  plan::Plan plan = BasePlan();
  plan.init = BaseInit::kPretrained;
  plan.model_path = "/nowhere/a";
  const std::string a = Outcome(plan, 3);
  plan.model_path = "/nowhere/b";
  EXPECT_NE(Outcome(plan, 3), a);
  plan.groups[0].expected_elements += 1;
  const std::string named = Outcome(plan, 3);
  plan.groups[0].name = "other";
  EXPECT_NE(Outcome(plan, 3), named);
}

// Invariant engine-9.
TEST(PlanFieldsTest, MemoryIsThatOfTheTable) {
  const plan::Plan plan = BasePlan();
  const auto engine = Engine::Prepare(plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  uint64_t total = 0;
  for (const plan::Buffer& buffer : plan.buffers) total += static_cast<uint64_t>(buffer.bytes);
  const MemoryBytes memory = (*engine)->memory();
  EXPECT_EQ(
      memory.weights + memory.gradients + memory.optimizer + memory.activations + memory.workspace,
      total);
  EXPECT_GE(memory.peak, total);
}

// An algorithm of a GPU may take less than its ceiling in the plan.
TEST(PlanFieldsTest, WorkspaceThatNoAlgorithmTakesIsGivenBack) {
  plan::Plan plan = BasePlan();
  plan.device = DeviceKind::kCuda;
  plan.buffers = planner::BufferTable(plan);
  const auto exact = Engine::Prepare(plan, 0, "");
  ASSERT_TRUE(exact.ok()) << exact.status();
  FindBuffer(&plan, "scratch").bytes += int64_t{1} << 30;
  const auto engine = Engine::Prepare(plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->memory().workspace, (*exact)->memory().workspace);
  EXPECT_EQ((*engine)->memory().activations, (*exact)->memory().activations);
}

TEST(PlanFieldsTest, ABufferThatCannotBeHadIsNamed) {
  plan::Plan plan = BasePlan();
  FindBuffer(&plan, "head.logits").bytes = int64_t{1} << 50;
  const absl::Status status = Engine::Prepare(plan, 0, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(std::string(status.message()).find("head.logits"), std::string::npos) << status;
}

}  // namespace
}  // namespace plan_fields_test
}  // namespace coxswain::engine
