#include "tests/controller/cli/import/imports.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::job_import {
namespace {

constexpr const char* kInfo = R"({
  "plain": {"file_name": "plain.json"},
  "columns": {"file_name": "c.json", "columns": {"prompt": "q", "query": "input", "response": "a"}},
  "hub": {"hf_hub_url": "org/hub_set", "subset": "en", "split": "test", "formatting": "sharegpt"},
  "talk": {"file_name": "t.json", "formatting": "sharegpt", "columns": {"messages": "messages"},
           "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user",
                    "assistant_tag": "bot"}},
  "pictures": {"file_name": "p.json", "columns": {"images": "images"}},
  "pairs": {"file_name": "x.json", "ranking": true},
  "turns": {"file_name": "h.json", "columns": {"prompt": "instruction", "history": "history"}},
  "script": {"script_url": "s"}, "number": 3,
  "texts": {"file_name": "w.json", "columns": {"prompt": "body"}}
})";

class LlamaFactoryTest : public testing::Test {
 protected:
  LlamaFactoryTest() { folder_.Write("dataset_info.json", kInfo); }

  Tried Import(const std::string& data, const std::string& more = "") {
    return Try(
        "model_name_or_path: ./model\nstage: sft\ntemplate: llama3\ndataset: " + data + "\n" + more,
        folder_.path());
  }

  support::ScratchFolder folder_;
};

// Invariants import-1 and import-2.
TEST_F(LlamaFactoryTest, SilentFileGetsItsDefaults) {
  const Tried t = Import("plain");
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_EQ(t.At("adapter"), "\"lora\"");
  EXPECT_EQ(t.At("lora.r"), "8");
  EXPECT_EQ(t.At("lora.alpha"), "16");
  EXPECT_EQ(t.At("lora.target_modules"), "\"all-linear\"");
  EXPECT_EQ(t.At("lora.loraplus_lr_ratio"), "1");
  EXPECT_EQ(t.At("sequence_len"), "2048");
  EXPECT_EQ(t.At("excess_length"), "\"truncate\"");
  EXPECT_EQ(t.At("packing.strategy"), "\"none\"");
  EXPECT_EQ(t.At("train.num_epochs"), "3");
  EXPECT_EQ(t.At("train.micro_batch_size"), "8");
  EXPECT_EQ(t.At("train.learning_rate"), "5e-05");
  EXPECT_EQ(t.At("train.lr_scheduler"), "\"linear\"");
  EXPECT_EQ(t.At("train.warmup_steps"), "0");
  EXPECT_EQ(t.At("train.weight_decay"), "0");
  EXPECT_EQ(t.At("precision.compute"), "\"float32\"");
  EXPECT_EQ(t.At("chat_template"), "\"llama3\"");
  EXPECT_EQ(t.At("datasets.0.prompt_style"), "\"chat\"");
  EXPECT_EQ(t.At("datasets.0.path"), "\"" + folder_.path() + "/plain.json\"");
}

TEST_F(LlamaFactoryTest, NamesAreLookedUp) {
  const Tried t = Import("columns, hub,talk", "max_samples: 50\n");
  EXPECT_EQ(t.At("datasets.0.field_instruction"), "\"q\"");
  EXPECT_EQ(t.At("datasets.0.field_input"), "");
  EXPECT_EQ(t.At("datasets.0.field_output"), "\"a\"");
  EXPECT_EQ(t.At("datasets.0.max_samples"), "50");
  EXPECT_EQ(t.At("datasets.1.path"), "\"org/hub_set\"");
  EXPECT_EQ(t.At("datasets.1.name"), "\"en\"");
  EXPECT_EQ(t.At("datasets.1.split"), "\"test\"");
  EXPECT_EQ(t.At("datasets.1.format"), "\"sharegpt\"");
  EXPECT_EQ(t.At("datasets.2.format"), "\"chat\"");
  EXPECT_EQ(t.At("datasets.2.field_messages"), "");
  EXPECT_EQ(t.At("datasets.2.roles"), R"({"assistant":["bot"]})");
  EXPECT_EQ(t.At("datasets.2.max_samples"), "50");
}

TEST_F(LlamaFactoryTest, WhatCannotBeReadIsInTheWay) {
  for (const auto& [name, expected] :
       {std::pair("pictures", "dataset (images have no counterpart yet)"),
        std::pair("pairs", "dataset (a data set of preferences, which stage dpo, kto or rm reads)"),
        std::pair("turns", "dataset (earlier turns in a column"),
        std::pair("script", "dataset (a source of a script"),
        std::pair("number", "dataset (number is not in "),
        std::pair("missing", "dataset (missing is not in ")}) {
    EXPECT_NE(Import(name).InTheWay().find(expected), std::string::npos) << Import(name).InTheWay();
  }
  const Tried t = Try("stage: sft\nmodel_name_or_path: ./m\ndataset: plain\n");
  EXPECT_NE(t.InTheWay().find(
                "dataset_info.json was not found beside the file; cox import takes --dataset-dir"),
            std::string::npos);
}

TEST_F(LlamaFactoryTest, FolderOfTheCommandComesFirst) {
  const support::ScratchFolder other;
  other.Write("dataset_info.json", R"({"plain": {"file_name": "other.json"}})");
  const Tried t =
      Try("stage: sft\nmodel_name_or_path: ./m\ndataset: plain\n", folder_.path(), other.path());
  EXPECT_EQ(t.At("datasets.0.path"), "\"" + other.path() + "/other.json\"");
}

TEST_F(LlamaFactoryTest, TextsArePretrainingInPackedBins) {
  const Tried t = Try("stage: pt\nmodel_name_or_path: ./m\ndataset: texts\nfinetuning_type: full\n",
                      folder_.path());
  EXPECT_EQ(t.At("method"), "\"pretrain\"");
  EXPECT_EQ(t.At("adapter"), "\"none\"");
  EXPECT_EQ(t.At("datasets.0.format"), "\"completion\"");
  EXPECT_EQ(t.At("datasets.0.field_text"), "\"body\"");
  EXPECT_EQ(t.At("packing.strategy"), "\"best_fit\"");
  EXPECT_EQ(t.At("excess_length"), "\"split\"");
  EXPECT_EQ(t.At("chat_template"), "");
}

TEST_F(LlamaFactoryTest, PackingAndMasks) {
  EXPECT_EQ(Import("plain", "neat_packing: true\n").At("packing.strategy"), "\"best_fit\"");
  EXPECT_TRUE(Import("plain", "packing: true\n").Says("differs: packing: true"));
  EXPECT_EQ(Import("plain", "packing: false\n").At("packing.strategy"), "\"none\"");
  EXPECT_EQ(Import("plain", "train_on_prompt: true\n").At("train_on_inputs"), "true");
  EXPECT_EQ(Import("plain", "mask_history: true\n").At("train_on"), "\"last\"");
  EXPECT_EQ(Import("plain", "mask_history: false\n").At("train_on"), "");
}

TEST_F(LlamaFactoryTest, TemplatesOfItsOwnBecomeTheModels) {
  const Tried t =
      Try("stage: sft\nmodel_name_or_path: ./m\ndataset: plain\n"
          "template: qwen3_nothink\n",
          folder_.path());
  EXPECT_EQ(t.At("chat_template"), "\"tokenizer_default\"");
  EXPECT_EQ(t.At("chat_template_kwargs.enable_thinking"), "false");
  const Tried none =
      Try("stage: sft\nmodel_name_or_path: ./m\ndataset: plain\ntemplate: empty\n", folder_.path());
  EXPECT_NE(none.InTheWay().find("template (this prompt has no counterpart"), std::string::npos);
}

TEST_F(LlamaFactoryTest, MethodsAndRulesWithoutCounterpart) {
  for (const auto& [more, expected] :
       {std::pair("quantization_bit: 4\nquantization_type: fp4\n",
                  "quantization_type (4 bits are nf4 here)"),
        std::pair("quantization_bit: 4\nquantization_method: hqq\n",
                  "quantization_method (another way to quantise"),
        std::pair("finetuning_type: oft\n", "finetuning_type (training some layers"),
        std::pair("use_galore: true\n", "use_galore (this update rule has no counterpart)"),
        std::pair("use_muon: true\n", "use_muon (train.optimizer: muon is not supported yet)"),
        std::pair("pissa_init: true\n", "pissa_init (this start of an adapter"),
        std::pair("mix_strategy: interleave_over\n", "mix_strategy (sources are joined")}) {
    const Tried t = Import("plain", more);
    EXPECT_NE(t.InTheWay().find(expected), std::string::npos) << t.InTheWay();
  }
  const Tried four = Import("plain", "quantization_bit: 4\ndouble_quantization: false\n");
  EXPECT_EQ(four.InTheWay(), "");
  EXPECT_EQ(four.At("adapter"), "\"qlora\"");
  EXPECT_EQ(four.At("quantization.double"), "false");
  EXPECT_EQ(Import("plain", "use_muon: false\nmix_strategy: concat\n").InTheWay(), "");
  EXPECT_EQ(Import("plain", "add_special_tokens: <a>, <b>\nadd_tokens: <c>\nresize_vocab: true\n")
                .At("base_model.added_tokens"),
            "[\"<a>\",\"<b>\",\"<c>\"]");
  EXPECT_EQ(Import("plain", "additional_target: embed_tokens\n").At("lora.modules_to_save"),
            "[\"embed_tokens\"]");
}

TEST_F(LlamaFactoryTest, RunAndEvaluation) {
  const Tried t = Import("plain",
                         "output_dir: saves/a\noverwrite_output_dir: true\nval_size: 0.1\n"
                         "eval_strategy: steps\neval_steps: 500\nearly_stopping_steps: 2\n"
                         "bf16: true\nlora_target: q_proj, v_proj\nlora_alpha: 5\n"
                         "ray_num_workers: 4\nwarmup_ratio: 0.1\nwarmup_steps: 0\n");
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_EQ(t.At("checkpoint.output_dir"), "\"./saves/a/my-job-1\"");
  EXPECT_EQ(t.At("checkpoint.resume"), "\"never\"");
  EXPECT_EQ(t.At("val_set_size"), "0.1");
  EXPECT_EQ(t.At("eval.eval_steps"), "500");
  EXPECT_EQ(t.At("eval.early_stopping_patience"), "2");
  EXPECT_EQ(t.At("precision.compute"), "\"auto\"");
  EXPECT_EQ(t.At("lora.target_modules"), R"(["q_proj","v_proj"])");
  EXPECT_EQ(t.At("lora.alpha"), "5");
  EXPECT_EQ(t.At("resources.workers"), "4");
  EXPECT_EQ(t.At("train.warmup_ratio"), "0.1");
  const Tried pure = Import("plain", "pure_bf16: true\nfinetuning_type: full\n");
  EXPECT_EQ(pure.At("precision.compute"), "\"bfloat16\"");
  EXPECT_EQ(pure.At("precision.master_weights"), "\"bfloat16\"");
}

constexpr const char* kSecondEngine =
    "model: ./model\nmodel_class: llm\ntrain_dataset: list.yaml\nmicro_batch_size: 2\n"
    "dist_config: {name: fsdp2}\n";

// Invariant import-2.
TEST_F(LlamaFactoryTest, SecondEngineHasItsOwnDefaults) {
  folder_.Write("list.yaml",
                "a: {path: data/a.json, source: local, converter: alpaca, size: 5}\n"
                "b: {path: org/set, converter: sharegpt, weight: 2}\n");
  const Tried t = Try(kSecondEngine, folder_.path());
  EXPECT_EQ(t.At("adapter"), "\"none\"");
  EXPECT_EQ(t.At("datasets.0.path"), "\"" + folder_.path() + "/data/a.json\"");
  EXPECT_EQ(t.At("datasets.0.prompt_style"), "\"chat\"");
  EXPECT_EQ(t.At("datasets.1.path"), "\"org/set\"");
  EXPECT_EQ(t.At("datasets.1.format"), "\"sharegpt\"");
  EXPECT_EQ(t.At("datasets.1.weight"), "2");
  EXPECT_EQ(t.At("train_on"), "\"split\"");
  EXPECT_EQ(t.At("train.lr_scheduler"), "\"constant\"");
  EXPECT_EQ(t.At("train.weight_decay"), "0.01");
  EXPECT_EQ(t.At("train.decay_norm_and_bias"), "");
  EXPECT_EQ(t.At("train.micro_batch_size"), "2");
  EXPECT_EQ(t.At("train.gradient_accumulation_steps"), "1");
  EXPECT_EQ(t.At("precision.compute"), "\"auto\"");
  EXPECT_TRUE(t.Says("left out: dist_config"));
}

TEST_F(LlamaFactoryTest, SecondEngineAdaptsAndPacks) {
  folder_.Write("list.yaml", "a: {path: a.json, source: local, converter: alpaca}\n");
  const Tried t =
      Try(std::string(kSecondEngine) +
              "peft_config: {name: lora, r: 4, target_modules: [q_proj], use_dora: true}\n"
              "quant_config: {name: bnb, quantization_bit: 4}\n"
              "batching_strategy: dynamic_batching\noptim_config: {name: muon, wd: 0.1}\n",
          folder_.path());
  EXPECT_EQ(t.At("adapter"), "\"qlora\"");
  EXPECT_EQ(t.At("lora.r"), "4");
  EXPECT_EQ(t.At("lora.alpha"), "16");
  EXPECT_EQ(t.At("lora.dropout"), "0.05");
  EXPECT_EQ(t.At("lora.target_modules"), R"(["q_proj"])");
  EXPECT_EQ(t.At("lora.use_dora"), "true");
  EXPECT_EQ(t.At("packing.strategy"), "\"best_fit\"");
  EXPECT_EQ(t.At("train.optimizer"), "\"muon\"");
  EXPECT_EQ(t.At("train.weight_decay"), "0.1");
  const Tried freeze =
      Try(std::string(kSecondEngine) + "peft_config: {name: freeze}\n", folder_.path());
  EXPECT_NE(freeze.InTheWay().find("peft_config.name (training some layers"), std::string::npos);
  const Tried lost = Try(kSecondEngine);
  EXPECT_NE(lost.InTheWay().find("train_dataset (was not found beside the file; cox import takes"),
            std::string::npos);
}

}  // namespace
}  // namespace coxswain::job_import
