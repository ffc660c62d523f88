#include "bench/worker/engine/step_rows.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"

namespace coxswain::bench {
namespace {

// All weights; of LoRA 16 (in + out) over q, k, v, o, gate, up, down of every layer.
constexpr int64_t kHalf = 494032768, kHalfLora = 8798208, kOneAndHalf = 1543714304,
                  kThree = 3085938688, kSeven = 7615616512, kSevenLora = 40370176;

// Weights rounded stochastically: what the planner takes for 7B, and asked for with 0.5B.
constexpr const char* kBFloat16State = "precision: {master_weights: bfloat16, gradients: bfloat16}";

// Attention is most of these; its deterministic backward is fast with much workspace only.
std::vector<Row> LongRows() {
  std::vector<Row> rows;
  for (const int64_t length : {4096, 8192, 32768}) {
    Row row{.name = absl::StrCat("0.5b_full_", length),
            .model = "0.5b",
            .parameters = kHalf,
            .sequence_len = length,
            .micro_bins = 32768 / length,
            .micro_steps = 4};
    rows.push_back(row);
    row.name += "_4gib";
    row.settings = {"attention: {workspace_gib: 4}"};
    rows.push_back(std::move(row));
  }
  return rows;
}

// Other families; number formats of full rows as their peers have them, moments aside.
std::vector<Row> FamilyRows() {
  const auto full = [](const std::string& model, int64_t parameters, int64_t length,
                       int64_t micro_steps) {
    return Row{.name = absl::StrCat(model, "_full_", length),
               .model = model,
               .parameters = parameters,
               .sequence_len = length,
               .micro_bins = 4,
               .micro_steps = micro_steps,
               .settings = {kBFloat16State}};
  };
  const auto lora = [](const std::string& model, int64_t parameters) {
    return Row{.name = absl::StrCat(model, "_lora_1024"),
               .model = model,
               .parameters = parameters,
               .sequence_len = 1024,
               .micro_bins = 4,
               .lora_rank = 16};
  };
  return {full("gemma3_4b", 3880099328, 2048, 4),
          full("phi4_mini", 3836021760, 2048, 4),
          full("smollm3_3b", 3075098624, 2048, 4),
          full("llama31_8b", 8030261248, 1024, 16),
          full("qwen3_8b", 8190735360, 1024, 16),
          lora("gemma3_12b", 65470464),
          lora("qwen3_14b", 64225280)};
}

// One document in a micro-step, of as many tokens as others publish; the planner chooses what is
// computed again. LoRA of Qwen3-4B has 16 x 57,344 elements a layer.
std::vector<Row> ContextRows() {
  const auto lora = [](const std::string& model, int64_t parameters, int64_t length) {
    return Row{.name = absl::StrCat(model, "_lora_", length),
               .model = model,
               .parameters = parameters,
               .sequence_len = length,
               .micro_bins = 1,
               .lora_rank = 16,
               .settings = {"recompute: auto"}};
  };
  std::vector<Row> rows = {lora("llama31_8b", 41943040, 32768),
                           lora("llama31_8b", 41943040, 131072), lora("qwen3_4b", 33030144, 65536)};
  // The same tokens in documents of two lengths, with forward of attention in FP8 and without.
  for (const int64_t length : {8192, 32768}) {
    Row row = lora("llama31_8b", 41943040, length);
    row.micro_bins = 32768 / length;
    row.name += "_fp8";
    row.settings.push_back("precision: {compute: fp8}");
    rows.push_back(row);
    row.name += "_attention";
    row.settings.back() = "precision: {compute: fp8, fp8: {attention: fp8}}";
    rows.push_back(std::move(row));
  }
  return rows;
}

// The shapes of Chronicals, arXiv 2601.02609: 16 documents of 512 tokens, all weights or LoRA of
// rank 32; 8 of 2,048.
std::vector<Row> SmallBatchRows() {
  const Row full{.name = "0.5b_full_512",
                 .model = "0.5b",
                 .parameters = kHalf,
                 .sequence_len = 512,
                 .micro_bins = 16};
  Row lora = full, longer = full;
  lora.name = "0.5b_lora_512";
  lora.lora_rank = 32;
  lora.parameters = 2 * kHalfLora;
  longer.name = "0.5b_full_2048_x8";
  longer.sequence_len = 2048;
  longer.micro_bins = 8;
  Row states = longer;
  states.name += "_adamw_8bit";
  states.optimizer = "adamw_8bit";
  return {full, lora, longer, states};
}

// A quantised base: the row of LoRA beside it, and models that have to fit into a memory.
std::vector<Row> QuantizedRows() {
  Row seven{.name = "7b_qlora_1024",
            .model = "7b",
            .parameters = kSevenLora,
            .sequence_len = 1024,
            .micro_bins = 8,
            .lora_rank = 16,
            .quantized = true};
  const auto fits = [&seven](std::string model, int64_t parameters, double gib) {
    Row row = seven;
    row.name = absl::StrCat(model, "_qlora_2048");
    row.model = std::move(model);
    row.parameters = parameters;
    row.sequence_len = 2048;
    row.micro_bins = 1;
    row.settings = {"recompute: block"};
    row.memory_limit = gib;
    return row;
  };
  Row again = seven;
  again.name = "7b_qlora_1024_block";
  again.settings = {"recompute: block"};
  return {seven,
          again,
          fits("llama_7b", 39976960, 10),
          fits("llama_13b", 62586880, 16),
          fits("llama_65b", 199884800, 48),
          fits("llama_70b", 207093760, 54)};
}

// gpt-oss-20b as published, but for its numbers: experts in MXFP4. LoRA has 16 x 20,736 elements a
// layer on attention, 32 x 16 x 14,400 on experts.
Row Mxfp4Row(Row row) {
  row.name = "gpt_oss_20b_mxfp4_lora_4096";
  row.model = "gpt_oss_20b";
  row.parameters = int64_t{24} * 16 * (20736 + 32 * 14400);
  row.quantized = true;
  row.settings.emplace_back("quantization: {format: mxfp4}");
  row.goal = 18000;
  return row;
}

// Mixtures of experts, packed documents of real lengths, of which a bin holds about 40. LoRA on
// attention has 16 x 17,408 elements a layer, on experts 128 x 16 x 6,400 more.
std::vector<Row> ExpertRows() {
  constexpr int64_t kAttention = 13369344, kExperts = 629145600;
  const Row attention{.name = "30b_a3b_attn_lora_4096",
                      .model = "qwen3_30b_a3b",
                      .parameters = kAttention,
                      .sequence_len = 4096,
                      .micro_bins = 4,
                      .lora_rank = 16,
                      .documents = Documents::kAlpaca,
                      .settings = {"packing: {max_documents_per_bin: 128}"},
                      .goal = 22000};
  Row all = attention;
  all.name = "30b_a3b_lora_4096";
  all.parameters += kExperts;
  all.experts = true;
  all.goal = 20000;
  Row quantized = all;
  quantized.name = "30b_a3b_qlora_4096";
  quantized.quantized = true;
  quantized.goal = 15000;
  Row least = attention;  // in 63 GB, the runtime of CUDA (0.54 GiB) not counted
  least.name = "30b_a3b_attn_lora_2048_x1";
  least.sequence_len = 2048;
  least.micro_bins = 1;
  least.memory_limit = 59.2;
  least.goal = 0;
  return {all, attention, quantized, Mxfp4Row(all), least};
}

// Trained parameters are those of A and B alone, of r each.
Row OfRank64(Row row) {
  row.name += "_r64";
  row.parameters *= 64 / row.lora_rank;
  row.lora_rank = 64;
  row.goal = 0;
  return row;
}

// Documents of several lengths in a bin, which packing fills. A step of one micro-step has a batch
// that is still one of few micro-steps where a document has a bin to itself.
std::vector<Row> PackedRows() {
  const Row half{.name = "0.5b_packed_2048_x1",
                 .model = "0.5b",
                 .parameters = kHalf,
                 .sequence_len = 2048,
                 .micro_bins = 16,
                 .documents = Documents::kAlpaca};
  Row gsm8k = half, chat = half, shorter = half;
  shorter.name = "0.5b_packed_512";
  shorter.sequence_len = 512;
  shorter.micro_bins = 64;
  gsm8k.name = "0.5b_gsm8k_2048";
  gsm8k.documents = Documents::kGsm8k;
  chat.name = "0.5b_chat_8192";
  chat.documents = Documents::kChat;
  chat.sequence_len = 8192;
  chat.micro_bins = 4;
  return {half,
          gsm8k,
          chat,
          shorter,
          {.name = "llama31_8b_lora_packed_2048",
           .model = "llama31_8b",
           .parameters = 41943040,
           .sequence_len = 2048,
           .micro_bins = 4,
           .lora_rank = 16,
           .documents = Documents::kAlpaca}};
}

// Rows with the products of blocks in FP8; beside the tensorwise ones of 7B the same without codes
// of weights, and of all weights the other recipes.
std::vector<Row> Fp8Rows(const std::vector<Row>& rows) {
  const auto in_fp8 = [](Row row, std::string recipe) {
    row.name += recipe == "tensorwise" ? "_fp8" : "_fp8_" + recipe;
    if (row.model == "qwen3_30b_a3b") recipe += ", experts: fp8";
    row.settings.push_back(absl::StrCat("precision: {compute: fp8, fp8: {recipe: ", recipe, "}}"));
    row.goal = 0;
    return row;
  };
  std::vector<Row> out;
  for (const Row& row : rows) {
    for (const char* name : {"0.5b_full_1024", "1.5b_full_1024", "3b_full_1024", "7b_full_1024",
                             "7b_lora_1024", "30b_a3b_attn_lora_4096", "30b_a3b_lora_4096"}) {
      if (row.name == name) out.push_back(in_fp8(row, "tensorwise"));
    }
    if (row.name == "7b_full_1024" || row.name == "7b_lora_1024") {
      Row least = in_fp8(row, "tensorwise, weights: bfloat16");
      least.name = row.name + "_fp8_least";
      out.push_back(std::move(least));
    }
    if (row.name != "7b_full_1024") continue;
    for (const char* recipe : {"rowwise", "blockwise", "delayed"})
      out.push_back(in_fp8(row, recipe));
  }
  return out;
}

std::vector<Row> CudaRows() {
  const Row half{.name = "0.5b_full_1024",
                 .model = "0.5b",
                 .parameters = kHalf,
                 .sequence_len = 1024,
                 .micro_bins = 32,
                 .micro_steps = 4};
  const auto variant = [&half](const char* suffix, std::vector<std::string> settings,
                               std::string remark) {
    Row row = half;
    row.name += suffix;
    row.settings = std::move(settings);
    row.remark = std::move(remark);
    return row;
  };
  std::vector<Row> rows = {half};
  rows[0].goal = 175000;
  rows.push_back({.name = "0.5b_full_2048",
                  .model = "0.5b",
                  .parameters = kHalf,
                  .sequence_len = 2048,
                  .micro_bins = 16,
                  .micro_steps = 4,
                  .goal = 163000});
  rows.push_back({.name = "1.5b_full_1024",
                  .model = "1.5b",
                  .parameters = kOneAndHalf,
                  .sequence_len = 1024,
                  .micro_bins = 32,
                  .micro_steps = 4,
                  .goal = 64500});
  rows.push_back({.name = "3b_full_1024",
                  .model = "3b",
                  .parameters = kThree,
                  .sequence_len = 1024,
                  .micro_bins = 16,
                  .micro_steps = 4});
  rows.push_back({.name = "7b_full_1024",
                  .model = "7b",
                  .parameters = kSeven,
                  .sequence_len = 1024,
                  .micro_bins = 4,
                  .micro_steps = 16,
                  .goal = 14500});
  rows.push_back({.name = "7b_full_1024_adamw_8bit",
                  .model = "7b",
                  .parameters = kSeven,
                  .sequence_len = 1024,
                  .micro_bins = 4,
                  .micro_steps = 16,
                  .optimizer = "adamw_8bit",
                  .settings = {kBFloat16State}});
  rows.push_back({.name = "0.5b_lora_1024",
                  .model = "0.5b",
                  .parameters = kHalfLora,
                  .sequence_len = 1024,
                  .micro_bins = 32,
                  .lora_rank = 16,
                  .goal = 185000});
  rows.push_back(OfRank64(rows.back()));
  rows.push_back({.name = "7b_lora_1024",
                  .model = "7b",
                  .parameters = kSevenLora,
                  .sequence_len = 1024,
                  .micro_bins = 8,
                  .lora_rank = 16,
                  .goal = 19500});
  rows.push_back(OfRank64(rows.back()));
  rows.push_back({.name = "7b_lora_dpo_512",
                  .model = "7b",
                  .parameters = kSevenLora,
                  .sequence_len = 512,
                  .micro_bins = 8,
                  .method = "dpo",
                  .lora_rank = 16,
                  .remark = "as many tokens as 7b_lora_1024, both sides counted"});
  rows.push_back({.name = "0.5b_full_dpo_512",
                  .model = "0.5b",
                  .parameters = kHalf,
                  .sequence_len = 512,
                  .micro_bins = 32,
                  .micro_steps = 4,
                  .method = "dpo",
                  .remark = "as many tokens as 0.5b_full_1024; the reference is kept"});
  rows.push_back({.name = "7b_lora_reward_512",
                  .model = "7b",
                  .parameters = kSevenLora + 3584,
                  .sequence_len = 512,
                  .micro_bins = 8,
                  .method = "reward",
                  .lora_rank = 16,
                  .remark = "as many tokens as 7b_lora_1024, both sides counted"});
  rows.push_back({.name = "0.5b_full_reward_512",
                  .model = "0.5b",
                  .parameters = kHalf + 896,
                  .sequence_len = 512,
                  .micro_bins = 32,
                  .micro_steps = 4,
                  .method = "reward",
                  .remark = "as many tokens as 0.5b_full_1024"});
  rows.push_back({.name = "0.5b_packed_2048",
                  .model = "0.5b",
                  .parameters = kHalf,
                  .sequence_len = 2048,
                  .micro_bins = 16,
                  .micro_steps = 4,
                  .documents = Documents::kAlpaca,
                  .remark = "Alpaca lengths, best fit, real tokens only"});
  rows.push_back(variant("_norm_swiglu", {"recompute: norm_swiglu"}, ""));
  rows.push_back(variant("_fast_attention", {"attention: {deterministic: false}"}, ""));
  rows.push_back(variant("_bf16_state", {kBFloat16State},
                         "LLM.Q's weights and gradients; its moments are bfloat16, ours float32"));
  for (Row& row : Fp8Rows(rows)) rows.push_back(std::move(row));
  for (Row& row : LongRows()) rows.push_back(std::move(row));
  for (Row& row : FamilyRows()) rows.push_back(std::move(row));
  for (Row& row : ContextRows()) rows.push_back(std::move(row));
  for (Row& row : SmallBatchRows()) rows.push_back(std::move(row));
  for (Row& row : QuantizedRows()) rows.push_back(std::move(row));
  for (Row& row : PackedRows()) rows.push_back(std::move(row));
  const std::vector<Row> experts = ExpertRows();
  rows.insert(rows.end(), experts.begin(), experts.end());
  for (Row& row : Fp8Rows(experts)) rows.push_back(std::move(row));
  return rows;
}

// The quickstart's shapes: 4 bins of 512 in two micro-steps, one thread.
std::vector<Row> CpuRows() {
  const Row full{.name = "tiny_full_512",
                 .model = "tiny",
                 .parameters = 4002048,
                 .device = "cpu",
                 .sequence_len = 512,
                 .micro_bins = 2,
                 .micro_steps = 2};
  Row block = full, lora = full, packed = full;
  block.name += "_block";
  block.settings = {"recompute: block"};
  lora.name = "tiny_lora_512";
  lora.lora_rank = 16;
  lora.parameters = 299008;
  packed.name = "tiny_packed_512";
  packed.documents = Documents::kAlpaca;
  return {full, block, lora, packed};
}

}  // namespace

std::vector<Row> Rows(const std::string& device) {
  return device == "cuda" ? CudaRows() : CpuRows();
}

absl::Status CopyModelConfig(const std::string& model, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string config,
                   ReadFile(absl::StrCat("bench/models/", model, "/config.json")));
  std::error_code ignored;  // the write below reports it
  std::filesystem::create_directories(directory, ignored);
  return WriteFileDurably(directory + "/config.json", config);
}

std::string JobYaml(const Row& row, const std::string& directory, int64_t steps) {
  const bool pairs = std::string_view(row.method) != "sft";
  std::string yaml = absl::StrCat(
      "apiVersion: coxswain/v1\n"
      "kind: FineTuneJob\n"
      "metadata: {name: step-bench}\n"
      "spec:\n"
      "  base_model: {path: ",
      directory,
      ", init: random}\n"
      "  datasets: [{path: ",
      directory, "/documents.jsonl, format: ", pairs ? "preference" : "completion",
      "}]\n  method: ", row.method,
      "\n"
      "  sequence_len: ",
      row.sequence_len,
      "\n"
      "  train: {micro_batch_size: ",
      row.micro_bins, ", gradient_accumulation_steps: ", row.micro_steps, ", max_steps: ", steps,
      ", optimizer: ", row.optimizer,
      "}\n"
      "  checkpoint: {output_dir: ",
      directory,
      "/out}\n"
      "  resources: {device: ",
      row.device, ", workers: ", row.workers, "}\n");
  if (row.lora_rank > 0) {
    absl::StrAppend(&yaml, "  adapter: ", row.quantized ? "qlora" : "lora",
                    "\n  lora: {r: ", row.lora_rank, ", alpha: ", 2 * row.lora_rank,
                    row.experts ? ", target_parameters: [mlp.experts.gate_up_proj, "
                                  "mlp.experts.down_proj]"
                                : "",
                    "}\n");
  }
  for (const std::string& line : row.settings) absl::StrAppend(&yaml, "  ", line, "\n");
  return yaml;
}

}  // namespace coxswain::bench
