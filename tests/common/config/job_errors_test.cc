// Every kind of wrong job, with the line it is reported at.
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/config/parser/job_parser.h"
#include "tests/common/config/job_text.h"

namespace coxswain::config {
namespace {

// `lines` stand below spec, from line 7 on.
struct Case {
  const char* lines;
  const char* path;
  int line;
  const char* message;  // part of the message
};

void ExpectOneError(const std::string& yaml, const Case& c) {
  const ParsedJob job = ParseJob(yaml, "/jobs");
  ASSERT_EQ(job.errors.size(), 1u) << yaml << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.errors[0].path, c.path) << yaml;
  EXPECT_EQ(job.errors[0].line, c.line) << yaml;
  EXPECT_NE(job.errors[0].message.find(c.message), std::string::npos)
      << yaml << "expected \"" << c.message << "\" in \"" << job.errors[0].message << "\"";
}

void ExpectErrors(const std::vector<Case>& cases) {
  for (const Case& c : cases) ExpectOneError(WithSpec(c.lines), c);
}

TEST(JobErrorsTest, UnknownKeys) {
  ExpectErrors({
      {"  adaptr: lora\n", "spec.adaptr", 7, "unknown key; did you mean adapter?"},
      {"  train:\n    lerning_rate: 1e-4\n", "spec.train.lerning_rate", 8,
       "did you mean learning_rate?"},
      {"  train: {zzz: 1}\n", "spec.train.zzz", 7, "unknown key"},
      {"  learning_rate: 1e-4\n", "spec.learning_rate", 7,
       "it belongs at spec.train.learning_rate"},
      {"  lora_rank: 8\n", "spec.lora_rank", 7, "it belongs at spec.lora.r"},
      {"  per_device_train_batch_size: 8\n", "spec.per_device_train_batch_size", 7,
       "spec.train.micro_batch_size"},
      {"  load_in_4bit: true\n", "spec.load_in_4bit", 7, "here it is spec.adapter: qlora"},
      {"  train: {optim: adamw}\n", "spec.train.optim", 7, "it belongs at spec.train.optimizer"},
      {"  wandb_project: x\n", "spec.wandb_project", 7,
       "leave it out: trackers are named in logging.report_to"},
      {"  test_datasets:\n    - {path: ./a.jsonl}\n    - {path: ./b.jsonl, wieght: 2}\n",
       "spec.test_datasets[1].wieght", 9, "did you mean weight?"},
      {"  <<: {a: 1}\n", "spec.<<", 7, "merge keys are not supported"},
  });
}

TEST(JobErrorsTest, WordsOfOtherTrainers) {
  ExpectErrors({
      {"  resources: {device: gpu}\n", "spec.resources.device", 7, "that is cuda here"},
      {"  train: {optimizer: adamw_bnb_8bit}\n", "spec.train.optimizer", 7,
       "that is adamw_8bit here"},
      {"  lora: {target_modules: all}\n", "spec.lora.target_modules", 7, "that is all-linear here"},
  });
}

TEST(JobErrorsTest, DuplicateKeys) {
  ExpectErrors({
      {"  adapter: lora\n  adapter: none\n", "spec.adapter", 8,
       "duplicate key; line 7 sets it already"},
      {"  train: {seed: 1, eps: 1e-8,\n    seed: 1}\n", "spec.train.seed", 8,
       "duplicate key; line 7"},
  });
}

TEST(JobErrorsTest, IllTypedValues) {
  ExpectErrors({
      {"  train: {learning_rate: \"1e-4\"}\n", "spec.train.learning_rate", 7,
       "got the string \"1e-4\"; remove the quotes"},
      {"  train: {seed: '3'}\n", "spec.train.seed", 7, "remove the quotes"},
      {"  train: {seed: 3.0}\n", "spec.train.seed", 7, "expected an integer, got the number 3.0"},
      {"  train: {seed: 1e3}\n", "spec.train.seed", 7, "expected an integer"},
      {"  train: {seed: 010}\n", "spec.train.seed", 7, "expected an integer, got \"010\""},
      {"  train: {seed: 0x10}\n", "spec.train.seed", 7, "expected an integer"},
      {"  train: {seed: 1_000}\n", "spec.train.seed", 7, "expected an integer"},
      {"  train: {seed: many}\n", "spec.train.seed", 7, "expected an integer, got \"many\""},
      {"  train: {seed: [1]}\n", "spec.train.seed", 7, "expected an integer, got a list of 1"},
      {"  train: {eps: .inf}\n", "spec.train.eps", 7, "expected a number"},
      {"  train: {eps: .nan}\n", "spec.train.eps", 7, "expected a number"},
      {"  train: {eps: 1e999}\n", "spec.train.eps", 7, "too large"},
      {"  train: {betas: 0.9}\n", "spec.train.betas", 7, "expected a list of two numbers"},
      {"  train: {betas: [0.9]}\n", "spec.train.betas", 7,
       "expected a list of two numbers, got a list of 1"},
      {"  train: {betas: [0.9, '0.99']}\n", "spec.train.betas", 7, "remove the quotes"},
      {"  train: {micro_batch_size: automatic}\n", "spec.train.micro_batch_size", 7,
       "an integer or auto"},
      {"  train: 3\n", "spec.train", 7, "expected a map, got the number 3"},
      {"  train: [1]\n", "spec.train", 7, "expected a map, got a list of 1"},
      {"  train_on_inputs: yes\n", "spec.train_on_inputs", 7,
       "expected true or false, got \"yes\""},
      {"  train_on_inputs: \"true\"\n", "spec.train_on_inputs", 7, "expected true or false"},
      {"  train_on_inputs: 1\n", "spec.train_on_inputs", 7,
       "expected true or false, got the number 1"},
      {"  adapter: 5\n", "spec.adapter", 7, "expected one of none, lora, qlora, got the number 5"},
      {"  adapter: {a: b}\n", "spec.adapter", 7, "got a map"},
      {"  adapter: null\n", "spec.adapter", 7, "leave the key out for the default none"},
      {"  adapter:\n  train_on_inputs: true\n", "spec.adapter", 7, "null is not a value here"},
      {"  test_datasets: ./a.jsonl\n", "spec.test_datasets", 7, "expected a list of maps"},
      {"  test_datasets: [./a.jsonl]\n", "spec.test_datasets[0]", 7, "expected a map"},
      {"  lora: {target_modules: []}\n", "spec.lora.target_modules", 7, "at least one name"},
      {"  lora: {target_modules: [all-linear, q_proj]}\n", "spec.lora.target_modules", 7,
       "all-linear stands alone"},
      {"  lora: {target_modules: [q_proj, q_proj]}\n", "spec.lora.target_modules", 7,
       "named twice"},
      {"  checkpoint: {output_dir: 5}\n", "spec.checkpoint.output_dir", 7,
       "expected a path, got the number 5; quote it"},
      {"  checkpoint: {resume: Yes No}\n", "spec.checkpoint.resume", 7,
       "auto, never, <job>[:step] or a path"},
      {"  checkpoint: {resume: 'job:'}\n", "spec.checkpoint.resume", 7, "<job>[:step]"},
      {"  export: {max_shard_size: 5 parsecs}\n", "spec.export.max_shard_size", 7,
       "unknown unit \"parsecs\""},
      {"  export: {max_shard_size: big}\n", "spec.export.max_shard_size", 7,
       "expected a size such as 5GB"},
      {"  export: {max_shard_size: \"5000000\"}\n", "spec.export.max_shard_size", 7,
       "remove the quotes"},
  });
}

TEST(JobErrorsTest, ValuesOutOfRangeShowTheRange) {
  ExpectErrors({
      {"  sequence_len: 1\n", "spec.sequence_len", 7,
       "1 is out of range; allowed: 2 <= x <= 1048576"},
      {"  train: {learning_rate: 0}\n", "spec.train.learning_rate", 7, "allowed: > 0"},
      {"  train: {learning_rate: -1e-4}\n", "spec.train.learning_rate", 7, "allowed: > 0"},
      {"  train: {warmup_ratio: 1.01}\n", "spec.train.warmup_ratio", 7, "allowed: 0 <= x <= 1"},
      {"  train: {label_smoothing: 1.0}\n", "spec.train.label_smoothing", 7, "allowed: 0 <= x < 1"},
      {"  train: {betas: [0.9, 1.0]}\n", "spec.train.betas", 7, "1.0 is out of range"},
      {"  train: {max_steps: 0}\n", "spec.train.max_steps", 7, "0 is out of range; allowed: >= 1"},
      {"  train: {seed: -1}\n", "spec.train.seed", 7, "allowed: >= 0"},
      {"  train: {seed: 99999999999999999999}\n", "spec.train.seed", 7, "out of range"},
      {"  train: {micro_batch_size: 0}\n", "spec.train.micro_batch_size", 7, "allowed: >= 1"},
      {"  checkpoint: {save_total_limit: 1}\n", "spec.checkpoint.save_total_limit", 7,
       "allowed: 2 <= x <= 1000"},
      {"  export: {max_shard_size: 5}\n", "spec.export.max_shard_size", 7, "out of range"},
      {"  resources: {workers: 0}\n", "spec.resources.workers", 7, "allowed: 1 <= x <= 4096"},
      {"  val_set_size: -0.1\n", "spec.val_set_size", 7, "allowed: >= 0"},
  });
}

TEST(JobErrorsTest, UnknownWordsGetASuggestion) {
  ExpectErrors({
      {"  adapter: Lora\n", "spec.adapter", 7, "did you mean lora?"},
      {"  packing: {strategy: best-fit}\n", "spec.packing.strategy", 7, "did you mean best_fit?"},
      {"  lora: {target_modules: q_porj}\n", "spec.lora.target_modules", 7, "did you mean q_proj?"},
      {"  chat_template: unheard\n", "spec.chat_template", 7, "or the path of a .jinja file"},
      {"  chat_template: chatlm\n", "spec.chat_template", 7, "did you mean chatml?"},
      {"  chat_template: \"{% for m in messages %}\"\n", "spec.chat_template", 7,
       "write it to a file"},
      {"  train_on: first\n", "spec.train_on", 7, "expected one of all, last, split"},
  });
}

// Invariant config-4.
TEST(JobErrorsTest, KnownButLater) {
  ExpectErrors({
      {"  precision: {compute: fp16}\n", "spec.precision.compute", 7,
       "float16 is not supported yet"},
      {"  resources: {spares: 1}\n", "spec.resources.spares", 7,
       "not supported yet; leave the key out or give 0"},
      {"  logging: {report_to: [mlflow]}\n", "spec.logging.report_to", 7,
       "mlflow is not supported yet"},
      {"  train: {optimizer: muon}\n", "spec.train.optimizer", 7, "muon is not supported yet"},
  });
}

TEST(JobErrorsTest, ExclusiveKeys) {
  ExpectErrors({
      {"  train:\n    num_epochs: 1\n    max_steps: 4\n", "spec.train.max_steps", 9,
       "excludes spec.train.num_epochs (line 8)"},
      {"  train:\n    max_steps: 4\n    num_epochs: 1\n", "spec.train.num_epochs", 9,
       "excludes spec.train.max_steps (line 8)"},
      {"  train: {warmup_steps: 0, warmup_ratio: 0.1}\n", "spec.train.warmup_steps", 7,
       "excludes spec.train.warmup_ratio"},
      {"  test_datasets: [{path: ./a.jsonl}]\n  val_set_size: 0.1\n", "spec.val_set_size", 8,
       "excludes spec.test_datasets"},
  });
}

TEST(JobErrorsTest, QuantisingIsOfQlora) {
  ExpectErrors({
      {"  adapter: lora\n  quantization: {format: int8}\n", "spec.quantization.format", 8,
       "goes with adapter: qlora, which is lora"},
      {"  quantization: {double: false}\n", "spec.quantization.double", 7,
       "goes with adapter: qlora, which is none"},
      {"  adapter: qlora\n  quantization: {format: fp4}\n", "spec.quantization.format", 8,
       "expected one of auto, nf4, int8, mxfp4, none"},
      {"  adapter: lora\n  quantization: {format: mxfp4}\n", "spec.quantization.format", 8,
       "goes with adapter: qlora, which is lora"},
      {"  adapter: qlora\n  quantization: {format: none}\n", "spec.quantization.format", 8,
       "a base that is not quantised goes with adapter: lora, which is qlora"},
      {"  adapter: qlora\n  parallelism: {resident_blocks: 4}\n",
       "spec.parallelism.resident_blocks", 8, "two blocks are dequantised at a time"},
  });
}

TEST(JobErrorsTest, RulesOfTheMesh) {
  ExpectErrors({
      {"  resources: {workers: 4}\n  parallelism: {shard: 3}\n", "spec.parallelism.shard", 8,
       "is 3, which does not divide resources.workers 4"},
      {"  resources: {workers: 4}\n  parallelism: {replicate: 2, shard: 1}\n",
       "spec.parallelism.shard", 8, "replicate 2 x shard 1 is 2, resources.workers is 4"},
      {"  resources: {workers: 4}\n  parallelism: {shard: 1, zero: 2}\n", "spec.parallelism.zero",
       8, "is 2 with 1 rank in a replica"},
      {"  resources: {workers: 4}\n  parallelism: {shard: 4, zero: 0}\n", "spec.parallelism.zero",
       8, "is 0 with 4 ranks in a replica"},
      {"  resources: {workers: 4}\n  parallelism: {zero: 2, resident_blocks: 4}\n",
       "spec.parallelism.resident_blocks", 8, "goes with zero 3"},
      {"  parallelism: {resident_blocks: 1}\n", "spec.parallelism.resident_blocks", 7,
       "out of range"},
      {"  parallelism: {zero: 1}\n", "spec.parallelism.zero", 7, "is 1 with 1 rank in a replica"},
      {"  parallelism: {zero: 4}\n", "spec.parallelism.zero", 7, "out of range"},
  });
}

TEST(JobErrorsTest, RulesOfDeviceAndPrecision) {
  ExpectErrors({
      {"  precision: {compute: bfloat16}\n  resources: {device: cpu}\n", "spec.precision.compute",
       7, "cpu workers compute in float32"},
      {"  precision: {master_weights: bf16}\n  resources: {device: cpu}\n",
       "spec.precision.master_weights", 7, "needs precision.compute: bfloat16"},
      {"  resources: {device: cuda}\n  precision: {compute: float32, gradients: bf16}\n",
       "spec.precision.gradients", 8, "needs precision.compute: bfloat16"},
      {"  resources: {device: cpu}\n  precision: {gradient_sum: compensated}\n",
       "spec.precision.gradient_sum", 8, "which need precision.compute: bfloat16"},
      {"  resources: {device: cuda}\n"
       "  precision: {gradients: float32, gradient_sum: stochastic}\n",
       "spec.precision.gradient_sum", 8, "precision.gradients is float32"},
  });
}

TEST(JobErrorsTest, RulesOfFp8) {
  ExpectErrors({
      {"  adapter: qlora\n  precision: {compute: fp8}\n", "spec.precision.compute", 8,
       "qlora keeps its base in fewer bits"},
      {"  precision: {compute: bfloat16, fp8: {recipe: rowwise}}\n", "spec.precision.fp8.recipe", 7,
       "goes with precision.compute: fp8"},
      {"  precision: {fp8: {gather: fp8}}\n", "spec.precision.fp8.gather", 7,
       "goes with precision.compute: fp8"},
      {"  precision: {fp8: {weights: bfloat16}}\n", "spec.precision.fp8.weights", 7,
       "goes with precision.compute: fp8"},
      {"  precision: {fp8: {experts: fp8}}\n", "spec.precision.fp8.experts", 7,
       "goes with precision.compute: fp8"},
      {"  precision: {fp8: {attention: fp8}}\n", "spec.precision.fp8.attention", 7,
       "goes with precision.compute: fp8"},
      {"  precision: {fp8: {exclude: [o_proj]}}\n", "spec.precision.fp8.exclude", 7,
       "goes with precision.compute: fp8"},
      {"  resources: {device: cpu}\n  precision: {compute: fp8, gradients: bf16}\n",
       "spec.precision.gradients", 8, "needs precision.compute: bfloat16"},
  });
}

TEST(JobErrorsTest, ASchedulerRefusesTheKeysOfOthers) {
  ExpectErrors({
      {"  train:\n    lr_scheduler_kwargs: {num_cycles: 2}\n",
       "spec.train.lr_scheduler_kwargs.num_cycles", 8,
       "goes with lr_scheduler cosine_with_restarts, which is cosine"},
      {"  train:\n    lr_scheduler: linear\n    lr_scheduler_kwargs: {power: 2}\n",
       "spec.train.lr_scheduler_kwargs.power", 9, "goes with lr_scheduler polynomial"},
      {"  train:\n    lr_scheduler: warmup_stable_decay\n    lr_scheduler_kwargs: {decay_ratio: "
       "0.2, num_decay_steps: 4}\n",
       "spec.train.lr_scheduler_kwargs.decay_ratio", 9, "excludes"},
      {"  train: {num_cycles: 2}\n", "spec.train.num_cycles", 7,
       "it belongs at spec.train.lr_scheduler_kwargs.num_cycles"},
      {"  train: {lr_scheduler: cosine_with_restart}\n", "spec.train.lr_scheduler", 7,
       "did you mean cosine_with_restarts?"},
  });
}

TEST(JobErrorsTest, DoraTakesNoDropout) {
  ExpectErrors({
      {"  checkpoint: {resume: never, extend: true}\n", "spec.checkpoint.extend", 7,
       "checkpoint.resume is never"},
      {"  adapter: lora\n  lora: {use_dora: true, dropout: 0.1}\n", "spec.lora.use_dora", 8,
       "needs lora.dropout: 0, got 0.1"},
      {"  adapter: lora\n  lora: {target_parameters: [experts.down_proj], dropout: 0.1}\n",
       "spec.lora.dropout", 8,
       "adapters of experts and routers (lora.target_parameters) have no dropout"},
  });
}

TEST(JobErrorsTest, GgufThatTheJobCannotHave) {
  ExpectErrors({
      {"  export: {gguf: q4_k}\n", "spec.export.gguf.model", 7, "expected one of none, f32"},
      {"  adapter: lora\n  export: {gguf: {adapter: q8_0}}\n", "spec.export.gguf.adapter", 8,
       "expected one of none, f32"},
      {"  adapter: none\n  export: {gguf: {adapter: f16}}\n", "spec.export.gguf.adapter", 8,
       "goes with adapter: lora or qlora, which is none; give export.gguf.model"},
      {"  adapter: lora\n  lora: {use_dora: true}\n  export: {gguf: {adapter: f16}}\n",
       "spec.export.gguf.adapter", 9, "llama.cpp knows no DoRA"},
  });
}

TEST(JobErrorsTest, Fp8IsOfAModelThatIsWritten) {
  const char* const alone = "an adapter is float32; set export.merge: true";
  ExpectErrors({
      {"  export: {dtype: fp4}\n", "spec.export.dtype", 7, "expected one of source, float32"},
      {"  adapter: lora\n  export: {dtype: fp8}\n", "spec.export.dtype", 8, alone},
      {"  adapter: qlora\n  export: {dtype: fp8}\n", "spec.export.dtype", 8, alone},
  });
  for (const char* allowed : {"  adapter: none\n  export: {dtype: fp8}\n",
                              "  adapter: lora\n  export: {dtype: fp8, merge: true}\n"}) {
    const ParsedJob job = ParseJob(WithSpec(allowed), "/jobs");
    EXPECT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  }
}

TEST(JobErrorsTest, RandomWeightsTakeNoMerge) {
  const Case merge = {"  adapter: lora\n  export: {merge: true}\n", "spec.export.merge", 8,
                      "keeps no base weights to merge an adapter into"};
  std::string yaml = WithSpec(merge.lines);
  const std::string pretrained = "base_model: ./model";
  yaml.replace(yaml.find(pretrained), pretrained.size(), "base_model: {path: m, init: random}");
  ExpectOneError(yaml, merge);
  const std::string option = "export: {merge: true}";
  yaml.replace(yaml.find(option), option.size(), "export: {gguf: f16}");
  ExpectOneError(yaml, {"", "spec.export.gguf.model", 8, "keeps no base weights to merge"});
}

TEST(JobErrorsTest, RecomputeSegments) {
  ExpectErrors({
      {"  recompute: {every: 0}\n", "spec.recompute", 7, "allowed: 1 <= x <= 10000"},
      {"  recompute: {each: 2}\n", "spec.recompute", 7, "expected a map {every: count}"},
      {"  recompute: {}\n", "spec.recompute", 7, "expected a map {every: count}"},
      {"  recompute: blocks\n", "spec.recompute", 7, "did you mean block?"},
  });
}

TEST(JobErrorsTest, RulesBetweenKeys) {
  ExpectErrors({
      {"  val_set_size: 1.5\n", "spec.val_set_size", 7,
       "neither a fraction below 1 nor a whole count"},
      {"  eval: {early_stopping_patience: 2}\n", "spec.eval.early_stopping_patience", 7,
       "needs an evaluation set"},
  });
}

TEST(JobErrorsTest, RepositoriesOfTheHubToPushTo) {
  ExpectErrors({
      {"  export: {push_to_hub: tuned}\n", "spec.export.push_to_hub.repo", 7, "names no owner"},
      {"  export: {push_to_hub: ../tuned}\n", "spec.export.push_to_hub.repo", 7,
       "is no id of the Hub"},
      {"  export: {push_to_hub: {repo: a/b, revision: 'a b'}}\n", "spec.export.push_to_hub.repo", 7,
       "is no name of a branch"},
      {"  export: {push_to_hub: {repo: a/b, revision: 0123456789abcdef0123456789abcdef01234567}}\n",
       "spec.export.push_to_hub.repo", 7, "is a commit"},
      {"  export: {push_to_hub: {repo: [a]}}\n", "spec.export.push_to_hub.repo", 7, "expected"},
      {"  export: 3\n", "spec.export", 7, "expected"},
  });
}

// What a job that generates needs and a job that trains must not have.
TEST(JobErrorsTest, Generation) {
  ExpectErrors({
      {"  generate: {prompts: [Hi]}\n", "spec.generate.prompts", 7, "goes with method: generate"},
      {"  generate: {messages: '[]'}\n", "spec.generate.messages", 7, "eval.sample_prompts"},
      {"  generate: {top_p: 0}\n", "spec.generate.top_p", 7, "0 < x <= 1"},
      {"  eval: {sample_prompts: [a, '']}\n", "spec.eval.sample_prompts", 7, "an empty text"},
      {"  method: generate\n  generate: {prompts: [Hi]}\n", "spec.datasets", 6,
       "reads no datasets"},
  });
  std::string many = "  eval:\n    sample_prompts:\n";
  for (int i = 0; i < 65; ++i) many += "      - text\n";
  ExpectOneError(WithSpec(many), {"", "spec.eval.sample_prompts", 8, "holds 65 texts; at most 64"});
}

constexpr const char* kAnswering =
    "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: a}\nspec:\n"
    "  base_model: ./model\n  method: generate\n";

TEST(JobErrorsTest, AJobThatGeneratesAsksOneThing) {
  const std::string yaml = kAnswering;
  ExpectOneError(yaml, {"", "spec.generate.prompts", 0, "give one of the two"});
  ExpectOneError(yaml + "  generate: {prompts: [a], messages: '[]'}\n",
                 {"", "spec.generate.prompts", 7, "give one of the two"});
  ExpectOneError(yaml + "  generate: {prompts: [a]}\n  export: {push_to_hub: a/b}\n",
                 {"", "spec.export.push_to_hub.repo", 8, "exports nothing"});
  ExpectOneError(yaml + "  generate: {prompts: [a]}\n  export: {dtype: fp8}\n",
                 {"", "spec.export.dtype", 8, "exports nothing"});
  const ParsedJob job = ParseJob(yaml + "  generate: {prompts: [a], top_p: 0.5}\n", "/jobs");
  ASSERT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  EXPECT_TRUE(OnlyGenerates(job.spec));
  EXPECT_EQ(job.spec.generate.top_p, 0.5);
  EXPECT_EQ(job.spec.workers, 1);  // auto
}

TEST(JobErrorsTest, PretrainReadsCompletionOnly) {
  ExpectOneError(WithSpec("  method: pretrain\n  test_datasets: [{path: ./a, format: alpaca}]\n"),
                 {"", "spec.test_datasets[0].format", 8, "reads format: completion, got alpaca"});
  std::string yaml =
      WithSpec("  method: pretrain\n  test_datasets:\n    - {path: ./a, format: chat}\n");
  yaml.insert(yaml.find("train.jsonl") + 11, ", format: completion");
  ExpectOneError(yaml, {"", "spec.test_datasets[0].format", 9, "got chat"});
}

TEST(JobErrorsTest, RolesAreNames) {
  ExpectOneError(
      WithSpec("  test_datasets: [{path: ./a, roles: {user: [human, 3]}}]\n"),
      {"", "spec.test_datasets[0].roles", 7, "user: expected a name or a list of names"});
}

TEST(JobErrorsTest, PathsAreLocal) {
  ExpectErrors({
      {"  checkpoint: {output_dir: \"s3://bucket/x\"}\n", "spec.checkpoint.output_dir", 7,
       "a job's output must be a local path; export.push_to_hub or cox push"},
      {"  test_datasets: [{path: \"s3://x/y.jsonl\"}]\n", "spec.test_datasets[0].path", 7,
       "mount the bucket"},
      {"  lora: {init_from: org/adapter}\n", "spec.lora.init_from", 7, "cox pull org/adapter"},
      {"  lora: {init_from: \"${env:HOME}/adapter\"}\n", "spec.lora.init_from", 7,
       "not expanded; cox replaces a leading ~/ and $NAME"},
      {"  lora: {init_from: ~/adapter}\n", "spec.lora.init_from", 7, "not expanded"},
      {"  checkpoint: {output_dir: $HOME/out}\n", "spec.checkpoint.output_dir", 7, "not expanded"},
      {"  checkpoint: {resume: $CHECKPOINT}\n", "spec.checkpoint.resume", 7, "not expanded"},
      {"  chat_template: ~/chat.jinja\n", "spec.chat_template", 7, "not expanded"},
      {"  lora: {init_from: \"\"}\n", "spec.lora.init_from", 7, "expected a path"},
  });
  std::string bucket = kSmallJob;
  bucket.replace(bucket.find("./model"), 7, "s3://models/a");
  ExpectOneError(bucket, {"", "spec.base_model.path", 5, "mount the bucket"});
}

TEST(JobErrorsTest, RelativePathWithoutBaseDirectory) {
  const ParsedJob job = ParseJob(kSmallJob, "");
  ASSERT_EQ(job.errors.size(), 3u) << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.errors[0].path, "spec.checkpoint.output_dir");
  EXPECT_NE(job.errors[1].message.find("give an absolute path"), std::string::npos);
}

TEST(JobErrorsTest, Names) {
  for (const char* name : {"Tiny", "-a", "a-", "a_b", "a.b", "a b", "''",
                           "0123456789012345678901234567890123456789012345678901234567890123"}) {
    std::string yaml = kSmallJob;
    yaml.replace(yaml.find("tiny"), 4, name);
    const ParsedJob job = ParseJob(yaml, "/jobs");
    ASSERT_EQ(job.errors.size(), 1u) << name;
    EXPECT_EQ(job.errors[0].line, 3);
    EXPECT_EQ(job.errors[0].path, "metadata.name");
  }
}

TEST(JobErrorsTest, MissingKeys) {
  const ParsedJob job =
      ParseJob("kind: FineTuneJob\nmetadata: {}\nspec:\n  datasets: []\n", "/jobs");
  ASSERT_EQ(job.errors.size(), 4u) << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.errors[0].path, "apiVersion");
  EXPECT_EQ(job.errors[0].line, 0);
  EXPECT_EQ(job.errors[1].path, "metadata.name");
  EXPECT_EQ(job.errors[2].path, "spec.base_model");
  EXPECT_EQ(job.errors[3].path, "spec.datasets");
  EXPECT_EQ(job.errors[3].line, 4);
}

TEST(JobErrorsTest, ATextThatIsNoMap) {
  EXPECT_FALSE(ParseJob("job", "/jobs").errors.empty());
  EXPECT_FALSE(ParseJob("- spec", "/jobs").errors.empty());
}

TEST(JobErrorsTest, MissingKeyOfAnEntry) {
  const ParsedJob job = ParseJob(WithSpec("  test_datasets: [{format: chat}]\n"), "/jobs");
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].path, "spec.test_datasets[0].path");
}

TEST(JobErrorsTest, AnotherVersionOrKind) {
  const ParsedJob job =
      ParseJob("apiVersion: coxswain/v2\nkind: Pod\nmetadata: {name: a}\nspec: 3\n", "/jobs");
  ASSERT_EQ(job.errors.size(), 3u);
  EXPECT_EQ(job.errors[0].message,
            "expected coxswain/v1, got \"coxswain/v2\"; did you mean coxswain/v1?");
  EXPECT_EQ(job.errors[1].message, "expected FineTuneJob, got \"Pod\"");
  EXPECT_EQ(job.errors[2].message, "expected a map, got the number 3");
}

// Invariant config-1.
TEST(JobErrorsTest, AllErrorsAtOnceInLineOrder) {
  const ParsedJob job = ParseJob(
      "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: Tiny}\nspec:\n"
      "  resources: {workers: -2}\n  datasets: [{path: ./a.jsonl, path: ./b.jsonl}]\n  train:\n    "
      "lerning_rate: 1e-4\n    seed: x\n",
      "/jobs");
  EXPECT_EQ(
      FormatErrors(job.errors, "job.yaml"),
      "job.yaml: spec.base_model: missing; The model: a folder, a repository of the Hugging Face "
      "Hub, or a URL. A plain text means `{path: ...}`.\n"
      "job.yaml:3: metadata.name: \"Tiny\" is not a DNS-1123 name: 1 to 63 lower-case "
      "letters, digits and hyphens, "
      "first and last a letter or digit\n"
      "job.yaml:5: spec.resources.workers: -2 is out of range; allowed: 1 <= x <= 4096\n"
      "job.yaml:6: spec.datasets[0].path: duplicate key; line 6 sets it already\n"
      "job.yaml:8: spec.train.lerning_rate: unknown key; did you mean learning_rate?\n"
      "job.yaml:9: spec.train.seed: expected an integer, got \"x\"\n");
}

TEST(JobErrorsTest, TextsThatAreNoYaml) {
  struct Text {
    std::string yaml;
    int line;
    const char* message;
  };
  const Text cases[] = {
      {"", 1, "the file is empty"},
      {"# only a comment\n", 1, "the file is empty"},
      {"a: 1\n\tb: 2\n", 2, "tab in the indentation"},
      {"a: 1\nb: [1, 2\nc: 3\n", 3, "not YAML"},
      {"a: 1\n  b: 2\n", 2, "not YAML"},
      {"a: \"unclosed\n", 1, "not YAML"},
      {"a: 'unclosed\nb: 2\n\n", 2, "not YAML"},
      {"a: 1\n---\nb: 2\n", 2, "a second document"},
      {"a: 1\nb: *nowhere\n", 2, "not YAML"},
      {"a: 1\nb: !!float 2\n", 2, "tag"},
      {"a: 1\n[x, y]: 2\n", 2, "a key must be a word"},
      {std::string("a: 1\nb: \0\n", 10), 2, "control character"},
      {"a: 1\nb: \xff\xfe\n", 2, "not UTF-8"},
      {"a: 1\nb: \xed\xa0\x80\n", 2, "not UTF-8"},  // a surrogate, which no message carries
      {"a: 1\nb: \xe0\x80\x80\n", 2, "not UTF-8"},  // overlong
      {"a: 1\nb: &b [*b]\n", 2, "an alias refers to the value that contains it"},
      {std::string(2 << 20, 'a'), 0, "at most 1048576"},
      {std::string(100000, '['), 1, "not YAML"},
  };
  for (const Text& c : cases) {
    const ParsedJob job = ParseJob(c.yaml, "/jobs");
    ASSERT_FALSE(job.errors.empty()) << c.yaml.substr(0, 80);
    EXPECT_EQ(job.errors[0].line, c.line) << c.yaml.substr(0, 80) << job.errors[0].message;
    EXPECT_NE(job.errors[0].message.find(c.message), std::string::npos)
        << c.yaml.substr(0, 80) << job.errors[0].message;
  }
}

TEST(JobErrorsTest, AliasesDoNotExplode) {
  std::string yaml = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n";
  for (int i = 1; i < 12; ++i) {
    std::stringstream line;
    line << "a" << i << ": &a" << i << " [";
    for (int k = 0; k < 10; ++k) line << "*a" << i - 1 << ", ";
    yaml += line.str() + "]\n";
  }
  const ParsedJob job = ParseJob(yaml, "/jobs");
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_NE(job.errors[0].message.find("aliases expand"), std::string::npos);
}

// Each anchor copies all anchored values within it; the controller had no memory left in 15 s.
TEST(JobErrorsTest, NestedAnchorsDoNotExplode) {
  constexpr int kDepth = 400;
  std::string yaml = "spec: ";
  for (int i = 0; i < kDepth; ++i) yaml += "&a" + std::to_string(i) + " [";
  for (int i = 0; i < 300'000; ++i) yaml += "1, ";
  yaml += std::string(kDepth, ']') + "\n";
  ASSERT_GT(yaml.size(), 900'000u);
  const ParsedJob job = ParseJob(yaml, "/jobs");
  ASSERT_EQ(job.errors.size(), 1u) << job.errors[1].message;
  EXPECT_NE(job.errors[0].message.find("at most 100000 and 16777216 are copied"), std::string::npos)
      << job.errors[0].message;
}

// One long text under few names: nodes alone do not bound it.
TEST(JobErrorsTest, AliasesOfALongTextDoNotExplode) {
  std::string yaml = "a: &a " + std::string(900'000, 'x') + "\nb: [";
  for (int i = 0; i < 10'000; ++i) yaml += "*a, ";
  const ParsedJob job = ParseJob(yaml + "]\n", "/jobs");
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_NE(job.errors[0].message.find("bytes of text"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::config
