// What fits into the memory of one GPU, by the planner: the longest sequence of a micro-step of one
// bin, for each model, method and recompute level. Plans lie within 3 % of measured peaks
// (bench/results/h200_step.json), so that no GPU is needed; none of these jobs is run.
//
//   build/cpu/bench/memory_limits_bench [--json FILE]     from the repository root
//
// Methods: full, bfloat16 weights and gradients with AdamW's float32 moments; full with
// adamw_8bit; LoRA and QLoRA of rank 16. Lengths are multiples of 1,024 up to what the model was
// made for, and 131,072; 0: not even 1,024. Writes bench/results/memory_limits.json by default.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "bench/worker/engine/step_data.h"
#include "bench/worker/engine/step_rows.h"
#include "common/config/parser/job_parser.h"
#include "common/files/read_file.h"
#include "common/model/read/read_model_config.h"
#include "common/status_macros.h"
#include "controller/planner/planner.h"

namespace coxswain::bench {
namespace {

constexpr int64_t kGrain = 1024, kLongest = 131072;  // of lengths
constexpr int32_t kHopper = 90;
constexpr const char* kModels[] = {"0.5b",       "1.5b",      "gemma3_4b", "7b",
                                   "llama31_8b", "qwen3_14b", "llama_13b", "llama_70b"};

struct Gpu {
  const char* name;
  double gib;  // that a plan may take: what the driver shows less what is left free
};
constexpr Gpu kGpus[] = {{"H100", 78}, {"H200", 138}};

struct Method {
  const char* name;
  int64_t lora_rank;
  bool quantized;
  const char* optimizer;
  const char* line;
};
constexpr const char* kSmallState = "precision: {master_weights: bfloat16, gradients: bfloat16}";
constexpr Method kMethods[] = {{"full", 0, false, "adamw", kSmallState},
                               {"full, adamw_8bit", 0, false, "adamw_8bit", kSmallState},
                               {"lora", 16, false, "adamw", ""},
                               {"qlora", 16, true, "adamw", ""}};

// Positions that the model was made for.
absl::StatusOr<int64_t> Positions(const std::string& model) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(absl::StrCat("bench/models/", model, "/config.json")));
  return nlohmann::json::parse(text).at("max_position_embeddings").get<int64_t>();
}

// Plans jobs of one model, method and level.
class Planner {
 public:
  Planner(const char* model, const Method& method, const char* level, std::string folder)
      : row_{.name = "memory_limits",
             .model = model,
             .micro_bins = 1,
             .lora_rank = method.lora_rank,
             .quantized = method.quantized,
             .optimizer = method.optimizer,
             .settings = {absl::StrCat("recompute: ", level)}},
        folder_(std::move(folder)) {
    if (*method.line != '\0') row_.settings.push_back(method.line);
  }

  // Bytes of the device that bins of so many tokens take.
  absl::StatusOr<uint64_t> Bytes(int64_t length) {
    row_.sequence_len = length;
    RETURN_IF_ERROR(CopyModelConfig(row_.model, folder_));
    const config::ParsedJob job = config::ParseJob(JobYaml(row_, folder_, 1), folder_);
    if (!job.errors.empty()) {
      return absl::InvalidArgumentError(config::FormatErrors(job.errors, row_.name));
    }
    ASSIGN_OR_RETURN(const auto model, model::ReadModelConfig(folder_));
    ASSIGN_OR_RETURN(const auto data, RandomDocuments(row_, model.vocab_size, folder_));
    ASSIGN_OR_RETURN(const auto recipe, planner::Recipe::Make(job.spec, model, data));
    ASSIGN_OR_RETURN(const auto planned, planner::MakePlan("limits", job.spec, model, recipe,
                                                           {.compute_capability = kHopper}));
    return planned.estimate.total_bytes;
  }

  // The longest of the lengths up to `most` whose plan has at most `limit` bytes.
  absl::StatusOr<int64_t> Longest(double limit, int64_t most) {
    int64_t fits = 0, above = most / kGrain + 1;  // in grains
    while (above - fits > 1) {
      const int64_t middle = (fits + above) / 2;
      ASSIGN_OR_RETURN(const uint64_t bytes, Bytes(middle * kGrain));
      (static_cast<double>(bytes) <= limit ? fits : above) = middle;
    }
    return fits * kGrain;
  }

 private:
  Row row_;
  const std::string folder_;
};

absl::StatusOr<nlohmann::json> Limits(const char* model, const std::string& folder) {
  ASSIGN_OR_RETURN(const int64_t positions, Positions(model));
  nlohmann::json rows = nlohmann::json::array();
  for (const Method& method : kMethods) {
    for (const char* level : {"none", "block"}) {
      nlohmann::json row = {{"model", model},
                            {"positions", positions},
                            {"method", method.name},
                            {"recompute", level}};
      for (const Gpu& gpu : kGpus) {
        Planner planner(model, method, level, folder);
        ASSIGN_OR_RETURN(row[gpu.name],
                         planner.Longest(gpu.gib * (1 << 30), std::min(positions, kLongest)));
      }
      std::printf("%s\n", row.dump().c_str());
      std::fflush(stdout);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

absl::Status Run(const std::string& json_path) {
  const std::string folder = std::filesystem::temp_directory_path() / "coxswain-memory-limits";
  nlohmann::json results = {{"command", "build/cpu/bench/memory_limits_bench"}};
  for (const Gpu& gpu : kGpus) results["gib"][gpu.name] = gpu.gib;
  for (const char* model : kModels) {
    ASSIGN_OR_RETURN(const auto rows, Limits(model, folder));
    for (const nlohmann::json& row : rows) results["rows"].push_back(row);
  }
  std::filesystem::remove_all(folder);
  WriteResults(json_path, std::move(results));
  return absl::OkStatus();
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  std::string json_path = "bench/results/memory_limits.json";
  CLI::App app{"What fits into the memory of one GPU"};
  app.add_option("--json", json_path, "results file");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = coxswain::bench::Run(json_path);
  if (!status.ok()) std::fprintf(stderr, "memory_limits_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
