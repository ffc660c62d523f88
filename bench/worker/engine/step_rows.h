// The rows of step_bench: which model, method, lengths and settings each one trains.
#ifndef COXSWAIN_BENCH_WORKER_ENGINE_STEP_ROWS_H_
#define COXSWAIN_BENCH_WORKER_ENGINE_STEP_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::bench {

// How long documents are: as long as a bin; or as the records of Alpaca and GSM8K, or as chats with
// a long tail (document_lengths.h), none longer than a bin.
enum class Documents { kWhole, kAlpaca, kGsm8k, kChat };

struct Row {
  std::string name;        // size_method_sequence, then what is not a default
  std::string model;       // folder of bench/models
  int64_t parameters = 0;  // trained ones, counted by hand
  const char* device = "cuda";
  int64_t sequence_len = 0;
  int64_t micro_bins = 0;
  int64_t micro_steps = 1;
  int64_t workers = 1;         // each with so many bins; of a gang, which step_bench does not run
  const char* method = "sft";  // of pairs ("dpo"): sequence_len is of a document, a bin has two
  int64_t lora_rank = 0;       // 0: full fine-tuning
  bool quantized = false;      // the base, in NF4, doubly, unless settings say otherwise
  bool experts = false;        // LoRA adapts the stacks of experts too
  const char* optimizer = "adamw";
  double memory_limit = 0;  // GiB that the plan may take; 0: no limit
  Documents documents = Documents::kWhole;
  // Lines of the job's spec beyond the defaults: "recompute: norm_swiglu".
  std::vector<std::string> settings = {};
  double goal = 0;  // tokens/s; 0: none
  std::string remark = "";
};

// Rows of a device, in the order of the table.
std::vector<Row> Rows(const std::string& device);

// Copies config.json of a folder of bench/models into `directory`, which is made. NotFound outside
// of the repository's root.
absl::Status CopyModelConfig(const std::string& model, const std::string& directory);

// The job that a user would submit for the row; `directory` holds the model.
std::string JobYaml(const Row& row, const std::string& directory, int64_t steps);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_WORKER_ENGINE_STEP_ROWS_H_
