#include "common/config/schema/schema.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/config/schema/data_keys.h"
#include "common/config/schema/execution_keys.h"
#include "common/config/schema/key.h"
#include "common/config/schema/preference_keys.h"
#include "common/config/schema/score_keys.h"
#include "common/foreign_keys/key_tables.h"

namespace coxswain::config {
namespace {

void AppendTop(std::vector<Key>* t) {
  *t = {
      // clang-format off
      {.path = "apiVersion", .type = Type::kWord, .words = {"coxswain/v1"},
       .doc = "Version of this format."},
      {.path = "kind", .type = Type::kWord, .words = {"FineTuneJob"},
       .doc = "What the file describes."},
      {.path = "metadata", .doc = "Identity of the job."},
      {.path = "metadata.name", .type = Type::kName,
       .doc = "Name of the job, a DNS-1123 label. The job's id is this name and a suffix."},
      {.path = "metadata.labels", .type = Type::kStringMap, .def = "{}",
       .doc = "Free labels, by which lists select."},
      {.path = "spec", .doc = "The job itself."},
      {.path = "spec.base_model",
       .doc = "The model: a folder, a repository of the Hugging Face Hub, or a URL. A plain text "
              "means `{path: ...}`.",
       .shorthand = "path"},
      {.path = "spec.base_model.path", .type = Type::kPath, .def = "null",
       .doc = "Folder with config.json, tokenizer.json and safetensors or pytorch_model.bin. A "
              "text `org/name` that is no such folder means `hub`, one that begins with https:// "
              "means `url`. Beside these: where the cache has it, set when the job is accepted.",
       .nullable = true},
      {.path = "spec.base_model.hub", .type = Type::kString, .def = "null",
       .doc = "Model of the Hugging Face Hub: `org/name`. It is downloaded into the cache of "
              "huggingface_hub.",
       .nullable = true},
      {.path = "spec.base_model.revision", .type = Type::kString, .def = "null",
       .doc = "Branch, tag or commit of `hub`; absent: main. When the job is accepted, it becomes "
              "the commit.",
       .nullable = true},
      {.path = "spec.base_model.url", .type = Type::kString, .def = "null",
       .doc = "https:// URL of a folder with the files of `path`.", .nullable = true},
      {.path = "spec.base_model.name", .type = Type::kString, .def = "null",
       .doc = "What an exported adapter calls its base, e.g. a Hub id; absent: the Hub id that "
              "config.json gives, else as `export.base_path` says.", .nullable = true},
      {.path = "spec.base_model.init", .type = Type::kWord, .def = "pretrained",
       .words = {"pretrained", "random"},
       .doc = "`random` reads config.json only and draws the weights."},
      {.path = "spec.base_model.seed", .type = Type::kInt, .def = "0", .range = kAtLeastZero,
       .doc = "Seed of `init: random`."},
      {.path = "spec.base_model.added_tokens", .type = Type::kStringList, .def = "[]",
       .doc = "Special tokens to add to the tokenizer. Their rows of embedding and head begin at "
              "the mean of the rows that have a token. Rows that the model has beyond its "
              "tokenizer are taken first; then both tables grow by the number that is missing, to "
              "no multiple. A token that exists already stays what it is, with a warning. With "
              "`adapter: lora`, put `embed_tokens` and `lm_head` into `lora.modules_to_save`."},
      {.path = "spec.method", .type = Type::kWord, .def = "sft",
       .words = {"sft", "pretrain", "dpo", "orpo", "cpo", "simpo", "kto", "reward",
                 "classification", "generate"},
       .doc = "Training objective. `pretrain` reads only `format: completion`. `dpo`, `orpo`, "
              "`cpo` and `simpo` train on pairs of a chosen and a rejected completion, `kto` on "
              "completions that are labelled good or bad; see `preference`. `reward` trains a "
              "model that scores an answer, on the same pairs. `classification` trains a model "
              "that names the class of a text; see `classification`. `generate` trains nothing; "
              "it answers the prompts of `generate`."},
      {.path = "spec.adapter", .type = Type::kWord, .def = "none",
       .words = {"none", "lora", "qlora"},
       .doc = "`none` trains every weight. `lora` trains an adapter. `qlora` trains an adapter "
              "over a quantised base."},
      {.path = "spec.quantization",
       .doc = "How the base's linears are quantised, under `adapter: qlora`. Under any adapter, "
              "experts that the files have in MXFP4 keep its bits unless `format` says otherwise."},
      {.path = "spec.quantization.format", .type = Type::kWord, .def = "auto",
       .words = {"auto", "nf4", "int8", "mxfp4", "none"},
       .doc = "`nf4`: 4 bits, and a scale for 64 elements. `int8`: 8 bits, and a scale for a row. "
              "`mxfp4`: of experts alone, 4 bits, and a power of two for 32 elements. `auto`: the "
              "format of the model's files where they are quantised, else nf4 under `adapter: "
              "qlora`. `none`, with `adapter: lora` or `none`: MXFP4 of the files is dequantised."},
      {.path = "spec.quantization.double", .type = Type::kBool, .def = "true",
       .doc = "Keep the scales of nf4 in 8 bits too. With `format: auto`, read where the files "
              "are not quantised."},
      // clang-format on
  };
}

void AppendLora(std::vector<Key>* t) {
  const std::vector<Key> rows = {
      // clang-format off
      {.path = "spec.lora", .doc = "Read when `adapter: lora` or `qlora`."},
      {.path = "spec.lora.r", .type = Type::kInt, .def = "32", .range = {.min = 1, .max = 65536},
       .doc = "Rank."},
      {.path = "spec.lora.gate_up_r", .type = Type::kInt, .def = "null",
       .range = {.min = 1, .max = 65536},
       .doc = "Rank of the stacks of gate and up of experts, `mlp.experts.gate_up_proj`; null: "
              "`r`. The two share A, so PEFT gives them `2 r` where adapters of single experts had "
              "`r` each. Their scale is that of `r`.",
       .nullable = true},
      {.path = "spec.lora.alpha", .type = Type::kNumber, .def = "64", .range = kPositive,
       .doc = "Numerator of the scale: the adapter is multiplied by alpha / r."},
      {.path = "spec.lora.dropout", .type = Type::kNumber, .def = "0.0", .range = kBelowOne,
       .doc = "Dropout before A."},
      {.path = "spec.lora.target_modules", .type = Type::kModules, .def = "all-linear",
       .words = {"all-linear", "q_proj", "k_proj", "v_proj", "qkv_proj", "wqkv", "o_proj", "wo",
                 "gate_proj", "up_proj", "gate_up_proj", "c_fc", "w1", "w3", "down_proj", "c_proj",
                 "w2", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj",
                 "shared_expert_gate", "gate", "router", "lm_head", "embed_tokens", "output",
                 "tok_embeddings"},
       .doc = "Which modules are adapted, one or a list, with the names of the checkpoint: a "
              "name, the end of a path (`self_attn.q_proj`, `layers.0.mlp.up_proj`), or a regular "
              "expression that matches whole names as in PEFT (`.*\\.[qv]_proj`). `all-linear` is "
              "every projection of a block. Head, embedding and routers (`gate`, gpt-oss: "
              "`router`) "
              "are adapted only where they are named. The adapter of a router has no dropout and "
              "no DoRA; `moe.router: trained` trains routers in full instead."},
      {.path = "spec.lora.target_parameters", .type = Type::kStringList, .def = "[]",
       .doc = "Stacks of experts that are adapted, each expert by an A and a B of its own, with "
              "PEFT's names: `mlp.experts.gate_up_proj` (gate and up share A), "
              "`mlp.experts.down_proj`; and weights of routers: `mlp.gate.weight`, gpt-oss: "
              "`mlp.router.weight`. `all-linear` does not reach them. They have no dropout and no "
              "DoRA."},
      {.path = "spec.lora.loraplus_lr_ratio", .type = Type::kNumber, .def = "16",
       .range = kPositive, .doc = "LoRA+: the learning rate of B over that of A. 1 is plain LoRA."},
      {.path = "spec.lora.loraplus_lr_embedding", .type = Type::kNumber, .def = "1.0e-6",
       .range = kPositive,
       .doc = "LoRA+: peak learning rate of the adapter of an embedding. With `loraplus_lr_ratio: "
              "1` it is the rate of all others."},
      {.path = "spec.lora.use_rslora", .type = Type::kBool, .def = "false",
       .doc = "Scale by alpha / sqrt(r) instead of alpha / r."},
      {.path = "spec.lora.use_dora", .type = Type::kBool, .def = "false",
       .doc = "DoRA: also train the length of every row of an adapted weight. It needs dropout 0."},
      {.path = "spec.lora.init_from", .type = Type::kPath, .def = "null",
       .doc = "PEFT adapter directory to start from. What its `adapter_config.json` says of rank, "
              "alpha, modules, stacks of experts, `use_rslora` and `use_dora` holds for keys that "
              "the job leaves out; a key that says otherwise is refused. The linears of single "
              "experts are read as stacks where gate and up have one A.",
       .nullable = true, .path_use = PathUse::kHub},
      {.path = "spec.lora.modules_to_save", .type = Type::kStringList, .def = "[]",
       .doc = "Modules that are trained in full beside the adapter and exported inside it: "
              "`embed_tokens`, `lm_head`, norms. As in PEFT, a name means every module whose path "
              "ends in it. Tied embeddings stay tied: either name trains the one matrix."},
      // clang-format on
  };
  t->insert(t->end(), rows.begin(), rows.end());
}

void AppendMoe(std::vector<Key>* t) {
  const std::vector<Key> rows = {
      // clang-format off
      {.path = "spec.moe", .doc = "Read where the model is a mixture of experts."},
      {.path = "spec.moe.router", .type = Type::kWord, .def = "auto",
       .words = {"auto", "frozen", "trained"},
       .doc = "Whether the routers are trained: `auto` trains them with the whole model and leaves "
              "them as they are beside an adapter."},
      {.path = "spec.moe.aux_loss",
       .doc = "The loss that asks routers to use their experts alike: E sum of f_e P_e, which is "
              "the experts of a token where they are."},
      {.path = "spec.moe.aux_loss.coef", .type = Type::kNumber, .def = "null",
       .range = kNonNegative,
       .doc = "Its factor. null: `router_aux_loss_coef` of the model where its `config.json` says "
              "`output_router_logits: true`, as transformers trains it, else 0.",
       .nullable = true},
      {.path = "spec.moe.aux_loss.over", .type = Type::kWord, .def = "bin",
       .words = {"bin", "micro_batch"},
       .doc = "Whose tokens count together, those of all layers: of a `bin`, so that the cut into "
              "micro-steps and ranks changes nothing, or of a `micro_batch`, as in transformers."},
      {.path = "spec.moe.router_z_loss", .type = Type::kNumber, .def = "0.0",
       .range = kNonNegative,
       .doc = "Factor of the mean square of a router's log-partition; 1.0e-3 is usual."},
      {.path = "spec.moe.balance", .type = Type::kWord, .def = "none",
       .words = {"none", "bias"},
       .doc = "Balancing without a loss. `bias`: after each update the bias by which experts are "
              "chosen, `e_score_correction_bias`, falls for an expert with more tokens than the "
              "mean and rises for one with fewer, counted over all ranks. For models that have "
              "such a bias; beside an adapter it needs `export.merge`, as an adapter cannot hold "
              "it."},
      {.path = "spec.moe.balance_rate", .type = Type::kNumber, .def = "1.0e-3",
       .range = kPositive,
       .doc = "By how much that bias moves after an update."},
      // clang-format on
  };
  t->insert(t->end(), rows.begin(), rows.end());
}

void AppendTrain(std::vector<Key>* t) {
  const std::vector<Key> rows = {
      // clang-format off
      {.path = "spec.train", .doc = "Optimisation."},
      {.path = "spec.train.global_batch_size", .type = Type::kInt, .def = "null",
       .range = kAtLeastOne,
       .doc = "Bins per step; absent: micro_batch_size x gradient_accumulation_steps x ranks.",
       .nullable = true},
      {.path = "spec.train.micro_batch_size", .type = Type::kIntOrAuto, .def = "auto",
       .range = kAtLeastOne, .doc = "Bins per rank and micro-step; `auto`: the planner chooses."},
      {.path = "spec.train.gradient_accumulation_steps", .type = Type::kInt, .def = "1",
       .range = kAtLeastOne, .doc = "Micro-steps per step."},
      {.path = "spec.train.num_epochs", .type = Type::kNumber, .def = "null", .range = kPositive,
       .doc = "Passes over the data; 1 when `max_steps` is absent too.", .nullable = true},
      {.path = "spec.train.max_steps", .type = Type::kInt, .def = "null", .range = kAtLeastOne,
       .doc = "Optimizer steps.", .nullable = true},
      {.path = "spec.train.learning_rate", .type = Type::kNumber, .def = "null", .range = kPositive,
       .doc = "Peak learning rate; absent: 1.0e-4 for LoRA, 2.0e-5 for `adapter: none`; "
              "on preferences 1.0e-5 and 1.0e-6.",
       .nullable = true},
      {.path = "spec.train.lr_scheduler", .type = Type::kWord, .def = "cosine",
       .words = {"cosine", "linear", "constant", "cosine_with_restarts", "polynomial",
                 "inverse_sqrt",
                 "warmup_stable_decay"},
       .doc = "How the rate falls after warm-up, by the formulas of transformers."},
      {.path = "spec.train.lr_scheduler_kwargs",
       .doc = "Settings of some schedulers. A key that the chosen scheduler does not read is an "
              "error."},
      {.path = "spec.train.lr_scheduler_kwargs.num_cycles", .type = Type::kInt, .def = "null",
       .range = kAtLeastOne, .doc = "cosine_with_restarts: number of cosines; absent: 1.",
       .nullable = true},
      {.path = "spec.train.lr_scheduler_kwargs.power", .type = Type::kNumber, .def = "null",
       .range = kPositive,
        .doc = "polynomial: exponent of the remaining part; absent: 1.", .nullable = true},
      {.path = "spec.train.lr_scheduler_kwargs.timescale", .type = Type::kInt, .def = "null",
       .range = kAtLeastOne,
       .doc = "inverse_sqrt: steps after which the rate has fallen to 1 / sqrt(2); absent: the "
              "warm-up, or 10000 without one.", .nullable = true},
      {.path = "spec.train.lr_scheduler_kwargs.num_decay_steps", .type = Type::kInt, .def = "null",
       .range = kAtLeastOne, .doc = "warmup_stable_decay: steps of the decay at the end.",
       .nullable = true},
      {.path = "spec.train.lr_scheduler_kwargs.decay_ratio", .type = Type::kNumber, .def = "null",
       .range = kFraction,
       .doc = "warmup_stable_decay: the decay as a part of all steps; 0.1 when `num_decay_steps` "
              "is absent too.", .nullable = true},
      {.path = "spec.train.lr_scheduler_kwargs.decay_type", .type = Type::kWord, .def = "null",
       .words = {"linear", "cosine", "1-sqrt"},
       .doc = "warmup_stable_decay: shape of the decay; absent: cosine.", .nullable = true},
      {.path = "spec.train.warmup_ratio", .type = Type::kNumber, .def = "null", .range = kFraction,
       .doc = "Warm-up as a part of all steps; 0.03 when `warmup_steps` is absent too.",
       .nullable = true},
      {.path = "spec.train.warmup_steps", .type = Type::kInt, .def = "null", .range = kAtLeastZero,
       .doc = "Warm-up in steps.", .nullable = true},
      {.path = "spec.train.min_lr_ratio", .type = Type::kNumber, .def = "0.0", .range = kFraction,
       .doc = "The rate falls to this part of the peak."},
      {.path = "spec.train.optimizer", .type = Type::kWord, .def = "adamw",
       .words = {"adamw", "adamw_8bit", "adamw_bf16"},
       .later = {"muon", "schedule_free", "adam_atan2"},
       .doc = "Update rule. `adamw_8bit` keeps the states of tensors with 4,096 or more elements "
              "in blocks of 256 eight-bit codes, as bitsandbytes does. `adamw_bf16` keeps them in "
              "bfloat16, rounded stochastically."},
      {.path = "spec.train.betas", .type = Type::kNumberPair, .def = "[0.9, 0.999]",
       .range = kBelowOne, .doc = "Adam's decay rates."},
      {.path = "spec.train.eps", .type = Type::kNumber, .def = "1.0e-8", .range = kPositive,
       .doc = "Adam's epsilon."},
      {.path = "spec.train.weight_decay", .type = Type::kNumber, .def = "0.01",
       .range = kNonNegative, .doc = "Decoupled weight decay."},
      {.path = "spec.train.decay_norm_and_bias", .type = Type::kBool, .def = "true",
       .doc = "Apply weight decay to norm weights and biases too."},
      {.path = "spec.train.max_grad_norm", .type = Type::kNumber, .def = "1.0", .range = kPositive,
       .doc = "The global gradient norm is clipped to this value."},
      {.path = "spec.train.label_smoothing", .type = Type::kNumber, .def = "0.0",
       .range = kBelowOne, .doc = "Label smoothing."},
      {.path = "spec.train.z_loss", .type = Type::kNumber, .def = "0.0", .range = kNonNegative,
       .doc = "Weight of the squared log-partition penalty; 1.0e-4 is usual when it is on."},
      {.path = "spec.train.seed", .type = Type::kInt, .def = "42", .range = kAtLeastZero,
       .doc = "Seed of every random number of the training."},
      // clang-format on
  };
  t->insert(t->end(), rows.begin(), rows.end());
}

void AppendResources(std::vector<Key>* t) {
  const std::vector<Key> rows = {
      // clang-format off
      {.path = "spec.resources", .doc = "The machines that the job runs on."},
      {.path = "spec.resources.device", .type = Type::kWord, .def = "auto",
       .words = {"auto", "cpu", "cuda"},
       .doc = "Kind of worker. `auto`: cuda where a GPU worker is registered or bfloat16 is asked "
              "for, else cpu. It is chosen once and shown."},
      {.path = "spec.resources.workers", .type = Type::kIntOrAuto, .def = "1",
       .range = {.min = 1, .max = 4096},
       .doc = "Number of ranks; on cuda one per GPU. `auto`: all workers that are registered when "
              "the device is chosen."},
      {.path = "spec.resources.spares", .type = Type::kInt, .def = "0", .range = kAtLeastZero,
       .doc = "Workers that are held ready beside the gang.", .only_default = true},
      {.path = "spec.resources.priority", .type = Type::kInt, .def = "0",
       .range = {.min = -1000000, .max = 1000000},
       .doc = "Jobs of higher priority run first. Where workers lack, such a job stops running "
              "jobs of lower priority, with a checkpoint. Equal jobs run in order of submission."},
      {.path = "spec.resources.max_restarts", .type = Type::kInt, .def = "10",
       .range = {.min = 0, .max = 1000000},
       .doc = "How often a failed attempt is tried again from the last checkpoint. Counted since "
              "the last checkpoint that was further than any before. Waiting for storage does not "
              "count."},
      {.path = "spec.resources.max_restarts_total", .type = Type::kInt, .def = "1000",
       .range = {.min = 0, .max = 1000000},
       .doc = "The same, counted over the whole life of the job."},
      {.path = "spec.parallelism", .doc = "How ranks share the model."},
      {.path = "spec.parallelism.replicate", .type = Type::kIntOrAuto, .def = "auto",
       .range = kAtLeastOne,
       .doc = "Number of replicas; replicate x shard = workers. `auto`: one, or one in each host, "
              "where hosts have equally many ranks and a replica fits a host as well."},
      {.path = "spec.parallelism.shard", .type = Type::kIntOrAuto, .def = "auto",
       .range = kAtLeastOne,
       .doc = "Ranks that share the state of one replica; `auto`: all ranks of it."},
      {.path = "spec.parallelism.zero", .type = Type::kIntOrAuto, .def = "auto",
       .range = {.min = 0, .max = 3},
       .doc = "What the ranks of a replica share. 0: nothing. 1: masters and moments. 2: "
              "gradients too. 3: weights too. `auto`: the lowest that fits."},
      {.path = "spec.parallelism.resident_blocks", .type = Type::kIntOrAuto, .def = "auto",
       .range = {.min = 2, .max = 1000000},
       .doc = "Under ZeRO 3, the number of blocks whose gathered weights stay on a rank between "
              "uses. 2 takes the least memory; all blocks gather each once an update. `auto`: "
              "what memory allows."},
      {.path = "spec.parallelism.overlap", .type = Type::kBool, .def = "true",
       .doc = "Run collectives beside compute. `false`: each runs in the compute stream in its "
              "turn, and nothing is prefetched; this measures what overlap hides."},
      {.path = "spec.logging", .doc = "Reports."},
      {.path = "spec.logging.logging_steps", .type = Type::kInt, .def = "1", .range = kAtLeastOne,
       .doc = "Steps between lines of the log, entries of `trainer_state.json` and points of "
              "trackers."},
      {.path = "spec.logging.report_to", .type = Type::kWordList, .def = "[]",
       .words = {"tensorboard", "wandb", "jsonl"}, .later = {"mlflow"},
       .doc = "Files that show the curves of the job in other tools, written while it trains. "
              "`tensorboard`: event files. `wandb`: an offline run of Weights & Biases, which "
              "`wandb sync` uploads. `jsonl`: an object a line."},
      {.path = "spec.logging.dir", .type = Type::kPath, .def = "null",
       .doc = "Where these files lie: `tensorboard/`, `wandb/` and `jsonl/` below it, each with "
              "a folder or file per job. Jobs may share it. null: `trackers` in "
              "`checkpoint.output_dir`.",
       .nullable = true, .path_use = PathUse::kWritten},
      // clang-format on
  };
  t->insert(t->end(), rows.begin(), rows.end());
}

std::vector<Key> MakeSchema() {
  std::vector<Key> table;
  AppendTop(&table);
  AppendLora(&table);
  AppendMoe(&table);
  AppendDataKeys(&table);
  AppendTrain(&table);
  AppendPreferenceKeys(&table);
  AppendScoreKeys(&table);
  AppendExecutionKeys(&table);
  AppendResources(&table);
  return table;
}

}  // namespace

const std::vector<Key>& Schema() {
  static const auto* table = new std::vector<Key>(MakeSchema());
  return *table;
}

const std::vector<Exclusive>& ExclusiveKeys() {
  static const auto* groups = new std::vector<Exclusive>{
      {"spec.test_datasets", "spec.val_set_size"},
      {"spec.train.num_epochs", "spec.train.max_steps"},
      {"spec.train.warmup_ratio", "spec.train.warmup_steps"},
      {"spec.train.lr_scheduler_kwargs.num_decay_steps",
       "spec.train.lr_scheduler_kwargs.decay_ratio"},
  };
  return *groups;
}

std::vector<const Key*> Children(std::string_view path) {
  std::vector<const Key*> rows;
  for (const Key& key : Schema()) {
    std::string_view rest = key.path;
    if (!path.empty()) {
      if (rest.size() <= path.size() + 1 || rest.substr(0, path.size()) != path ||
          rest[path.size()] != '.')
        continue;
      rest.remove_prefix(path.size() + 1);
    }
    if (rest.find('.') == std::string_view::npos) rows.push_back(&key);
  }
  return rows;
}

const Key* FindKey(std::string_view path) {
  const std::vector<Key>& rows = Schema();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Key& key) { return key.path == path; });
  return found == rows.end() ? nullptr : &*found;
}

std::string_view KeyName(const Key& key) { return key.path.substr(key.path.rfind('.') + 1); }

std::string RangeText(const Range& range) {
  const bool has_min = range.min > -std::numeric_limits<double>::infinity();
  const bool has_max = range.max < kMaxCount;
  const char* low = range.min_open ? "<" : "<=";
  const char* high = range.max_open ? "<" : "<=";
  if (has_min && has_max)
    return fmt::format("{:.10g} {} x {} {:.10g}", range.min, low, high, range.max);
  if (has_min) return fmt::format("{} {:.10g}", range.min_open ? ">" : ">=", range.min);
  if (has_max) return fmt::format("{} {:.10g}", high, range.max);
  return "";
}

std::string_view KnownAs(std::string_view foreign_key) {
  // Names of tools and of services that cox import does not read.
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"model", "spec.base_model"},
      {"epochs", "spec.train.num_epochs"},
      {"lr", "spec.train.learning_rate"},
      {"n_epochs", "spec.train.num_epochs"},
      {"gpus", "spec.resources.workers"},
      {"gradient_checkpointing", "spec.recompute"},
      {"type", "spec.datasets[].format"},
      {"lora_target_linear", "spec.lora.target_modules"},
      {"batch_size", "spec.train.micro_batch_size"},
  };
  for (const auto& [theirs, ours] : kNames) {
    if (theirs == foreign_key) return ours;
  }
  const foreign_keys::ForeignKey* row = foreign_keys::FindForeignKey(foreign_key);
  return row == nullptr ? std::string_view() : row->ours;
}

}  // namespace coxswain::config
