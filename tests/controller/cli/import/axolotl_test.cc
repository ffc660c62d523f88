#include "tests/controller/cli/import/imports.h"

namespace coxswain::job_import {
namespace {

// What every file needs; the rest is of the test.
std::string AxolotlFile(const std::string& more) {
  return "base_model: ./model\nlearning_rate: 2e-4\n" + more;
}

std::string WithData(const std::string& more) {
  return AxolotlFile("datasets:\n  - path: ./train.jsonl\n    type: alpaca\n" + more);
}

constexpr const char* kLora = "adapter: lora\nlora_r: 16\nlora_alpha: 32\n";

// Invariant import-1 (an import with nothing in its way is a valid job) and import-2.
TEST(AxolotlTest, SilentFileGetsAxolotlsDefaults) {
  const Tried t = Try(WithData(""));
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_EQ(t.At("adapter"), "\"none\"");
  EXPECT_EQ(t.At("sequence_len"), "512");
  EXPECT_EQ(t.At("excess_length"), "\"drop\"");
  EXPECT_EQ(t.At("packing.strategy"), "\"none\"");
  EXPECT_EQ(t.At("train.micro_batch_size"), "1");
  EXPECT_EQ(t.At("train.num_epochs"), "1");
  EXPECT_EQ(t.At("train.lr_scheduler"), "\"cosine\"");
  EXPECT_EQ(t.At("train.warmup_ratio"), "0.03");
  EXPECT_EQ(t.At("train.weight_decay"), "0");
  EXPECT_EQ(t.At("train.decay_norm_and_bias"), "false");
  EXPECT_EQ(t.At("train.learning_rate"), "0.0002");
  EXPECT_EQ(t.At("train_on_inputs"), "false");
  EXPECT_EQ(t.At("chat_template"), "");
  EXPECT_NE(t.imported.yaml.find("name: my-job-1"), std::string::npos);
}

TEST(AxolotlTest, LoraIsPlainUnlessAskedFor) {
  const Tried t = Try(WithData(kLora));
  EXPECT_EQ(t.At("lora.r"), "16");
  EXPECT_EQ(t.At("lora.alpha"), "32");
  EXPECT_EQ(t.At("lora.dropout"), "0");
  EXPECT_EQ(t.At("lora.loraplus_lr_ratio"), "1");
  EXPECT_EQ(t.At("lora.target_modules"), R"(["q_proj","v_proj"])");
  EXPECT_EQ(t.InTheWay(), "");
  const Tried plus =
      Try(WithData(std::string(kLora) + "loraplus_lr_ratio: 8\npeft_use_rslora: true\n"
                                        "peft_use_dora: true\nlora_target_linear: true\n"));
  EXPECT_EQ(plus.At("lora.loraplus_lr_ratio"), "8");
  EXPECT_EQ(plus.At("lora.use_rslora"), "true");
  EXPECT_EQ(plus.At("lora.use_dora"), "true");
  EXPECT_EQ(plus.At("lora.target_modules"), "\"all-linear\"");
}

TEST(AxolotlTest, TargetsLoseTheirPath) {
  const std::string file = WithData(kLora);
  EXPECT_EQ(Try(file + "lora_target_modules: [self_attn.q_proj, mlp.up_proj]\n")
                .At("lora.target_modules"),
            R"(["q_proj","up_proj"])");
}

TEST(AxolotlTest, PatternsAreWhatTheyChoose) {
  const std::string file = WithData(kLora) + "lora_target_modules: ";
  const Tried all =
      Try(file + "'model.language_model.layers.[\\d]+.(mlp|self_attn).(up|q|o)_proj'\n");
  EXPECT_EQ(all.At("lora.target_modules"), R"(["q_proj","o_proj","up_proj"])");
  for (const auto& [pattern, expected] :
       {std::pair("'model.layers.[0-9].self_attn.q_proj'", "chooses some blocks only"),
        std::pair("'.*[.]fc1'", "chooses no projection"),
        std::pair("'model.layers.[0-9]+.self_attn.q'", "chooses no projection"),
        std::pair("'.*(q_proj'", "is no regular expression")}) {
    const Tried t = Try(file + pattern + "\n");
    EXPECT_NE(t.InTheWay().find(expected), std::string::npos) << t.InTheWay();
  }
}

TEST(AxolotlTest, AdapterNeedsItsRank) {
  EXPECT_NE(Try(WithData("adapter: lora\nlora_alpha: 4\n")).InTheWay().find("lora_r (an adapter"),
            std::string::npos);
}

TEST(AxolotlTest, KeysOfAnAdapterAreLeftOutWithoutOne) {
  const Tried t = Try(WithData("lora_r: 16\nloraplus_lr_ratio: 16\n"));
  EXPECT_EQ(t.At("lora"), "");
  EXPECT_TRUE(t.Says("f.yml:6: left out: lora_r: 16 (no adapter is trained)")) << t.report;
}

// Invariant import-4.
TEST(AxolotlTest, Fp8IsThePrecisionOfProducts) {
  const Tried t = Try(WithData("fp8: true\n"));
  EXPECT_EQ(t.At("precision.compute"), "\"fp8\"");
  EXPECT_EQ(t.InTheWay(), "");
}

TEST(AxolotlTest, WhatIsToComeIsNamedByItsNewName) {
  for (const auto& [more, expected] :
       {std::pair("optimizer: muon\n", "optimizer (train.optimizer: muon is not supported yet)"),
        std::pair("fp16: true\n", "fp16 (precision.compute: float16 is not supported yet)"),
        std::pair("rl: grpo\n", "rl (reinforcement learning (grpo) has no counterpart yet)"),
        std::pair("process_reward_model: true\n", "process_reward_model (scores of single steps"),
        std::pair("processor_type: AutoProcessor\n", "processor_type (images, videos and sound"),
        std::pair("optimizer: lion_8bit\n", "optimizer (this update rule has no counterpart)"),
        std::pair("lr_scheduler: rex\n", "lr_scheduler (this schedule has no counterpart)"),
        std::pair("relora: true\n", "relora (adapters that restart have no counterpart)"),
        std::pair("unfrozen_parameters: [lm_head]\n", "unfrozen_parameters (training some"),
        std::pair("plugins: [axolotl.integrations.diffusion.DiffusionPlugin]\n",
                  "plugins (axolotl.integrations.diffusion.DiffusionPlugin has no counterpart"),
        std::pair("resume_from_checkpoint: ./out/checkpoint-4\n",
                  "resume_from_checkpoint (checkpoints of other tools are not read)")}) {
    const Tried t = Try(WithData(more));
    EXPECT_NE(t.InTheWay().find(expected), std::string::npos) << t.InTheWay();
    const std::string last = t.report.substr(t.report.rfind('\n', t.report.size() - 2) + 1);
    EXPECT_EQ(last.find("f.yml: not imported; in the way: "), 0u) << last;
    EXPECT_NE(last.find(expected), std::string::npos) << last;
  }
}

TEST(AxolotlTest, QuantisedBasesAreThoseOfQlora) {
  const Tried four =
      Try(WithData("adapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_alpha: 8\n"));
  EXPECT_EQ(four.InTheWay(), "");
  EXPECT_EQ(four.At("adapter"), "\"qlora\"");
  const Tried eight =
      Try(WithData("adapter: lora\nload_in_8bit: true\nlora_r: 8\nlora_alpha: 8\n"));
  EXPECT_EQ(eight.InTheWay(), "");
  EXPECT_EQ(eight.At("adapter"), "\"qlora\"");
  EXPECT_EQ(eight.At("quantization.format"), "\"int8\"");
}

TEST(AxolotlTest, StatesOfEightBits) {
  for (const char* theirs : {"adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit"}) {
    const Tried t = Try(WithData(absl::StrCat("optimizer: ", theirs, "\n")));
    EXPECT_EQ(t.InTheWay(), "");
    EXPECT_EQ(t.At("train.optimizer"), "\"adamw_8bit\"");
    EXPECT_TRUE(t.Says("an embedding in 32 bits")) << t.report;
    EXPECT_EQ(t.Says("where its states lie is planned"), theirs[0] == 'p') << t.report;
  }
}

TEST(AxolotlTest, OffIsNotInTheWay) {
  const Tried t = Try(
      WithData("load_in_4bit: false\nrl:\nrelora: false\nfp16: false\ntokens: []\nprocessor_type:\n"
               "resume_from_checkpoint:\nplugins:\n  - axolotl.integrations.liger.LigerPlugin\n"
               "optimizer: paged_adamw_32bit\n"));
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_EQ(t.At("train.optimizer"), "\"adamw\"");
  EXPECT_TRUE(t.Says("f.yml: not set: rl, processor_type, resume_from_checkpoint"));
}

TEST(AxolotlTest, PackingFillsBinsOrHoldsOneDocument) {
  const Tried t = Try(WithData("sample_packing: true\nsample_packing_bin_size: 64\n"));
  EXPECT_EQ(t.At("packing.strategy"), "\"best_fit\"");
  EXPECT_EQ(t.At("packing.max_documents_per_bin"), "64");
  EXPECT_EQ(Try(WithData("sample_packing: false\nmicro_batch_size: 4\n")).At("packing.strategy"),
            "\"none\"");
}

TEST(AxolotlTest, BatchOfAProcessIsDivided) {
  const Tried t =
      Try(WithData("micro_batch_size: 2\nbatch_size: 8\ndp_shard_size: 4\n"
                   "dp_replicate_size: 2\n"));
  EXPECT_EQ(t.At("train.gradient_accumulation_steps"), "4");
  EXPECT_EQ(t.At("resources.workers"), "8");
}

TEST(AxolotlTest, StepsWinOverPassesAndPartsOfThemAreCounted) {
  const Tried t =
      Try(WithData("max_steps: 50\nnum_epochs: 3\nval_set_size: 0.1\n"
                   "eval_steps: 0.25\nsave_steps: 0.5\nsave_total_limit: 1\n"));
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_EQ(t.At("train.max_steps"), "50");
  EXPECT_EQ(t.At("train.num_epochs"), "");
  EXPECT_EQ(t.At("eval.eval_steps"), "13");
  EXPECT_EQ(t.At("checkpoint.save_steps"), "25");
  EXPECT_EQ(t.At("checkpoint.save_total_limit"), "2");
}

TEST(AxolotlTest, IntervalsInPassesAreTold) {
  const Tried t =
      Try(WithData("val_set_size: 0.1\nevals_per_epoch: 4\nsaves_per_epoch: 1\n"
                   "early_stopping_patience: 3\n"));
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_TRUE(t.Says("left out: evals_per_epoch: 4 (eval.eval_steps stays 100"));
  EXPECT_TRUE(t.Says("left out: saves_per_epoch: 1 (checkpoint.save_steps stays 100"));
  EXPECT_EQ(t.At("eval.early_stopping_patience"), "3");
  EXPECT_EQ(Try(WithData("val_set_size: 0.1\nevals_per_epoch: 0\n")).At("eval.eval_steps"), "0");
  EXPECT_EQ(Try(WithData("val_set_size: 0.1\n")).At("eval.eval_steps"), "0");
  EXPECT_EQ(Try(WithData("val_set_size: 0\neval_steps: 10\n")).At("eval"), "");
}

TEST(AxolotlTest, ScheduleWarmUpAndDecay) {
  const Tried t =
      Try(WithData("lr_scheduler: constant_with_warmup\nwarmup_steps: 0.1\n"
                   "adam_beta2: 0.95\nadam_epsilon: 1e-5\nmax_grad_norm: 0\n"));
  EXPECT_EQ(t.At("train.lr_scheduler"), "\"constant\"");
  EXPECT_EQ(t.At("train.warmup_ratio"), "0.1");
  EXPECT_EQ(t.At("train.betas"), "[0.9,0.95]");
  EXPECT_EQ(t.At("train.eps"), "1e-05");
  EXPECT_EQ(t.At("train.max_grad_norm"), "1000000000");
  const Tried constant = Try(WithData("lr_scheduler: constant\nwarmup_ratio: 0.1\n"));
  EXPECT_EQ(constant.At("train.warmup_steps"), "0");
  const Tried floor = Try(WithData("cosine_min_lr_ratio: 0.2\nwarmup_steps: 0\nwarmup_ratio: 1\n"));
  EXPECT_EQ(floor.At("train.min_lr_ratio"), "0.2");
  EXPECT_EQ(floor.At("train.warmup_steps"), "0");
  const Tried kwargs =
      Try(WithData("lr_scheduler: cosine_with_min_lr\n"
                   "lr_scheduler_kwargs: {min_lr: 2e-5}\n"));
  EXPECT_EQ(kwargs.At("train.min_lr_ratio"), "0.1");
}

TEST(AxolotlTest, PrecisionFollowsBf16) {
  EXPECT_EQ(Try(WithData("bf16: auto\n")).At("precision.compute"), "\"auto\"");
  EXPECT_EQ(Try(WithData("bf16: true\n")).At("precision.compute"), "\"auto\"");
  EXPECT_EQ(Try(WithData("bf16: false\n")).At("precision.compute"), "\"float32\"");
  EXPECT_EQ(Try(WithData("bf16: true\nfp16: true\n")).At("precision.compute"), "\"auto\"");
  EXPECT_EQ(Try(WithData("fp16: true\n")).At("precision.compute"), "\"float16\"");
}

TEST(AxolotlTest, ConversationsKeepTheirShape) {
  const Tried messages = Try(AxolotlFile(
      "datasets:\n  - {path: ./c.jsonl, type: chat_template, field_messages: talk,\n"
      "     roles_to_train: [assistant, tool], train_on_eos: last}\nchat_template: chatml\n"));
  EXPECT_EQ(messages.At("datasets.0.format"), "\"chat\"");
  EXPECT_EQ(messages.At("datasets.0.field_messages"), "\"talk\"");
  EXPECT_EQ(messages.At("chat_template"), "\"chatml\"");
  EXPECT_EQ(messages.At("roles_to_train"), R"(["assistant","tool"])");
  EXPECT_EQ(messages.At("train_on_eos"), "\"last\"");
  const Tried share = Try(AxolotlFile(
      "datasets:\n  - path: ./c.jsonl\n    type: chat_template\n    field_messages: conversations\n"
      "    message_property_mappings: {role: from, content: value}\n"));
  EXPECT_EQ(share.At("datasets.0.format"), "\"sharegpt\"");
  EXPECT_EQ(share.At("datasets.0.field_messages"), "");
  EXPECT_EQ(share.At("chat_template"), "\"tokenizer_default\"");
  const Tried named = Try(AxolotlFile(
      "datasets:\n  - path: ./c.jsonl\n    type: chat_template\n    message_field_role: who\n"
      "    roles: {user: [human]}\nchat_template: phi_3\n"));
  EXPECT_EQ(named.At("datasets.0.message_role_key"), "\"who\"");
  EXPECT_EQ(named.At("datasets.0.roles"), R"({"user":["human"]})");
  EXPECT_EQ(named.At("chat_template"), "\"tokenizer_default\"");
  EXPECT_TRUE(named.Says("Axolotl's own phi_3 is not brought along"));
}

TEST(AxolotlTest, OneKeyOfShareGptIsNotTheFormat) {
  const Tried t = Try(AxolotlFile(
      "datasets:\n  - path: ./c.jsonl\n    type: chat_template\n    message_field_role: from\n"));
  EXPECT_EQ(t.At("datasets.0.format"), "\"chat\"");
  EXPECT_EQ(t.At("datasets.0.message_role_key"), "\"from\"");
  EXPECT_EQ(t.At("datasets.0.message_content_key"), "");
}

TEST(AxolotlTest, TemplatesFromFilesAndTexts) {
  const std::string chat = "datasets: [{path: ./c.jsonl, type: chat_template}]\n";
  EXPECT_EQ(Try(AxolotlFile(chat + "chat_template: jinja\nchat_template_jinja: t/my.jinja\n"))
                .At("chat_template"),
            "\"./t/my.jinja\"");
  EXPECT_NE(Try(AxolotlFile(chat + "chat_template_jinja: '{{ messages }}'\n"))
                .InTheWay()
                .find("chat_template_jinja (write the template to a file"),
            std::string::npos);
  EXPECT_TRUE(Try(WithData("chat_template: llama3\n")).Says("no source holds conversations"));
}

TEST(AxolotlTest, SourcesOfOtherKinds) {
  const Tried t = Try(AxolotlFile(
      "datasets:\n"
      "  - {path: org/set, name: en, split: 'train[:100]', type: completion, field: body}\n"
      "  - {path: ./b, data_files: a.jsonl, type: input_output, split: 'train[:5%]'}\n"
      "  - {path: ./c.json}\n"
      "  - {path: ./d.json, type: {field_instruction: q, field_output: a}}\n"));
  EXPECT_EQ(t.At("datasets.0.path"), "\"org/set\"");
  EXPECT_EQ(t.At("datasets.0.split"), "\"train[:100]\"");
  EXPECT_EQ(t.At("datasets.0.field_text"), "\"body\"");
  EXPECT_EQ(t.At("datasets.1.data_files"), R"(["a.jsonl"])");
  EXPECT_EQ(t.At("datasets.1.format"), "\"input_output\"");
  EXPECT_EQ(t.At("datasets.1.split"), "\"train[:5%]\"");
  EXPECT_EQ(t.At("datasets.2.format"), "\"tokenized\"");
  EXPECT_EQ(t.At("datasets.3.field_instruction"), "\"q\"");
  EXPECT_EQ(t.At("datasets.3.format"), "\"alpaca\"");
  const Tried own = Try(AxolotlFile("datasets: [{path: ./d.json, type: 'alpaca:phi'}]\n"));
  EXPECT_NE(own.InTheWay().find("datasets[].type (its prompt has no counterpart"),
            std::string::npos);
}

TEST(AxolotlTest, PretrainingReadsTexts) {
  const Tried t = Try(AxolotlFile("pretraining_dataset: ./corpus.jsonl\nmax_steps: 10\n"));
  EXPECT_EQ(t.At("method"), "\"pretrain\"");
  EXPECT_EQ(t.At("datasets.0.format"), "\"completion\"");
  EXPECT_EQ(t.At("datasets.0.path"), "\"./corpus.jsonl\"");
  EXPECT_EQ(t.InTheWay(), "");
}

TEST(AxolotlTest, SpecialTokensOtherThanPaddingAreTold) {
  EXPECT_TRUE(Try(WithData("special_tokens: {pad_token: x}\n")).Says("left out: special_tokens"));
  EXPECT_TRUE(Try(WithData("special_tokens: {eos_token: x}\n")).Says("differs: special_tokens"));
  EXPECT_EQ(Try(WithData("tokens: ['<a>', '<b>']\n")).At("base_model.added_tokens"),
            "[\"<a>\",\"<b>\"]");
}

TEST(AxolotlTest, UnknownKeysAreTold) {
  EXPECT_TRUE(
      Try(WithData("sample_paking: true\n"))
          .Says("differs: sample_paking: true (is no key of Axolotl that the import knows)"));
}

TEST(AxolotlTest, LatentAttentionIsInTheWayOfNothing) {
  for (const char* model : {"zai-org/GLM-4.7-Flash", "deepseek-ai/DeepSeek-V3-Base"}) {
    const Tried t = Try("base_model: " + std::string(model) +
                        "\nlearning_rate: 1e-4\ndatasets: [{path: ./a.json, type: alpaca}]\n");
    EXPECT_EQ(t.InTheWay(), "") << model;
  }
}

TEST(AxolotlTest, FamiliesToComeAreNamed) {
  for (const auto& [model, expected] :
       {std::pair("tiiuae/falcon-7b", "its family is not supported yet"),
        std::pair("deepseek-ai/DeepSeek-V2-Lite", "its family is not supported yet"),
        std::pair("deepseek-ai/DeepSeek-V3.2", "its family is not supported yet"),
        std::pair("Qwen/Qwen3-Next-80B-A3B-Instruct", "a model with recurrent layers"),
        std::pair("MiniMaxAI/MiniMax-M2", "its family is not supported yet"),
        std::pair("nvidia/Qwen3-30B-A3B-NVFP4", "a checkpoint quantised so"),
        std::pair("google/gemma-4-26B-A4B", "a model of images or sound"),
        std::pair("Qwen/Qwen2.5-VL-7B-Instruct", "a model of images or sound"),
        std::pair("ai21labs/Jamba-v0.1", "a model with recurrent layers"),
        std::pair("TheBloke/Llama-2-7B-GPTQ", "a checkpoint quantised so")}) {
    const Tried t = Try("base_model: " + std::string(model) +
                        "\nlearning_rate: 1e-4\ndatasets: [{path: ./a.json, type: alpaca}]\n");
    EXPECT_NE(t.InTheWay().find(expected), std::string::npos) << t.InTheWay();
  }
}

TEST(AxolotlTest, FamiliesOfExpertsPass) {
  for (const char* model :
       {"mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen1.5-MoE-A2.7B", "Qwen/Qwen3-30B-A3B",
        "zai-org/GLM-4.5-Air", "openai/gpt-oss-20b", "axolotl-ai-co/gpt-oss-120b-dequantized"}) {
    EXPECT_EQ(Try("base_model: " + std::string(model) +
                  "\nlearning_rate: 1e-4\ndatasets: [{path: ./a.json, type: alpaca}]\n")
                  .InTheWay(),
              "")
        << model;
  }
}

TEST(AxolotlTest, RoutersAreTrainedInFullHoweverTheyAreCalled) {
  for (const char* name : {"gate", "router", "mlp.gate", "block_sparse_moe.gate",
                           "mlp.router.weight", "block_sparse_moe.gate.weight"}) {
    const Tried t = Try(WithData(kLora) + "lora_target_modules: [q_proj, " + name + "]\n");
    EXPECT_EQ(t.At("moe.router"), "\"trained\"") << name;
    EXPECT_EQ(t.At("lora.target_modules"), R"(["q_proj"])") << name;
  }
}

TEST(AxolotlTest, LinearsOfMixtralsExpertsAreStacks) {
  const std::string file =
      "base_model: mistralai/Mixtral-8x7B-v0.1\nlearning_rate: 1e-4\n"
      "datasets: [{path: ./a.json, type: alpaca}]\n" +
      std::string(kLora);
  const Tried t = Try(file + "lora_target_modules: [gate, q_proj, w1, w2, w3]\n");
  EXPECT_EQ(t.At("lora.target_modules"), R"(["q_proj"])");
  EXPECT_EQ(t.At("lora.target_parameters"),
            R"(["mlp.experts.gate_up_proj","mlp.experts.down_proj"])");
  EXPECT_EQ(t.At("moe.router"), "\"trained\"");
  EXPECT_TRUE(t.Says("where w1 and w3 share A")) << t.report;
}

TEST(AxolotlTest, PatternsOverExpertsSayWhatToGive) {
  const std::string file = WithData(kLora) + "lora_target_modules: ";
  EXPECT_EQ(Try(file + "'.*shared_experts[.](up|down)_proj'\n").At("lora.target_modules"),
            R"(["shared_experts.up_proj","shared_experts.down_proj"])");
  EXPECT_EQ(Try(file + "'.*mlp.(shared_expert.)?up_proj'\n").At("lora.target_modules"),
            R"(["up_proj"])");
  const Tried single = Try(file + "'.*mlp.experts.[0-9]+.(up|down)_proj'\n");
  EXPECT_NE(single.InTheWay().find("give lora_target_parameters: [mlp.experts.gate_up_proj"),
            std::string::npos)
      << single.InTheWay();
}

TEST(AxolotlTest, OutputRouterLogitsTrainsTheBalancingLossOfTheModel) {
  const std::string mixtral =
      "base_model: mistralai/Mixtral-8x7B-v0.1\nlearning_rate: 1e-4\n"
      "datasets: [{path: ./a.json, type: alpaca}]\n";
  const Tried named = Try(mixtral + "model_config: {output_router_logits: true}\n");
  EXPECT_EQ(named.At("moe.aux_loss.coef"), "0.02");
  EXPECT_EQ(named.At("moe.aux_loss.over"), "\"micro_batch\"");
  EXPECT_EQ(named.InTheWay(), "");
  EXPECT_EQ(Try(mixtral + "overrides_of_model_config: {output_router_logits: false}\n")
                .At("moe.aux_loss.coef"),
            "0");
  EXPECT_EQ(Try(WithData("model_config: {output_router_logits: true, "
                         "router_aux_loss_coef: 0.5}\n"))
                .At("moe.aux_loss.coef"),
            "0.5");
  for (const auto& [overrides, expected] :
       {std::pair("{output_router_logits: true}", "give router_aux_loss_coef beside it"),
        std::pair("{router_aux_loss_coef: 0.5}", "counts beside output_router_logits: true"),
        std::pair("{hidden_size: 8}", "hidden_size: config.json is that of the model's")}) {
    const Tried t = Try(WithData("model_config: " + std::string(overrides) + "\n"));
    EXPECT_NE(t.InTheWay().find(expected), std::string::npos) << t.InTheWay();
  }
}

// Invariant import-5.
TEST(AxolotlTest, EachFileHasAFolderOfItsOwn) {
  EXPECT_EQ(Try(WithData("output_dir: ./outputs/out/\n")).At("checkpoint.output_dir"),
            "\"./outputs/out/my-job-1\"");
  EXPECT_EQ(Try(WithData("output_dir: out\n")).At("checkpoint.output_dir"), "\"./out/my-job-1\"");
  EXPECT_EQ(Try(WithData("")).At("checkpoint.output_dir"), "\"./out/my-job-1\"");
  EXPECT_TRUE(Try(WithData("output_dir: /out\n"))
                  .Says("changed: output_dir: /out -> checkpoint.output_dir: /out/my-job-1 (each"));
}

// NF4 is bitsandbytes' format, which loads as it is.
TEST(AxolotlTest, ACheckpointInNf4IsOneOfBitsandbytes) {
  EXPECT_EQ(Try("base_model: hugging-quants/Meta-Llama-3.1-405B-BNB-NF4-BF16\nadapter: qlora\n"
                "load_in_4bit: true\nlora_r: 8\nlora_alpha: 16\nlearning_rate: 1e-4\n"
                "datasets: [{path: ./a.json, type: alpaca}]\n")
                .InTheWay(),
            "");
}

}  // namespace
}  // namespace coxswain::job_import
