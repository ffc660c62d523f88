// A validated job, every default filled in. Keys, ranges and defaults: the table in schema.cc, from
// which validation and the reference page come.
#ifndef COXSWAIN_COMMON_CONFIG_JOB_SPEC_H_
#define COXSWAIN_COMMON_CONFIG_JOB_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace coxswain::config {

enum class Adapter { kNone, kLora };
enum class DatasetFormat { kAlpaca, kChat, kCompletion };
enum class PromptStyle { kAlpaca, kChat };
enum class OnBadRecord { kError, kSkip };
enum class ExcessLength { kTruncate, kDrop, kError, kSplit };
enum class PackingStrategy { kBestFit, kBestFitDecreasing, kFirstFit, kNone };
enum class LrScheduler {
  kCosine,
  kLinear,
  kConstant,
  kCosineWithRestarts,
  kPolynomial,
  kInverseSqrt,
  kWarmupStableDecay
};
enum class DecayType { kLinear, kCosine, kOneMinusSqrt };
enum class Recompute { kAuto, kNone, kNormSwiglu, kFfn, kBlock };
enum class Device { kCpu, kCuda, kAuto };

struct LoraSpec {
  int64_t r = 32;
  double alpha = 64.0;
  double dropout = 0.0;
  std::vector<std::string> target_modules = {"all-linear"};
  double loraplus_lr_ratio = 16.0;  // 1: plain LoRA
  double loraplus_lr_embedding = 1e-6;
  bool use_rslora = false;
  bool use_dora = false;
  std::optional<std::string> init_from;  // absolute directory
};

struct DatasetSpec {
  std::string path;  // absolute
  DatasetFormat format = DatasetFormat::kAlpaca;
  PromptStyle prompt_style = PromptStyle::kAlpaca;
  double weight = 1.0;  // copies of each record per pass
};

struct PackingSpec {
  PackingStrategy strategy = PackingStrategy::kBestFit;
  int64_t window = 100000;  // documents considered at once
  int64_t max_documents_per_bin = 32;
};

// Only the schedulers that read them take these.
struct LrSchedulerKwargs {
  int64_t num_cycles = 1;                  // cosine_with_restarts
  double power = 1.0;                      // polynomial
  std::optional<int64_t> timescale;        // inverse_sqrt
  std::optional<int64_t> num_decay_steps;  // warmup_stable_decay; absent: decay_ratio of all steps
  double decay_ratio = 0.1;
  DecayType decay_type = DecayType::kCosine;
};

struct TrainSpec {
  std::optional<int64_t> global_batch_size;  // bins
  std::optional<int64_t> micro_batch_size;   // bins per rank and micro-step; absent: auto
  int64_t gradient_accumulation_steps = 1;
  std::optional<double> num_epochs;  // passes; exactly one of num_epochs, max_steps is set
  std::optional<int64_t> max_steps;
  double learning_rate = 1e-4;
  LrScheduler lr_scheduler = LrScheduler::kCosine;
  LrSchedulerKwargs lr_scheduler_kwargs;
  std::optional<double> warmup_ratio;  // at most one of warmup_ratio, warmup_steps is set
  std::optional<int64_t> warmup_steps;
  double min_lr_ratio = 0.0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.01;
  bool decay_norm_and_bias = true;
  double max_grad_norm = 1.0;
  double label_smoothing = 0.0, z_loss = 0.0;
  uint64_t seed = 42;
};

struct JobSpec {
  std::string name;
  std::map<std::string, std::string> labels;

  std::string model_path;           // absolute directory
  std::string model_name = {};      // as an export names it; empty: by BaseModelName
  std::string init = "pretrained";  // "pretrained" | "random"
  uint64_t init_seed = 0;
  std::string method = "sft";  // "sft" | "pretrain"
  Adapter adapter = Adapter::kNone;
  LoraSpec lora;
  std::vector<DatasetSpec> datasets;
  std::vector<DatasetSpec> test_datasets;  // exclusive with val_set_size
  std::optional<double> val_set_size;      // < 1: fraction, >= 1: count
  std::string chat_template = "chatml";
  bool train_on_inputs = false;
  OnBadRecord on_bad_record = OnBadRecord::kError;
  int64_t sequence_len = 2048;
  ExcessLength excess_length = ExcessLength::kTruncate;
  PackingSpec packing;
  TrainSpec train;
  Recompute recompute = Recompute::kAuto;
  int64_t recompute_every = 1;  // blocks of a segment; above 1 only with kBlock
  // Resolved from precision.compute and the device; "auto" while the device is.
  std::string compute_dtype = "float32";
  // "float32" | "bfloat16" | "auto": by memory, with compute bfloat16 only.
  std::string master_dtype = "float32", gradient_dtype = "float32";
  bool attention_deterministic = true;
  std::optional<double> attention_workspace_gib;  // nullopt: by what memory is left

  int64_t eval_steps = 100;  // 0: only at step 0 and the end
  std::optional<int64_t> early_stopping_patience;
  std::string output_dir;  // absolute
  int64_t save_steps = 100;
  int64_t save_total_limit = 3;
  std::string resume = "auto";  // "auto" | "never" | "<job>[:step]" | absolute path
  bool export_merge = false;
  std::string export_dtype = "source";  // "source" | "float32" | "bfloat16" | "float16"
  int64_t export_max_shard_bytes = 5000000000;

  Device device = Device::kCpu;
  int64_t workers = 1;  // 0: auto
  // Absent: by the planner. The rules allow only what goes together and with `workers`.
  std::optional<int64_t> replicate, shard, zero, resident_blocks;
  bool overlap = true;  // of collectives and compute
  int64_t priority = 0;
  int64_t max_restarts = 10;  // since the last checkpoint that was new
  int64_t max_restarts_total = 1000;
  int64_t logging_steps = 1;
};

// Neither device nor workers is left to be chosen.
inline bool HasChosenResources(const JobSpec& job) {
  return job.device != Device::kAuto && job.workers > 0;
}

inline const char* DeviceName(Device device) {
  if (device == Device::kAuto) return "auto";
  return device == Device::kCuda ? "cuda" : "cpu";
}

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_JOB_SPEC_H_
