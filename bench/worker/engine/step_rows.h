// The rows of step_bench: which model, method, lengths and settings each one trains.
#ifndef COXSWAIN_BENCH_WORKER_ENGINE_STEP_ROWS_H_
#define COXSWAIN_BENCH_WORKER_ENGINE_STEP_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::bench {

struct ModelShape {
  const char* name;
  int64_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim;
  bool tied;
  int64_t parameters, lora_parameters;  // counted by hand: all weights; rank 16 on all linears
};

struct Row {
  std::string name;  // size_method_sequence, then what is not a default
  const ModelShape* model = nullptr;
  const char* device = "cuda";
  int64_t sequence_len = 0;
  int64_t micro_bins = 0;
  int64_t micro_steps = 1;
  int64_t lora_rank = 0;  // 0: full fine-tuning
  bool packed = false;    // lengths of the Alpaca set; else every document fills its bin
  // Lines of the job's spec beyond the defaults: "recompute: norm_swiglu".
  std::vector<std::string> settings = {};
  double goal = 0;  // tokens/s; 0: none
  std::string remark = "";
  int64_t expected_parameters() const {
    return lora_rank > 0 ? model->lora_parameters : model->parameters;
  }
};

// Rows of a device, in the order of the table.
std::vector<Row> Rows(const std::string& device);

// Writes config.json of the row's model into `directory`, which is made.
absl::Status WriteModelConfig(const ModelShape& model, const std::string& directory);

// The job that a user would submit for the row; `directory` holds the model.
std::string JobYaml(const Row& row, const std::string& directory, int64_t steps);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_WORKER_ENGINE_STEP_ROWS_H_
