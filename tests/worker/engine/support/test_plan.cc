#include "tests/worker/engine/support/test_plan.h"

#include <stdexcept>
#include <utility>

#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "common/model/read/score_config.h"
#include "common/model/saved_modules.h"
#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/fusions/fused_ops.h"
#include "controller/planner/memory/buffer_table.h"
#include "kernels/loss/cut_cross_entropy.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/memory/weights.h"

namespace coxswain::engine {
namespace {

template <typename T>
T Value(absl::StatusOr<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return std::move(result).value();
}

void AssignGroups(const PlanOptions& options, plan::Plan* plan) {
  const bool lora = options.lora_rank > 0;
  plan->groups = {{lora ? "lora_a" : "weights", 1.0, options.weight_decay, 0},
                  {lora ? "lora_b" : "norms_and_biases", lora ? options.lora_plus_ratio : 1.0,
                   options.weight_decay, 0}};
  if (options.dora) plan->groups.push_back({"lora_magnitude", 1.0, options.weight_decay, 0});
  for (model::Parameter& parameter : plan->parameters) {
    const bool adapter = model::IsAdapter(parameter);
    if ((lora && !adapter) || model::IsBuffer(parameter)) continue;
    const bool second = lora ? !model::IsLoraA(parameter) : parameter.cols == 1;
    parameter.group = model::IsMagnitude(parameter) ? 2 : second ? 1 : 0;
  }
  if (options.modules_to_save.empty()) return;
  const std::vector<bool> saved =
      Value(model::SavedModules(plan->parameters, plan->model, options.modules_to_save));
  for (size_t i = 0; i < saved.size(); ++i) {
    if (saved[i]) plan->parameters[i].group = static_cast<int32_t>(plan->groups.size());
  }
  plan->groups.push_back({"saved_modules", 1.0, options.weight_decay, 0});
}

}  // namespace

void Finish(plan::Plan* plan) {
  for (plan::ParameterGroup& group : plan->groups) group.expected_elements = 0;
  for (const model::Parameter& parameter : plan->parameters) {
    if (!parameter.trainable()) continue;
    plan->groups[static_cast<size_t>(parameter.group)].expected_elements += parameter.elements();
  }
  plan->fusions = plan::ApplicableFusions(*plan);
  plan->buffers = planner::BufferTable(*plan);
}

plan::Plan MakePlan(const model::ModelConfig& config, const PlanOptions& options) {
  plan::Plan plan;
  plan.job = "test";
  plan.device = *FromString<DeviceKind>(TestDevice());
  plan.recipe_hash = std::string(32, 'r');
  plan.model_path = options.model_path.empty() ? "/nowhere" : options.model_path;
  plan.init = *FromString<BaseInit>(options.init);
  plan.model = config;
  plan.architecture = model::ArchitectureOf(config);
  plan.parameters = model::BaseParameterTable(plan.architecture);
  if (options.lora_rank > 0) {
    plan.parameters = Value(model::WithLora(plan.parameters, config,
                                            {options.lora_rank, options.lora_targets, options.dora,
                                             options.lora_parameters, options.gate_up_rank}));
    plan.lora = {options.lora_rank, options.lora_scale, options.dropout, options.init_from,
                 options.dora};
  }
  AssignGroups(options, &plan);
  plan.optimizer = *FromString<OptimizerKind>(options.optimizer);
  plan.replicate = options.replicate;
  plan.shard = options.shard;
  plan.zero = options.zero;
  plan.weight_slots = options.weight_slots;
  plan.sequence_len = options.sequence_len;
  plan.micro_batch_bins = options.micro_batch_bins;
  plan.router_losses = {.balance = config.mixture.aux_loss, .z = 0, .by_micro_batch = true};
  plan.max_documents_per_bin = options.max_documents_per_bin;
  plan.lm_head_chunk_tokens = options.head_chunk;
  plan.recompute = *FromString<RecomputeLevel>(options.recompute);
  plan.recompute_every = options.recompute_every;
  plan.compute_dtype = *FromString<Precision>(options.compute_dtype);
  plan.quantization = options.quantization.empty()
                          ? config.quantization
                          : *FromString<Quantization>(options.quantization);
  plan.fp8 = options.fp8;
  plan.master_dtype = *FromString<Precision>(options.master_dtype);
  plan.gradient_dtype = *FromString<Precision>(options.gradient_dtype);
  plan.gradient_sum = options.gradient_sum;
  Finish(&plan);
  return plan;
}

void CutHead(plan::Plan* plan) {
  const bool half = plan->compute_dtype == Precision::kBfloat16;
  const kernels::CutCrossEntropySpec spec{
      .dtype = half ? kernels::DType::kBFloat16 : kernels::DType::kFloat32,
      .hidden = plan->model.hidden_size,
      .vocab = plan->model.vocab_size};
  plan->lm_head_panel_bytes =
      kernels::CutCrossEntropyWorkspaceBytes(spec, plan::BatchExtents(*plan).target_rows);
  Finish(plan);
}

plan::Plan MakePlan(const PlanOptions& options) {
  model::ModelConfig config = Value(model::ReadModelConfig(options.model_path));
  const model::ScoreConfig scores = Value(model::ReadScoreConfig(options.model_path));
  if (scores.labels > 0) {
    config.labels = scores.labels;
    config.pad_token = scores.pad_token;
    config.tie_embeddings = false;
  }
  return MakePlan(config, options);
}

model::ModelConfig SmallConfig() {
  model::ModelConfig config;
  config.architecture = "Qwen2ForCausalLM";
  config.vocab_size = 131;
  config.hidden_size = 48;
  config.intermediate_size = 72;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 12;
  config.tie_embeddings = true;
  config.qkv_bias = true;
  config.layer_windows = {0, 0, 0};
  return config;
}

model::ModelConfig LongRopeConfig(int64_t original) {
  model::ModelConfig config = SmallConfig();
  config.rope.type = "longrope";
  config.rope.original_max_position = original;
  config.rope.attention_factor = 1.1;
  for (int64_t i = 0; i < config.rotated_dim() / 2; ++i) {
    config.rope.short_factors.push_back(1.0 + 0.1 * static_cast<double>(i));
    config.rope.long_factors.push_back(3.0 + 0.5 * static_cast<double>(i));
  }
  return config;
}

model::ModelConfig BlockyConfig() {
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 72;
  config.intermediate_size = 90;
  config.num_heads = 6;
  return config;
}

}  // namespace coxswain::engine
