// A validated job, every default filled in. Keys, ranges and defaults: the table in schema.cc, from
// which validation and the reference page come. A spec that BuildSpec did not fill holds nothing.
#ifndef COXSWAIN_COMMON_CONFIG_JOB_SPEC_H_
#define COXSWAIN_COMMON_CONFIG_JOB_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/words.h"

namespace coxswain::config {

enum class Adapter { kNone, kLora };
// In the order in which releases learned them: prepared data is named after the numbers.
enum class DatasetFormat {
  kAlpaca,
  kChat,
  kCompletion,
  kSharegpt,
  kPromptCompletion,
  kInputOutput,
  kTokenized,
  kAuto,
  kPreference,          // pairs
  kUnpairedPreference,  // single completions with a label
  kClassification       // texts with classes or numbers
};
enum class PromptStyle { kAlpaca, kChat };
enum class SpecialTokens { kAuto, kPlain, kContent };
enum class TrainOn { kAll, kLast, kSplit };
enum class TrainOnEos { kTurn, kLast, kAll, kNone };
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
enum class LossHead { kAuto, kChunked, kCut };
enum class Device { kCpu, kCuda, kAuto };
enum class Tracker { kTensorBoard, kWandb, kJsonLines };

// A model or dataset of the Hugging Face Hub.
struct HubSource {
  std::string id;  // "org/name"; empty: it is none of the Hub
  // As the job names it. Once the job is accepted, a commit, or what a URL held then.
  std::string revision;
};

struct LoraSpec {
  int64_t r{};
  std::optional<int64_t> gate_up_r;  // of stacks of gate and up; nullopt: r
  double alpha{};
  double dropout{};
  std::vector<std::string> target_modules;
  std::vector<std::string> target_parameters;  // stacks of experts, weights of routers
  double loraplus_lr_ratio{};                  // 1: plain LoRA
  double loraplus_lr_embedding{};
  bool use_rslora{};
  bool use_dora{};
  std::optional<std::string> init_from;  // absolute directory
  std::vector<std::string> modules_to_save;
};

// The experts of a mixture, and their router.
struct MoeSpec {
  std::optional<double> aux_loss_coef;  // of the balancing loss; nullopt: the model's
  bool aux_loss_by_micro_batch{};       // over one pool of a micro-step; else of each bin
  double router_z_loss{};
  std::optional<bool> trains_router;  // nullopt: with the whole model, not beside an adapter
  std::optional<double> bias_rate;    // of balance: bias; nullopt: balance: none
};

// Names of the fields of a record.
struct RecordFields {
  std::string messages;  // empty: messages or conversations
  std::string tools, system;
  std::string instruction, input, output, history;
  std::string prompt, completion;
  std::string chosen, rejected;  // empty: chosen, rejected, or chosen_response, rejected_response
  std::string margin;            // of a pair; empty: it is not read
  std::string label;             // empty: label or kto_tag, of classification label or labels
  std::string text;
  std::string role, content;                 // of a message; empty: by the format
  std::map<std::string, std::string> roles;  // what records call a role -> the role
};

struct DatasetSpec {
  // Absolute: a file, a folder or a glob. Of `hub` and `url`, where the cache has it, or will.
  std::string path;
  HubSource hub{};
  std::string url{};                      // "https://..."; empty: it is not downloaded
  std::string name{};                     // of the repository's config; empty: the default one
  std::string data_dir{};                 // below the repository's root; empty: the root
  bool converted{};                       // `hub` is at a commit of the Hub's own copy in Parquet
  std::vector<std::string> data_files{};  // names or globs below the folder `path`
  std::optional<std::string> split{};     // of the folder's files; absent: that of the source's use
  std::optional<int64_t> max_samples{};   // records
  bool held_out{};                        // of test_datasets
  DatasetFormat format{};
  PromptStyle prompt_style{};
  SpecialTokens special_tokens{};
  double weight{};  // copies of each record per pass
  RecordFields fields{};
};

struct PackingSpec {
  PackingStrategy strategy{};
  int64_t window{};  // documents considered at once
  int64_t max_documents_per_bin{};
};

// Only the schedulers that read them take these.
struct LrSchedulerKwargs {
  int64_t num_cycles{};                    // cosine_with_restarts
  double power{};                          // polynomial
  std::optional<int64_t> timescale;        // inverse_sqrt
  std::optional<int64_t> num_decay_steps;  // warmup_stable_decay; absent: decay_ratio of all steps
  double decay_ratio{};
  DecayType decay_type{};
};

struct TrainSpec {
  std::optional<int64_t> global_batch_size;  // bins
  std::optional<int64_t> micro_batch_size;   // bins per rank and micro-step; absent: auto
  int64_t gradient_accumulation_steps{};
  std::optional<double> num_epochs;  // passes; exactly one of num_epochs, max_steps is set
  std::optional<int64_t> max_steps;
  double learning_rate{};
  LrScheduler lr_scheduler{};
  LrSchedulerKwargs lr_scheduler_kwargs;
  std::optional<double> warmup_ratio;  // at most one of warmup_ratio, warmup_steps is set
  std::optional<int64_t> warmup_steps;
  double min_lr_ratio{};
  OptimizerKind optimizer{};
  double beta1{}, beta2{}, eps{};
  double weight_decay{};
  bool decay_norm_and_bias{};
  double max_grad_norm{};
  double label_smoothing{}, z_loss{};
  uint64_t seed{};
};

// The loss of a preference method, with the method's own defaults. Of a method that has no
// preference, empty.
struct PreferenceSpec {
  // Words of the schema, at least one; their sum is trained, each times its weight.
  std::vector<std::string> loss;
  std::vector<double> loss_weights;  // one for each loss
  double beta{};
  double label_smoothing{};  // probability that a label is wrong
  double gamma{};            // simpo: margin of rewards
  double nll_weight{};       // of the negative log-likelihood beside the loss: orpo, cpo, simpo
  std::string reference;     // "start" | "base" | "cached" | "none"
  double desirable_weight{}, undesirable_weight{};  // kto
};

// The loss of method reward.
struct RewardSpec {
  double center_coefficient = 0;  // c of the mean over pairs of c (s_chosen + s_rejected)^2
};

// The classes of method classification.
struct ClassificationSpec {
  int64_t num_labels = 0;                // scores of a text; 0: of another method
  std::vector<std::string> label_names;  // of each class by its index; empty: they have none
  std::string problem = "single_label";  // | "multi_label" | "regression"
};

// What is answered, and how: of eval.sample_prompts greedily, of method generate as it says.
// How a prompt is asked: as one user message of the chat template, as an Alpaca record's
// instruction, or as it is.
enum class AskingStyle { kAuto, kChat, kAlpaca, kText };

struct GenerateSpec {
  std::vector<std::string> prompts;
  std::string messages;  // JSON list; empty: prompts
  AskingStyle style = AskingStyle::kAuto;
  int64_t max_new_tokens{};
  double temperature{};  // 0: greedy
  int64_t top_k{};       // 0: all
  double top_p{1};
  uint64_t seed{};

  bool asks() const { return !prompts.empty() || !messages.empty(); }
};

// The rules by which this release makes tokens and targets of records. Raised when the same records
// come to give others; JobSpec::data_rules says by which a job was accepted.
inline constexpr int64_t kDataRules = 2;

// Where an export is sent on the Hub.
struct PushSpec {
  std::string repo;  // "org/name"; empty: nowhere
  bool is_private{};
  std::string revision;  // branch
};

// GGUF files beside the export: "none" | "f32" | "f16" | "bf16", of models also "q8_0" | "q4_k_m".
struct GgufSpec {
  std::string model = "none", adapter = "none";
};

enum class Fp8Recipe { kTensorwise, kRowwise, kBlockwise, kDelayed };

// Of precision.compute: fp8.
struct Fp8Spec {
  Fp8Recipe recipe{};
  bool e4m3_gradients{};
  bool keeps_activations{};
  bool keeps_weights{};  // codes of weights, where memory is left
  bool gathers_codes{};
  bool experts{};                    // of models that have some
  bool attention{};                  // its forward
  std::vector<std::string> exclude;  // names of linears, ends of names, patterns
};

struct JobSpec {
  std::string name;
  std::map<std::string, std::string> labels;

  // Absolute directory. Of `model_hub` and `model_url`, where the cache has it, or will.
  std::string model_path;
  HubSource model_hub;
  std::string model_url;   // "https://..." of a folder; empty: it is not downloaded
  std::string model_name;  // as an export names it; empty: by AdapterBase and BaseModelName
  std::vector<std::string> added_tokens;
  BaseInit init{};
  uint64_t init_seed{};
  // "sft" | "pretrain" | "generate" | "dpo" | "orpo" | "cpo" | "simpo" | "kto" | "reward" |
  // "classification".
  std::string method;
  Adapter adapter{};
  // Of the base: "" (none, but MXFP4 of the files) | "none" | "nf4" | "nf4_double" | "int8" |
  // "mxfp4" | "auto" (that of the files, else nf4_double) | "auto_single" (likewise, else nf4).
  std::string quantization;
  LoraSpec lora;
  MoeSpec moe;
  std::vector<DatasetSpec> datasets;
  std::vector<DatasetSpec> test_datasets;  // exclusive with val_set_size
  std::optional<double> val_set_size;      // < 1: fraction, >= 1: count
  int64_t data_rules{};                    // kDataRules, or those of an earlier release
  std::string chat_template;         // a word of the schema, or the absolute path of a Jinja file
  std::string chat_template_kwargs;  // JSON object
  std::vector<std::string> roles_to_train;
  TrainOn train_on{};
  TrainOnEos train_on_eos{};
  bool train_on_inputs{};
  OnBadRecord on_bad_record{};
  int64_t sequence_len{};
  ExcessLength excess_length{};
  PackingSpec packing;
  TrainSpec train;
  PreferenceSpec preference;
  RewardSpec reward;
  ClassificationSpec classification;
  std::optional<RecomputeLevel> recompute;  // nullopt: by memory
  int64_t recompute_every{};                // blocks of a segment; above 1 only with kBlock
  // Resolved from precision.compute and the device; nullopt while the device is auto.
  std::optional<Precision> compute_dtype;
  std::optional<Fp8Spec> fp8;  // nullopt: products are in compute_dtype
  // nullopt: by memory, with compute bfloat16 only.
  std::optional<Precision> master_dtype, gradient_dtype;
  // "auto" | "nearest" | "stochastic" | "compensated": of gradients in bfloat16.
  std::string gradient_sum = "auto";
  bool attention_deterministic{};
  std::optional<double> attention_workspace_gib;  // nullopt: by what memory is left
  LossHead loss_head{};
  std::optional<int64_t> head_memory_mib;  // of the LM head's logits; nullopt: by the planner

  int64_t eval_steps{};  // 0: only at step 0 and the end
  std::optional<int64_t> early_stopping_patience;
  std::string eval_metric = "eval_loss";
  GenerateSpec generate;
  std::string output_dir;  // absolute
  int64_t save_steps{};
  int64_t save_total_limit{};
  bool test_save{};
  std::string resume;  // "auto" | "never" | "<job>[:step]" | absolute path
  bool extend{};       // from checkpoints of recipes of another length too
  bool export_merge{};
  bool export_verify{};      // read back and compared before it is published
  bool export_base_path{};   // an adapter names a base without a Hub id by its absolute path
  bool export_by_expert{};   // adapters of experts as those of single experts' linears
  std::string export_dtype;  // "source" | "float32" | "bfloat16" | "float16" | "fp8"
  int64_t export_max_shard_bytes{};
  GgufSpec export_gguf;
  PushSpec push_to_hub;

  Device device{};
  int64_t workers{};  // 0: auto
  // Absent: by the planner. The rules allow only what goes together and with `workers`.
  std::optional<int64_t> replicate, shard, zero, resident_blocks;
  bool overlap{};  // of collectives and compute
  int64_t priority{};
  int64_t max_restarts{};  // since the last checkpoint that was new
  int64_t max_restarts_total{};
  int64_t logging_steps{};
  std::vector<Tracker> report_to;  // each once
  std::string logging_dir;         // absolute; of the trackers' files
};

inline bool OnlyGenerates(const JobSpec& job) { return job.method == "generate"; }

// Neither device nor workers is left to be chosen.
inline bool HasChosenResources(const JobSpec& job) {
  return job.device != Device::kAuto && job.workers > 0;
}

inline const char* DeviceName(Device device) {
  if (device == Device::kAuto) return "auto";
  return device == Device::kCuda ? "cuda" : "cpu";
}

inline const char* PrecisionName(std::optional<Precision> precision) {
  return precision.has_value() ? ToString(*precision) : "auto";
}

inline const char* AskingStyleName(AskingStyle style) {
  switch (style) {
    case AskingStyle::kAuto:
      return "auto";
    case AskingStyle::kChat:
      return "chat";
    case AskingStyle::kAlpaca:
      return "alpaca";
    case AskingStyle::kText:
      return "text";
  }
  return "auto";
}

// What stands for `auto` resources.

// What `auto` under spec.resources stands for, as far as it is known.
struct ChosenResources {
  std::optional<Device> device = {};
  std::optional<int64_t> workers = {};
};

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_JOB_SPEC_H_
