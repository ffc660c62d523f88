#include "tests/controller/cli/import/imports.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::job_import {
namespace {

std::string TrlFile(const std::string& more) {
  return "model_name_or_path: ./model\ndataset_name: ./data\n" + more;
}

// Invariant import-2.
TEST(TrlTest, SilentFileGetsItsDefaults) {
  const Tried t = Try(TrlFile(""));
  EXPECT_EQ(t.At("adapter"), "\"none\"");
  EXPECT_EQ(t.At("sequence_len"), "1024");
  EXPECT_EQ(t.At("packing.strategy"), "\"none\"");
  EXPECT_EQ(t.At("train_on_inputs"), "true");
  EXPECT_EQ(t.At("datasets.0.format"), "\"auto\"");
  EXPECT_EQ(t.At("chat_template"), "\"tokenizer_default\"");
  EXPECT_EQ(t.At("train.learning_rate"), "2e-05");
  EXPECT_EQ(t.At("train.lr_scheduler"), "\"linear\"");
  EXPECT_EQ(t.At("train.warmup_steps"), "0");
  EXPECT_EQ(t.At("train.num_epochs"), "3");
  EXPECT_EQ(t.At("train.micro_batch_size"), "8");
  EXPECT_EQ(t.At("train.weight_decay"), "0");
  EXPECT_EQ(t.At("precision.compute"), "\"auto\"");
  EXPECT_EQ(t.At("precision.master_weights"), "\"float32\"");
}

TEST(TrlTest, LoraHasItsOwnDefaults) {
  const Tried t = Try(TrlFile("use_peft: true\n"));
  EXPECT_EQ(t.At("adapter"), "\"lora\"");
  EXPECT_EQ(t.At("lora.r"), "16");
  EXPECT_EQ(t.At("lora.alpha"), "32");
  EXPECT_EQ(t.At("lora.dropout"), "0.05");
  EXPECT_EQ(t.At("lora.loraplus_lr_ratio"), "1");
  EXPECT_EQ(t.At("lora.target_modules"), R"(["q_proj","v_proj"])");
  EXPECT_EQ(t.At("precision.master_weights"), "");
}

TEST(TrlTest, TargetsOfTheLoss) {
  EXPECT_EQ(Try(TrlFile("assistant_only_loss: true\n")).At("train_on_inputs"), "false");
  EXPECT_EQ(Try(TrlFile("assistant_only_loss: true\n")).At("datasets.0.format"), "\"chat\"");
  EXPECT_EQ(Try(TrlFile("completion_only_loss: true\n")).At("train_on_inputs"), "false");
  EXPECT_EQ(Try(TrlFile("completion_only_loss: true\n")).At("datasets.0.format"),
            "\"prompt_completion\"");
  EXPECT_EQ(Try(TrlFile("completion_only_loss: false\n")).At("train_on_inputs"), "true");
  EXPECT_EQ(Try(TrlFile("dataset_text_field: body\n")).At("datasets.0.field_text"), "\"body\"");
  EXPECT_NE(Try(TrlFile("loss_type: dft\n")).InTheWay().find("loss_type (this loss"),
            std::string::npos);
}

TEST(TrlTest, BinsAndCuts) {
  EXPECT_EQ(Try(TrlFile("packing: true\n")).At("packing.strategy"), "\"best_fit_decreasing\"");
  const Tried split = Try(TrlFile("packing: true\npacking_strategy: bfd_split\n"));
  EXPECT_EQ(split.At("excess_length"), "\"split\"");
  const Tried wrapped = Try(TrlFile("packing: true\npacking_strategy: wrapped\n"));
  EXPECT_TRUE(wrapped.Says("differs: packing_strategy: wrapped"));
  EXPECT_NE(Try(TrlFile("max_length: null\n")).InTheWay().find("max_length (records without"),
            std::string::npos);
  EXPECT_NE(Try(TrlFile("truncation_mode: keep_end\n")).InTheWay().find("truncation_mode"),
            std::string::npos);
}

TEST(TrlTest, SplitsAndMixtures) {
  const Tried t =
      Try("model_name_or_path: ./m\ndataset_name: org/set\ndataset_config: en\n"
          "eval_strategy: steps\neval_steps: 20\n");
  EXPECT_EQ(t.At("datasets.0.split"), "\"train\"");
  EXPECT_EQ(t.At("datasets.0.name"), "\"en\"");
  EXPECT_EQ(t.At("test_datasets.0.split"), "\"test\"");
  EXPECT_EQ(t.At("eval.eval_steps"), "20");
  const Tried mixed =
      Try("model_name_or_path: ./m\nuse_peft: true\ntest_split_size: 0.1\n"
          "datasets:\n  - {path: ./a, data_dir: x}\n  - {path: ./b, fraction: 0.5}\n");
  EXPECT_EQ(mixed.At("datasets.0.data_files"), R"(["x/*"])");
  EXPECT_EQ(mixed.At("val_set_size"), "0.1");
  EXPECT_NE(mixed.InTheWay().find("datasets[].fraction (a share of the mixture"),
            std::string::npos);
}

TEST(TrlTest, TemplateOfAFileOrAFolder) {
  EXPECT_EQ(Try(TrlFile("chat_template_path: t.jinja\n")).At("chat_template"), "\"./t.jinja\"");
  EXPECT_EQ(Try(TrlFile("chat_template_path: ./tok\n")).At("chat_template"),
            "\"./tok/chat_template.jinja\"");
}

TEST(TrlTest, WeightsAndPrecision) {
  EXPECT_EQ(Try(TrlFile("dtype: bfloat16\n")).At("precision.master_weights"), "\"bfloat16\"");
  EXPECT_EQ(Try(TrlFile("dtype: auto\n")).At("precision.master_weights"), "\"auto\"");
  EXPECT_EQ(Try(TrlFile("fp16: true\n")).At("precision.compute"), "\"float16\"");
  EXPECT_EQ(Try(TrlFile("use_cpu: true\nbf16: false\n")).At("resources.device"), "\"cpu\"");
  EXPECT_EQ(Try(TrlFile("label_smoothing_factor: 0.1\n")).At("train.label_smoothing"), "0.1");
  EXPECT_NE(Try(TrlFile("neftune_noise_alpha: 5\n")).InTheWay().find("neftune_noise_alpha"),
            std::string::npos);
}

TEST(CommandLineTest, OptionsAreKeys) {
  const Tried t =
      Try("#!/bin/bash\n# it's a run\nexport X=1\n"
          "accelerate launch --num_processes 4 trl/scripts/sft.py \\\n"
          "    --model_name_or_path \"Qwen/Qwen2.5-0.5B\" \\\n"
          "    --dataset_name './my data' --max-length=512 \\\n"
          "    --use_peft --lora_target_modules q_proj v_proj --no_bf16 \\\n"
          "    --lr_scheduler_kwargs '{\"min_lr_rate\": 0.1}'\necho done --seed 7\n");
  EXPECT_EQ(t.At("base_model.hub"), "\"Qwen/Qwen2.5-0.5B\"");
  EXPECT_EQ(t.At("datasets.0.path"), "\"./my data\"");
  EXPECT_EQ(t.At("sequence_len"), "512");
  EXPECT_EQ(t.At("adapter"), "\"lora\"");
  EXPECT_EQ(t.At("lora.target_modules"), R"(["q_proj","v_proj"])");
  EXPECT_EQ(t.At("precision.compute"), "\"float32\"");
  EXPECT_EQ(t.At("resources.workers"), "4");
  EXPECT_EQ(t.At("train.min_lr_ratio"), "0.1");
  EXPECT_EQ(t.At("train.seed"), "42");
  EXPECT_TRUE(t.Says("f.yml:6: changed: max_length") || t.Says("f.yml:6: renamed: max_length"))
      << t.report;
}

TEST(CommandLineTest, OptionsWinOverTheFileOfConfig) {
  const support::ScratchFolder folder;
  folder.Write("c.yaml", "model_name_or_path: ./m\ndataset_name: ./d\nmax_length: 100\nseed: 5\n");
  const Tried t = Try("trl sft --config c.yaml --max_length 200", folder.path());
  EXPECT_EQ(t.At("sequence_len"), "200");
  EXPECT_EQ(t.At("train.seed"), "5");
  EXPECT_NE(Refusal("trl sft --config none.yaml").find("--config none.yaml"), std::string::npos);
}

TEST(CommandLineTest, OpenQuoteIsAnError) {
  EXPECT_NE(Refusal("trl sft \\\n --dataset_name 'x\n").find("line 2: a quote that does not end"),
            std::string::npos);
  EXPECT_NE(Refusal("trl sft").find("the command has no options"), std::string::npos);
}

// What is cut off or of another kind is an error or a report, never the end of the program.
TEST(OddFilesTest, AreReported) {
  const std::string files[] = {
      // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): a file of several lines
      "base_model: [a]\ndatasets: {path: {a: b}, type: [x]}\nlr_scheduler_kwargs: {a: 1, a.b: 2, "
      "'c[x': 3}\nadapter: {r: 1}\nlora_r: [1]\nval_set_size: x\nmax_steps: 1e99\n"
      "save_steps: 1e99\nspecial_tokens: 3\nplugins: {a: b}\nsample_packing: {}\n",
      "base_model: m\ndatasets:\n  - path: a\n    split: train[:99999999999999999999]\n"
      "    type: {field_a.b: c, 'field_[': d}\n  - 3\n  - [x]\ntest_datasets: 4\n",
      "stage: [sft]\nfinetuning_type: 3\ndataset: {a: b}\nlora_rank: x\nquantization_bit: {}\n",
      "train_dataset: {a: 1}\npeft_config: lora\noptim_config: [muon]\nquant_config: 4\n",
      "dataset_name: [a, b]\nuse_peft: {}\nlora_target_modules: {a: b}\ndatasets: {a: b}\n",
      "trl sft --dataset_name '' --config= --max_length --use_peft x y --seed='{a'\n"};
  for (const std::string& file : files) {
    for (size_t length = 0; length <= file.size(); ++length) {
      const absl::StatusOr<Imported> imported =
          ImportJob({file.substr(0, length), "x", "/nowhere", "", std::nullopt});
      if (!imported.ok()) continue;
      EXPECT_FALSE(ReportText(*imported, "f").empty());
    }
  }
}

// Invariant import-3.
TEST(DetectTest, NoneAndTwoAreErrorsThatNameKeys) {
  EXPECT_NE(Refusal("seed: 1\n").find("its keys tell no tool: base_model"), std::string::npos);
  EXPECT_NE(Refusal("base_model: x\nstage: sft\n")
                .find("base_model is a key of Axolotl and stage of LLaMA-Factory"),
            std::string::npos);
  EXPECT_NE(Refusal("apiVersion: coxswain/v1\n").find("a job of ours already"), std::string::npos);
  EXPECT_NE(Refusal("just words").find("expected a map"), std::string::npos);
  EXPECT_NE(Refusal("a: [1\n").find("line "), std::string::npos);
}

}  // namespace
}  // namespace coxswain::job_import
