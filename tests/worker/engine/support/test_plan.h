// Plans for tests, made as the planner makes them: model directory -> config -> table -> buffers.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_PLAN_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/model_config.h"
#include "common/plan/plan.h"

namespace coxswain::engine {

struct PlanOptions {
  std::string model_path;  // for loading; with init "random" never opened
  std::string init = "pretrained";
  int64_t lora_rank = 0;  // 0: full fine-tuning
  std::vector<std::string> lora_targets = {"all-linear"};
  std::vector<std::string> lora_parameters = {};
  int64_t gate_up_rank = 0;  // of stacks of gate and up; 0: lora_rank
  double lora_scale = 2.0;
  double lora_plus_ratio = 1.0;
  double dropout = 0.0;
  bool dora = false;
  std::string init_from;
  std::vector<std::string> modules_to_save;
  double weight_decay = 0.01;
  std::string optimizer = "adamw";
  int32_t replicate = 1, shard = 1, zero = 0;
  int32_t weight_slots = 2;
  int64_t sequence_len = 128;
  int64_t micro_batch_bins = 1;
  int64_t max_documents_per_bin = 8;
  int64_t head_chunk = 40;   // smaller than the batches, so that chunks have a tail
  std::string quantization;  // empty: that of the model's files
  plan::Fp8 fp8 = {};
  std::string recompute = "none";
  int64_t recompute_every = 1;
  std::string compute_dtype = "float32", master_dtype = "float32", gradient_dtype = "float32";
  plan::GradientSum gradient_sum = plan::GradientSum::kNearest;
};

// Throws std::runtime_error with the status of what failed.
plan::Plan MakePlan(const model::ModelConfig& config, const PlanOptions& options);
plan::Plan MakePlan(const PlanOptions& options);  // config of options.model_path

// Recomputes what follows from parameters and settings: expected elements and the buffer table.
void Finish(plan::Plan* plan);

// Gives the plan a cut head with the least workspace: one tile of the vocabulary at a time.
void CutHead(plan::Plan* plan);

// A model of a few hundred thousand parameters with odd extents, for init "random".
model::ModelConfig SmallConfig();

// It with longrope: a document of more than `original` tokens is a long one.
model::ModelConfig LongRopeConfig(int64_t original);

// One whose matrices are mostly long enough for states in blocks (common/plan/optimizer_states.h):
// q and o, gate and down are, k and v are too small, up begins inside a block of gate and up.
model::ModelConfig BlockyConfig();

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_PLAN_H_
