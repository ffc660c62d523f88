#include "bench/worker/engine/step_rows.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"

namespace coxswain::bench {
namespace {

// Source: config.json of Qwen2.5-0.5B, 1.5B and 7B; the 4-million-parameter model is the
// quickstart's. LoRA: 16 (in + out) over q, k, v, o, gate, up, down of every layer.
constexpr ModelShape kTiny = {"tiny", 4096, 256, 704, 4, 4, 2, 64, true, 4002048, 299008};
constexpr ModelShape kHalf = {"0.5b", 151936, 896, 4864, 24, 14, 2, 64, true, 494032768, 8798208};
constexpr ModelShape kOneAndHalf = {"1.5b", 151936, 1536, 8960,       28,      12,
                                    2,      128,    true, 1543714304, 18464768};
constexpr ModelShape kSeven = {"7b", 152064, 3584,  18944,      28,      28,
                               4,    128,    false, 7615616512, 40370176};

// Weights rounded stochastically: what the planner takes for 7B, and asked for with 0.5B.
constexpr const char* kBFloat16State = "precision: {master_weights: bfloat16, gradients: bfloat16}";

// Attention is most of these; its deterministic backward is fast with much workspace only.
std::vector<Row> LongRows() {
  std::vector<Row> rows;
  for (const int64_t length : {8192, 32768}) {
    Row row{.name = absl::StrCat("0.5b_full_", length),
            .model = &kHalf,
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

std::vector<Row> CudaRows() {
  const Row half{.name = "0.5b_full_1024",
                 .model = &kHalf,
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
                  .model = &kHalf,
                  .sequence_len = 2048,
                  .micro_bins = 16,
                  .micro_steps = 4,
                  .goal = 163000});
  rows.push_back({.name = "1.5b_full_1024",
                  .model = &kOneAndHalf,
                  .sequence_len = 1024,
                  .micro_bins = 32,
                  .micro_steps = 4,
                  .goal = 64500});
  rows.push_back({.name = "7b_full_1024",
                  .model = &kSeven,
                  .sequence_len = 1024,
                  .micro_bins = 4,
                  .micro_steps = 16,
                  .goal = 14500});
  rows.push_back({.name = "0.5b_lora_1024",
                  .model = &kHalf,
                  .sequence_len = 1024,
                  .micro_bins = 32,
                  .lora_rank = 16,
                  .goal = 185000});
  rows.push_back({.name = "7b_lora_1024",
                  .model = &kSeven,
                  .sequence_len = 1024,
                  .micro_bins = 8,
                  .lora_rank = 16,
                  .goal = 19500});
  rows.push_back({.name = "0.5b_packed_2048",
                  .model = &kHalf,
                  .sequence_len = 2048,
                  .micro_bins = 16,
                  .micro_steps = 4,
                  .packed = true,
                  .remark = "Alpaca lengths, best fit, real tokens only"});
  rows.push_back(variant("_norm_swiglu", {"recompute: norm_swiglu"}, ""));
  rows.push_back(variant("_fast_attention", {"attention: {deterministic: false}"}, ""));
  rows.push_back(variant("_bf16_state", {kBFloat16State},
                         "LLM.Q's weights and gradients; its moments are bfloat16, ours float32"));
  for (Row& row : LongRows()) rows.push_back(std::move(row));
  return rows;
}

// The quickstart's shapes: 4 bins of 512 in two micro-steps, one thread.
std::vector<Row> CpuRows() {
  const Row full{.name = "tiny_full_512",
                 .model = &kTiny,
                 .device = "cpu",
                 .sequence_len = 512,
                 .micro_bins = 2,
                 .micro_steps = 2};
  Row block = full, lora = full;
  block.name += "_block";
  block.settings = {"recompute: block"};
  lora.name = "tiny_lora_512";
  lora.lora_rank = 16;
  return {full, block, lora};
}

}  // namespace

std::vector<Row> Rows(const std::string& device) {
  return device == "cuda" ? CudaRows() : CpuRows();
}

absl::Status WriteModelConfig(const ModelShape& model, const std::string& directory) {
  std::error_code ignored;  // the write below reports it
  std::filesystem::create_directories(directory, ignored);
  const nlohmann::json config = {{"architectures", {"Qwen2ForCausalLM"}},
                                 {"model_type", "qwen2"},
                                 {"hidden_act", "silu"},
                                 {"vocab_size", model.vocab},
                                 {"hidden_size", model.hidden},
                                 {"intermediate_size", model.intermediate},
                                 {"num_hidden_layers", model.layers},
                                 {"num_attention_heads", model.heads},
                                 {"num_key_value_heads", model.kv_heads},
                                 {"head_dim", model.head_dim},
                                 {"max_position_embeddings", 32768},
                                 {"rms_norm_eps", 1e-6},
                                 {"rope_theta", 1000000.0},
                                 {"tie_word_embeddings", model.tied},
                                 {"use_sliding_window", false},
                                 {"initializer_range", 0.02},
                                 {"torch_dtype", "bfloat16"}};
  return WriteFileDurably(directory + "/config.json", config.dump(1) + "\n");
}

std::string JobYaml(const Row& row, const std::string& directory, int64_t steps) {
  std::string yaml = absl::StrCat(
      "apiVersion: coxswain/v1\n"
      "kind: FineTuneJob\n"
      "metadata: {name: step-bench}\n"
      "spec:\n"
      "  base_model: {path: ",
      directory,
      ", init: random}\n"
      "  datasets: [{path: ",
      directory,
      "/documents.jsonl, format: completion}]\n"
      "  sequence_len: ",
      row.sequence_len,
      "\n"
      "  train: {micro_batch_size: ",
      row.micro_bins, ", gradient_accumulation_steps: ", row.micro_steps, ", max_steps: ", steps,
      "}\n"
      "  checkpoint: {output_dir: ",
      directory,
      "/out}\n"
      "  resources: {device: ",
      row.device, "}\n");
  if (row.lora_rank > 0) {
    absl::StrAppend(&yaml, "  adapter: lora\n  lora: {r: ", row.lora_rank,
                    ", alpha: ", 2 * row.lora_rank, "}\n");
  }
  for (const std::string& line : row.settings) absl::StrAppend(&yaml, "  ", line, "\n");
  return yaml;
}

}  // namespace coxswain::bench
