#include "common/config/parser/job_parser.h"

#include <string>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/common/config/job_text.h"

namespace coxswain::config {
namespace {

JobSpec Parse(const std::string& yaml) {
  const ParsedJob job = ParseJob(yaml, "/jobs/here");
  EXPECT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  return job.spec;
}

JobSpec ParseSpec(const std::string& lines) { return Parse(WithSpec(lines)); }

TEST(JobParserTest, FillsDefaultsOfSmallestJob) {
  const JobSpec job = Parse(kSmallJob);
  EXPECT_EQ(job.name, "tiny");
  EXPECT_EQ(job.model_path, "/jobs/here/model");
  EXPECT_EQ(job.datasets.at(0).path, "/jobs/here/train.jsonl");
  EXPECT_EQ(job.output_dir, "/jobs/here/out");
  EXPECT_EQ(job.adapter, Adapter::kNone);
  EXPECT_EQ(job.train.learning_rate, 2e-5);
  EXPECT_EQ(job.train.num_epochs, 1.0);
  EXPECT_EQ(job.train.max_steps, std::nullopt);
  EXPECT_EQ(job.train.warmup_ratio, 0.03);
  EXPECT_EQ(job.train.warmup_steps, std::nullopt);
  EXPECT_EQ(job.train.micro_batch_size, std::nullopt);
  EXPECT_EQ(job.train.global_batch_size, std::nullopt);
  EXPECT_EQ(job.val_set_size, std::nullopt);
  EXPECT_FALSE(job.compute_dtype.has_value());
  EXPECT_EQ(job.export_max_shard_bytes, 5000000000);
  EXPECT_EQ(job.device, Device::kAuto);
  EXPECT_EQ(job.workers, 1);
  EXPECT_EQ(job.lora.target_modules, std::vector<std::string>{"all-linear"});
}

TEST(JobParserTest, ReadsHowTheBaseIsKept) {
  const auto quantization = [](const std::string& lines) { return ParseSpec(lines).quantization; };
  EXPECT_EQ(quantization("  adapter: lora\n"), "");
  EXPECT_EQ(quantization("  adapter: lora\n  quantization: {format: none}\n"), "none");
  EXPECT_EQ(quantization("  quantization: {format: none}\n"), "none");
  EXPECT_EQ(quantization("  adapter: qlora\n"), "auto");
  EXPECT_EQ(quantization("  adapter: qlora\n  quantization: {format: mxfp4}\n"), "mxfp4");
}

TEST(JobParserTest, ARateOfBalancingCountsWithABiasAlone) {
  EXPECT_EQ(Parse(kSmallJob).moe.bias_rate, std::nullopt);
  EXPECT_EQ(ParseSpec("  moe: {balance: bias}\n").moe.bias_rate, 0.001);
  EXPECT_EQ(ParseSpec("  moe: {balance: bias, balance_rate: 0.01}\n").moe.bias_rate, 0.01);
  EXPECT_EQ(ParseSpec("  moe: {balance_rate: 0.01}\n").moe.bias_rate, std::nullopt);
}

// Invariant config-4.
TEST(JobParserTest, ReadsEveryKey) {
  const JobSpec job = Parse(kFullJob);
  EXPECT_EQ(job.labels.at("team"), "math");
  EXPECT_EQ(job.adapter, Adapter::kLora);
  EXPECT_EQ(job.quantization, "nf4");
  EXPECT_EQ(job.lora.r, 8);
  EXPECT_EQ(job.lora.gate_up_r, 16);
  EXPECT_EQ(job.lora.alpha, 16);
  EXPECT_EQ(job.lora.loraplus_lr_ratio, 4);
  EXPECT_TRUE(job.lora.use_rslora);
  EXPECT_TRUE(job.lora.use_dora);
  ASSERT_EQ(job.datasets.size(), 2u);
  EXPECT_EQ(job.datasets[0].weight, 1.5);
  EXPECT_EQ(job.datasets[1].path, "/abs/chat");
  EXPECT_EQ(job.datasets[1].data_files, std::vector<std::string>{"*.gz"});
  EXPECT_EQ(job.datasets[1].split, "dev");
  EXPECT_EQ(job.datasets[1].max_samples, 9);
  EXPECT_FALSE(job.datasets[1].held_out);
  EXPECT_TRUE(job.test_datasets.at(0).held_out);
  EXPECT_EQ(job.datasets[1].format, DatasetFormat::kChat);
  EXPECT_EQ(job.datasets[1].prompt_style, PromptStyle::kChat);
  EXPECT_EQ(job.test_datasets.at(0).format, DatasetFormat::kCompletion);
  EXPECT_EQ(job.chat_template, "llama3");
  EXPECT_TRUE(job.train_on_inputs);
  EXPECT_EQ(job.on_bad_record, OnBadRecord::kSkip);
  EXPECT_EQ(job.sequence_len, 512);
  EXPECT_EQ(job.excess_length, ExcessLength::kDrop);
  EXPECT_EQ(job.packing.strategy, PackingStrategy::kBestFitDecreasing);
  EXPECT_EQ(job.packing.window, 1000);
  EXPECT_EQ(job.packing.max_documents_per_bin, 8);
  EXPECT_EQ(job.recompute, RecomputeLevel::kBlock);
  EXPECT_EQ(job.eval_steps, 10);
  EXPECT_EQ(job.early_stopping_patience, 3);
  EXPECT_EQ(job.generate.prompts, (std::vector<std::string>{"What", "Why"}));
  EXPECT_EQ(job.generate.max_new_tokens, 9);
  EXPECT_EQ(job.generate.temperature, 0);  // of method generate alone
  EXPECT_FALSE(OnlyGenerates(job));
  EXPECT_EQ(job.output_dir, "/jobs/here/results");
  EXPECT_EQ(job.save_steps, 20);
  EXPECT_EQ(job.save_total_limit, 4);
  EXPECT_EQ(job.resume, "never");
  EXPECT_TRUE(job.export_merge);
  EXPECT_EQ(job.export_dtype, "float32");
  EXPECT_FALSE(job.export_base_path);
  EXPECT_FALSE(job.export_verify);
  EXPECT_TRUE(job.export_by_expert);
  EXPECT_EQ(job.export_gguf.model, "q8_0");
  EXPECT_EQ(job.push_to_hub.repo, "org/tuned");
  EXPECT_FALSE(job.push_to_hub.is_private);
  EXPECT_EQ(job.push_to_hub.revision, "v2");
  EXPECT_EQ(job.workers, 2);
  EXPECT_EQ(job.priority, -3);
  EXPECT_EQ(job.max_restarts, 1);
  EXPECT_EQ(job.max_restarts_total, 7);
  EXPECT_FALSE(job.overlap);
  EXPECT_EQ(job.report_to, (std::vector{Tracker::kJsonLines, Tracker::kTensorBoard}));
  EXPECT_TRUE(job.logging_dir.ends_with("/curves")) << job.logging_dir;
  EXPECT_EQ(job.logging_steps, 5);
}

TEST(JobParserTest, ReadsEveryKeyOfTrain) {
  const TrainSpec train = Parse(kFullJob).train;
  EXPECT_EQ(train.global_batch_size, 64);
  EXPECT_EQ(train.micro_batch_size, 4);
  EXPECT_EQ(train.gradient_accumulation_steps, 2);
  EXPECT_EQ(train.num_epochs, 1.5);
  EXPECT_EQ(train.learning_rate, 3e-4);
  EXPECT_EQ(train.lr_scheduler, LrScheduler::kLinear);
  EXPECT_EQ(train.warmup_ratio, 0.1);
  EXPECT_EQ(train.min_lr_ratio, 0.05);
  EXPECT_EQ(train.beta1, 0.8);
  EXPECT_EQ(train.beta2, 0.95);
  EXPECT_EQ(train.eps, 1e-7);
  EXPECT_EQ(train.weight_decay, 0.1);
  EXPECT_FALSE(train.decay_norm_and_bias);
  EXPECT_EQ(train.max_grad_norm, 0.5);
  EXPECT_EQ(train.label_smoothing, 0.1);
  EXPECT_EQ(train.z_loss, 1e-4);
  EXPECT_EQ(train.seed, 7u);
}

TEST(JobParserTest, PrecisionDependsOnTheDevice) {
  const JobSpec cpu =
      ParseSpec("  resources: {device: cpu}\n  precision: {compute: auto, gradients: auto}\n");
  EXPECT_EQ(cpu.compute_dtype, Precision::kFloat32);
  EXPECT_EQ(cpu.master_dtype, Precision::kFloat32);
  EXPECT_EQ(cpu.gradient_dtype, Precision::kFloat32);
  EXPECT_EQ(cpu.gradient_sum, "nearest");
  const JobSpec cuda = ParseSpec("  resources: {device: cuda}\n");
  EXPECT_EQ(cuda.device, Device::kCuda);
  EXPECT_EQ(cuda.compute_dtype, Precision::kBfloat16);
  EXPECT_FALSE(cuda.master_dtype.has_value());
  EXPECT_FALSE(cuda.gradient_dtype.has_value());
  EXPECT_EQ(cuda.gradient_sum, "auto");
  const JobSpec given = ParseSpec(
      "  resources: {device: cuda}\n"
      "  precision: {compute: bf16, master_weights: bf16, gradients: bfloat16,\n"
      "              gradient_sum: compensated}\n");
  EXPECT_EQ(given.compute_dtype, Precision::kBfloat16);
  EXPECT_EQ(given.master_dtype, Precision::kBfloat16);
  EXPECT_EQ(given.gradient_dtype, Precision::kBfloat16);
  EXPECT_EQ(given.gradient_sum, "compensated");
  const JobSpec plain = ParseSpec("  resources: {device: cuda}\n  precision: {compute: float32}\n");
  EXPECT_EQ(plain.compute_dtype, Precision::kFloat32);
  EXPECT_EQ(plain.master_dtype, Precision::kFloat32);
}

TEST(JobParserTest, Fp8IsBesideTheDTypeOfTheDevice) {
  EXPECT_FALSE(ParseSpec("  resources: {device: cuda}\n").fp8.has_value());
  const JobSpec cpu = ParseSpec("  resources: {device: cpu}\n  precision: {compute: fp8}\n");
  EXPECT_EQ(cpu.compute_dtype, Precision::kFloat32);
  EXPECT_EQ(cpu.master_dtype, Precision::kFloat32);
  ASSERT_TRUE(cpu.fp8.has_value());
  EXPECT_EQ(cpu.fp8->recipe, Fp8Recipe::kTensorwise);
  EXPECT_FALSE(cpu.fp8->e4m3_gradients);
  EXPECT_TRUE(cpu.fp8->keeps_activations);
  EXPECT_TRUE(cpu.fp8->keeps_weights);
  EXPECT_TRUE(cpu.fp8->gathers_codes);
  EXPECT_TRUE(cpu.fp8->exclude.empty());
  const JobSpec delayed = ParseSpec(
      "  resources: {device: cpu}\n  precision: {compute: fp8, fp8: {recipe: delayed}}\n");
  EXPECT_EQ(delayed.fp8->recipe, Fp8Recipe::kDelayed);
  EXPECT_FALSE(delayed.fp8->e4m3_gradients);
  for (const auto& [text, experts] : {std::pair{"recipe: tensorwise", false},
                                      {"recipe: tensorwise, experts: fp8", true},
                                      {"recipe: rowwise", false},
                                      {"recipe: blockwise", false},
                                      {"experts: bf16", false},
                                      {"recipe: rowwise, experts: fp8", true}}) {
    const JobSpec job = ParseSpec(absl::StrCat(
        "  resources: {device: cpu}\n  precision: {compute: fp8, fp8: {", text, "}}\n"));
    EXPECT_EQ(job.fp8->experts, experts) << text;
  }
  for (const auto& [text, attention] : {std::pair{"recipe: tensorwise", false},
                                        {"recipe: rowwise, attention: fp8", true},
                                        {"attention: bf16", false}}) {
    const JobSpec job = ParseSpec(absl::StrCat(
        "  resources: {device: cpu}\n  precision: {compute: fp8, fp8: {", text, "}}\n"));
    EXPECT_EQ(job.fp8->attention, attention) << text;
  }
  for (const auto& [word, codes] : {std::pair{"fp8", true}, {"bf16", false}, {"auto", true}}) {
    const JobSpec gathers = ParseSpec(absl::StrCat(
        "  resources: {device: cpu}\n  precision: {compute: fp8, fp8: {gather: ", word, "}}\n"));
    EXPECT_EQ(gathers.fp8->gathers_codes, codes) << word;
  }
  const JobSpec dora = ParseSpec(
      "  resources: {device: cpu}\n  precision: {compute: fp8}\n  adapter: lora\n"
      "  lora: {use_dora: true}\n");
  EXPECT_FALSE(dora.fp8->gathers_codes);
  const JobSpec cuda = ParseSpec(
      "  resources: {device: cuda}\n"
      "  precision: {compute: fp8, gradients: bf16, fp8: {recipe: rowwise, activations: bf16, "
      "weights: bf16, exclude: [down_proj]}}\n");
  EXPECT_EQ(cuda.compute_dtype, Precision::kBfloat16);
  EXPECT_FALSE(cuda.master_dtype.has_value());
  EXPECT_EQ(cuda.gradient_dtype, Precision::kBfloat16);
  ASSERT_TRUE(cuda.fp8.has_value());
  EXPECT_EQ(cuda.fp8->recipe, Fp8Recipe::kRowwise);
  EXPECT_TRUE(cuda.fp8->e4m3_gradients);
  EXPECT_FALSE(cuda.fp8->keeps_activations);
  EXPECT_FALSE(cuda.fp8->keeps_weights);
  EXPECT_EQ(cuda.fp8->exclude, std::vector<std::string>{"down_proj"});
}

TEST(JobParserTest, AutoResourcesAreWhatIsChosen) {
  const std::string yaml = WithSpec("  resources: {device: auto, workers: auto}\n");
  const JobSpec open = ParseSpec("  resources: {device: auto, workers: auto}\n");
  EXPECT_FALSE(HasChosenResources(open));
  EXPECT_EQ(open.workers, 0);
  const ParsedJob cuda = ParseJob(yaml, "/jobs/here", {.device = Device::kCuda, .workers = 4});
  EXPECT_TRUE(HasChosenResources(cuda.spec));
  EXPECT_EQ(cuda.spec.workers, 4);
  EXPECT_EQ(cuda.spec.compute_dtype, Precision::kBfloat16);
  const ParsedJob again = ParseJob(cuda.effective_json, "");
  EXPECT_EQ(again.effective_json, cuda.effective_json);
  const ParsedJob cpu = ParseJob(yaml, "/jobs/here", {.device = Device::kCpu, .workers = 1});
  EXPECT_EQ(cpu.spec.compute_dtype, Precision::kFloat32);
  // What the job gives is not chosen.
  const ParsedJob given = ParseJob(WithSpec("  resources: {device: cpu, workers: 2}\n"), "/jobs",
                                   {.device = Device::kCuda, .workers = 4});
  EXPECT_EQ(given.spec.device, Device::kCpu);
  EXPECT_EQ(given.spec.workers, 2);
}

// CPU workers have no bfloat16: to ask for it is to ask for a GPU.
TEST(JobParserTest, Bfloat16ChoosesTheGpu) {
  for (const char* lines : {"  precision: {compute: bf16}\n",
                            "  precision: {compute: bf16, master_weights: bfloat16}\n"}) {
    const ParsedJob job = ParseJob(WithSpec(lines), "/jobs", {.device = Device::kCpu});
    ASSERT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
    EXPECT_EQ(job.spec.device, Device::kCuda);
    EXPECT_EQ(job.spec.compute_dtype, Precision::kBfloat16);
  }
  EXPECT_EQ(ParseSpec("  precision: {compute: fp32}\n").device, Device::kAuto);
  EXPECT_EQ(ParseSpec("  precision: {compute: fp32}\n").master_dtype, Precision::kFloat32);
}

TEST(JobParserTest, RulesHoldForWhatIsChosen) {
  const ParsedJob job =
      ParseJob(WithSpec("  resources: {workers: auto}\n  parallelism: {shard: 2}\n"), "/jobs",
               {.device = Device::kCuda, .workers = 3});
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].path, "spec.parallelism.shard");
}

TEST(JobParserTest, SchedulersHaveTheirDefaultsAndNoOthers) {
  const auto kwargs = [](const std::string& train) {
    return ParseSpec("  train: {" + train + "}\n").train.lr_scheduler_kwargs;
  };
  EXPECT_EQ(kwargs("lr_scheduler: cosine_with_restarts").num_cycles, 1);
  EXPECT_EQ(
      kwargs("lr_scheduler: cosine_with_restarts, lr_scheduler_kwargs: {num_cycles: 3}").num_cycles,
      3);
  EXPECT_EQ(kwargs("lr_scheduler: polynomial, lr_scheduler_kwargs: {power: 2}").power, 2.0);
  EXPECT_EQ(kwargs("lr_scheduler: inverse_sqrt, lr_scheduler_kwargs: {timescale: 100}").timescale,
            100);
  const LrSchedulerKwargs stable = kwargs("lr_scheduler: warmup_stable_decay");
  EXPECT_EQ(stable.decay_ratio, 0.1);
  EXPECT_EQ(stable.decay_type, DecayType::kCosine);
  EXPECT_EQ(stable.num_decay_steps, std::nullopt);
  const LrSchedulerKwargs given = kwargs(
      "lr_scheduler: warmup_stable_decay, "
      "lr_scheduler_kwargs: {num_decay_steps: 20, decay_type: 1-sqrt}");
  EXPECT_EQ(given.num_decay_steps, 20);
  EXPECT_EQ(given.decay_type, DecayType::kOneMinusSqrt);
}

TEST(JobParserTest, ReadsRecomputeAndAttention) {
  const JobSpec segments = ParseSpec("  recompute: {every: 4}\n");
  EXPECT_EQ(segments.recompute, RecomputeLevel::kBlock);
  EXPECT_EQ(segments.recompute_every, 4);
  EXPECT_EQ(ParseSpec("  recompute: ffn\n").recompute, RecomputeLevel::kFfn);
  EXPECT_EQ(ParseSpec("  recompute: expert_out\n").recompute, RecomputeLevel::kExpertOut);
  EXPECT_EQ(ParseSpec("  recompute: ffn\n").recompute_every, 1);
  const JobSpec attention = ParseSpec("  attention: {deterministic: false, workspace_gib: 0.5}\n");
  EXPECT_FALSE(attention.attention_deterministic);
  EXPECT_EQ(attention.attention_workspace_gib, 0.5);
  EXPECT_FALSE(ParseSpec("").attention_workspace_gib.has_value());
  EXPECT_FALSE(
      ParseSpec("  attention: {workspace_gib: auto}\n").attention_workspace_gib.has_value());
}

TEST(JobParserTest, ReadsTheHeadOfTheLoss) {
  const JobSpec given = ParseSpec("  loss: {head: chunked, head_memory_mib: 256}\n");
  EXPECT_EQ(given.loss_head, LossHead::kChunked);
  EXPECT_EQ(given.head_memory_mib, 256);
  EXPECT_EQ(ParseSpec("  loss: {head: cut}\n").loss_head, LossHead::kCut);
  EXPECT_EQ(ParseSpec("").loss_head, LossHead::kAuto);
  EXPECT_FALSE(ParseSpec("  loss: {head_memory_mib: auto}\n").head_memory_mib.has_value());
}

TEST(JobParserTest, LearningRateDefaultDependsOnAdapter) {
  EXPECT_EQ(ParseSpec("  adapter: lora\n").train.learning_rate, 1e-4);
  EXPECT_EQ(ParseSpec("  adapter: none\n").train.learning_rate, 2e-5);
  EXPECT_EQ(ParseSpec("  adapter: lora\n  train: {learning_rate: 5e-5}\n").train.learning_rate,
            5e-5);
}

TEST(JobParserTest, TheLengthOfABinBoundsItsDocuments) {
  const auto most = [](const std::string& lines) {
    return ParseSpec(lines).packing.max_documents_per_bin;
  };
  EXPECT_EQ(most("  sequence_len: 512\n"), 32);
  EXPECT_EQ(most("  sequence_len: 2048\n"), 32);
  EXPECT_EQ(most("  sequence_len: 2049\n"), 33);
  EXPECT_EQ(most("  sequence_len: 4096\n  packing: {max_documents_per_bin: auto}\n"), 64);
  EXPECT_EQ(most("  sequence_len: 4096\n  packing: {max_documents_per_bin: 8}\n"), 8);
  EXPECT_EQ(most("  sequence_len: 4096\n  packing: {strategy: none}\n"), 32);
}

TEST(JobParserTest, OneOfExclusiveKeysLeavesTheOtherUnset) {
  const TrainSpec steps = ParseSpec("  train: {max_steps: 4, warmup_steps: 2}\n").train;
  EXPECT_EQ(steps.num_epochs, std::nullopt);
  EXPECT_EQ(steps.max_steps, 4);
  EXPECT_EQ(steps.warmup_ratio, std::nullopt);
  EXPECT_EQ(steps.warmup_steps, 2);
}

TEST(JobParserTest, ReadsNumbersInEveryNotation) {
  for (const char* text : {"1e-4", "1.0e-4", "1E-4", "0.0001", ".0001", "+1e-4", "1.e-4"}) {
    const std::string lines = std::string("  train: {learning_rate: ") + text + "}\n";
    EXPECT_EQ(ParseSpec(lines).train.learning_rate, 1e-4) << text;
  }
}

TEST(JobParserTest, ReadsSizes) {
  const std::pair<const char*, int64_t> cases[] = {{"5GB", 5000000000},
                                                   {"\"500MB\"", 500000000},
                                                   {"2 GiB", 2147483648},
                                                   {"1.5GB", 1500000000},
                                                   {"4000000", 4000000}};
  for (const auto& [text, bytes] : cases) {
    const std::string lines = std::string("  export: {max_shard_size: ") + text + "}\n";
    EXPECT_EQ(ParseSpec(lines).export_max_shard_bytes, bytes) << text;
  }
}

TEST(JobParserTest, ReadsTheTypesOfGgufFiles) {
  EXPECT_EQ(ParseSpec("").export_gguf.model, "none");
  EXPECT_EQ(ParseSpec("  export: {gguf: q8_0}\n").export_gguf.model, "q8_0");
  EXPECT_EQ(ParseSpec("  export: {gguf: q4_k_m}\n").export_gguf.model, "q4_k_m");
  const GgufSpec both =
      ParseSpec("  adapter: lora\n  export: {gguf: {model: bf16, adapter: f16}}\n").export_gguf;
  EXPECT_EQ(both.model, "bf16");
  EXPECT_EQ(both.adapter, "f16");
}

TEST(JobParserTest, PushesPrivatelyToTheRepositoryThatIsNamed) {
  const PushSpec push = ParseSpec("  export: {push_to_hub: org/tuned}\n").push_to_hub;
  EXPECT_EQ(push.repo, "org/tuned");
  EXPECT_TRUE(push.is_private);
  EXPECT_EQ(push.revision, "main");
  EXPECT_EQ(ParseSpec("").push_to_hub.repo, "");
}

TEST(JobParserTest, ReadsTargetModulesAsWordOrList) {
  EXPECT_EQ(ParseSpec("  lora: {target_modules: '.*[.](q|v)_proj'}\n").lora.target_modules,
            std::vector<std::string>{".*[.](q|v)_proj"});
  EXPECT_EQ(
      ParseSpec("  lora: {target_modules: [k_proj, layers.0.mlp.up_proj]}\n").lora.target_modules,
      (std::vector<std::string>{"k_proj", "layers.0.mlp.up_proj"}));
  EXPECT_EQ(ParseSpec("  lora: {target_modules: q_proj}\n").lora.target_modules,
            std::vector<std::string>{"q_proj"});
  EXPECT_EQ(ParseSpec("  lora: {target_modules: [q_proj, v_proj]}\n").lora.target_modules,
            (std::vector<std::string>{"q_proj", "v_proj"}));
}

TEST(JobParserTest, ReadsResumeForms) {
  const std::pair<const char*, const char*> cases[] = {{"auto", "auto"},
                                                       {"never", "never"},
                                                       {"tiny-3f2a91", "tiny-3f2a91"},
                                                       {"tiny-3f2a91:40", "tiny-3f2a91:40"},
                                                       {"./out/step-40", "/jobs/here/out/step-40"},
                                                       {"/x/step-40", "/x/step-40"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(ParseSpec(std::string("  checkpoint: {resume: ") + text + "}\n").resume, expected);
  }
}

TEST(JobParserTest, ResolvesPathsAgainstTheBaseDirectory) {
  EXPECT_EQ(ParseSpec("  lora: {init_from: ../a/./b}\n").lora.init_from, "/jobs/a/b");
  EXPECT_EQ(ParseSpec("  checkpoint: {output_dir: ./a/b}\n").output_dir, "/jobs/here/a/b");
}

TEST(JobParserTest, EmptyMapsMeanDefaults) {
  const JobSpec job = ParseSpec("  train:\n  lora: {}\n");
  EXPECT_EQ(job.lora.r, 32);
  EXPECT_EQ(job.train.seed, 42u);
}

TEST(JobParserTest, ExpandsAnchors) {
  const JobSpec job = Parse(
      "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: tiny}\nspec:\n  base_model: "
      "./model\n"
      "  datasets: [&d {path: ./a.jsonl, weight: 2}]\n  test_datasets: [*d]\n");
  EXPECT_EQ(job.test_datasets.at(0).path, "/jobs/here/a.jsonl");
}

TEST(JobParserTest, NamesOfDataFilesAndGlobsAreNoHubIds) {
  for (const char* path : {"data/a.parquet", "data/a.arrow", "data/a.csv", "data/a.tsv",
                           "data/a.csv.zst", "data/train-*", "data/?.ndjson"}) {
    const JobSpec job = ParseSpec("  test_datasets: [{path: \"" + std::string(path) + "\"}]\n");
    EXPECT_EQ(job.test_datasets.at(0).path, "/jobs/here/" + std::string(path));
  }
}

// Invariant config-2.
TEST(JobParserTest, EffectiveJobParsesToItself) {
  for (const std::string& yaml :
       {std::string(kSmallJob), std::string(kFullJob), WithSpec("  val_set_size: 20\n"),
        WithSpec("  recompute: {every: 2}\n  precision: {compute: bf16}\n"
                 "  resources: {device: cuda}\n"),
        WithSpec("  resources: {device: auto, workers: auto}\n"),
        WithSpec("  train: {lr_scheduler: warmup_stable_decay, lr_scheduler_kwargs: "
                 "{num_decay_steps: 4, decay_type: linear}}\n"),
        WithSpec("  train: {lr_scheduler: warmup_stable_decay}\n"),
        WithSpec("  train: {lr_scheduler: polynomial}\n")}) {
    const ParsedJob first = ParseJob(yaml, "/jobs/here");
    ASSERT_TRUE(first.errors.empty()) << FormatErrors(first.errors, "job.yaml");
    const ParsedJob second = ParseJob(first.effective_json, "");
    ASSERT_TRUE(second.errors.empty()) << FormatErrors(second.errors, "effective");
    EXPECT_EQ(first.effective_json, second.effective_json);
  }
}

TEST(JobParserTest, TheBaseModelHasANameWhereItIsGiven) {
  std::string yaml = kSmallJob;
  EXPECT_EQ(ParseJob(yaml, "/jobs").spec.model_name, "");
  const size_t at = yaml.find("base_model:");
  const size_t end = yaml.find('\n', at);
  yaml.replace(at, end - at, "base_model: {path: ./m, name: Qwen/Qwen2.5-0.5B}");
  const ParsedJob named = ParseJob(yaml, "/jobs");
  ASSERT_TRUE(named.errors.empty()) << FormatErrors(named.errors, "job.yaml");
  EXPECT_EQ(named.spec.model_name, "Qwen/Qwen2.5-0.5B");
  EXPECT_EQ(named.lines.at("spec.base_model.name"), named.lines.at("spec.base_model"));
}

TEST(JobParserTest, WhatRecordsCallTheirFieldsAndRoles) {
  const JobSpec job = ParseSpec(
      "  test_datasets:\n"
      "    - {path: ./a.json, format: sharegpt, field_messages: dialog, message_role_key: "
      "speaker,\n"
      "       roles: {user: [customer, caller], assistant: agent}}\n"
      "  chat_template: ./t.jinja\n"
      "  chat_template_kwargs: {enable_thinking: false, n: 3, x: 1.5, s: \"1\", l: [a, null]}\n"
      "  roles_to_train: [assistant, tool]\n"
      "  train_on: split\n"
      "  train_on_eos: none\n");
  const DatasetSpec& dataset = job.test_datasets.at(0);
  EXPECT_EQ(dataset.format, DatasetFormat::kSharegpt);
  EXPECT_EQ(dataset.fields.messages, "dialog");
  EXPECT_EQ(dataset.fields.role, "speaker");
  EXPECT_EQ(dataset.fields.content, "");
  EXPECT_EQ(dataset.fields.tools, "tools");
  EXPECT_EQ(dataset.fields.roles,
            (std::map<std::string, std::string>{
                {"customer", "user"}, {"caller", "user"}, {"agent", "assistant"}}));
  EXPECT_TRUE(job.chat_template.front() == '/' && job.chat_template.ends_with("/t.jinja"));
  EXPECT_EQ(job.chat_template_kwargs,
            R"({"enable_thinking":false,"n":3,"x":1.5,"s":"1","l":["a",null]})");
  EXPECT_EQ(job.roles_to_train, (std::vector<std::string>{"assistant", "tool"}));
  EXPECT_EQ(job.train_on, TrainOn::kSplit);
  EXPECT_EQ(job.train_on_eos, TrainOnEos::kNone);
}

TEST(JobParserTest, EveryWordOfTheSchemaBuildsASpec) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"method", {"sft"}},
      {"adapter", {"none", "lora"}},
      {"chat_template",
       {"auto", "tokenizer_default", "chatml", "llama3", "mistral", "gemma", "alpaca",
        "./t.jinja"}},
      {"train_on", {"all", "last", "split"}},
      {"train_on_eos", {"turn", "last", "all", "none"}},
      {"on_bad_record", {"error", "skip"}},
      {"excess_length", {"truncate", "drop", "error", "split"}},
      {"packing",
       {"{strategy: best_fit}", "{strategy: best_fit_decreasing}", "{strategy: first_fit}",
        "{strategy: none}"}},
      {"train",
       {"{lr_scheduler: cosine}", "{lr_scheduler: linear}", "{lr_scheduler: constant}",
        "{lr_scheduler: cosine_with_restarts}", "{lr_scheduler: polynomial}",
        "{lr_scheduler: inverse_sqrt}", "{lr_scheduler: warmup_stable_decay}",
        "{lr_scheduler: warmup_stable_decay, lr_scheduler_kwargs: {decay_type: linear}}",
        "{lr_scheduler: warmup_stable_decay, lr_scheduler_kwargs: {decay_type: 1-sqrt}}"}},
      {"recompute", {"auto", "none", "norm_swiglu", "expert_out", "ffn", "block", "{every: 4}"}},
      {"resources", {"{device: auto}", "{device: cpu}", "{device: cuda}"}},
      {"export", {"{dtype: source}", "{dtype: float32}", "{dtype: bfloat16}", "{dtype: float16}"}},
  };
  for (const auto& [key, words] : cases) {
    for (const char* word : words) ParseSpec(std::string("  ") + key + ": " + word + "\n");
  }
}

}  // namespace
}  // namespace coxswain::config
