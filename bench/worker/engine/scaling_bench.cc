// Efficiency over GPUs by the planner: the step of one GPU over the step of N, each of which
// computes as many bins as the one. No GPU is needed; none of these jobs is run.
//
//   build/cpu/bench/scaling_bench [--json FILE]     from the repository root
//
// The planner's time of a step lies within 15 % of recorded steps (tests/bench/recorded_steps_test)
// of one, two and four GPUs. Beyond these nothing was measured. Two assumptions of the links, which
// bound what a cluster gives: every collective at the rate of NVLink, as two H200 were measured;
// and every collective of more than one host of 8 at that of a network of 400 Gbit/s a GPU. Writes
// bench/results/papers_scaling.json by default.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "bench/worker/engine/step_plan.h"
#include "common/gpu_table.h"
#include "common/status_macros.h"

namespace coxswain::bench {
namespace {

constexpr int64_t kSteps = 3, kGpusOfHost = 8;
constexpr int64_t kCounts[] = {1, 2, 4, 8, 16, 32, 64};
constexpr const char* kGpu = "H200";
constexpr double kNetworkBytesPerSecond = 50e9;  // 400 Gbit/s
constexpr const char* kSmallState = "precision: {master_weights: bfloat16, gradients: bfloat16}";

struct Scaled {
  Row row;
  const char* zero;  // line of the spec of several GPUs; empty: what the planner takes
};

std::vector<Scaled> ScaledRows() {
  const auto row = [](const char* name, const char* model, int64_t bins, int64_t micro_steps) {
    return Row{.name = name,
               .model = model,
               .sequence_len = 1024,
               .micro_bins = bins,
               .micro_steps = micro_steps};
  };
  std::vector<Scaled> rows = {{row("0.5b_full", "0.5b", 32, 4), ""},
                              {row("0.5b_full_x1", "0.5b", 32, 1), ""},
                              {row("0.5b_lora", "0.5b", 32, 1), ""},
                              {row("7b_full_zero1", "7b", 4, 16), "zero: 1"},
                              {row("7b_full_zero3", "7b", 4, 16), "zero: 3"},
                              {row("7b_lora", "7b", 8, 1), ""}};
  for (Scaled& scaled : rows) {
    if (scaled.row.name.find("lora") != std::string::npos) scaled.row.lora_rank = 16;
    if (scaled.row.name.starts_with("7b_full")) scaled.row.settings.push_back(kSmallState);
  }
  return rows;
}

// The step of `gpus` GPUs, by the links that are given; none: as the planner takes them.
absl::StatusOr<plan::Prediction> StepOf(const Scaled& scaled, int64_t gpus,
                                        const std::vector<plan::LinkSpeed>& links,
                                        const std::string& folder) {
  Row row = scaled.row;
  row.workers = gpus;
  if (gpus > 1 && *scaled.zero != '\0') {
    row.settings.push_back(absl::StrCat("parallelism: {", scaled.zero, "}"));
  }
  ASSIGN_OR_RETURN(const GpuKind kind, GpuNamed(kGpu));
  planner::WorkerResources worker{.memory_bytes = kind.plannable_bytes(),
                                  .compute_capability = kind.compute_capability,
                                  .links = links,
                                  .gpu = GpuOf(kind.driver_names.front())};
  for (int64_t left = gpus; left > 0; left -= kGpusOfHost) {
    worker.ranks_of_hosts.push_back(static_cast<int32_t>(std::min(left, kGpusOfHost)));
  }
  ASSIGN_OR_RETURN(const PlannedRow planned, PlanRow(row, folder, kSteps, worker));
  return planned.planned.plan.predicted;
}

// Exits where a plan is refused for another reason than memory: a table of that says nothing.
nlohmann::json Measure(const Scaled& scaled, const char* links, const std::string& folder) {
  const bool network = std::string(links) == "network";
  nlohmann::json steps = nlohmann::json::array();
  double one = 0;
  for (const int64_t gpus : kCounts) {
    std::vector<plan::LinkSpeed> speeds;
    if (network && gpus > kGpusOfHost) {
      speeds = {{.bytes = int64_t{1} << 30, .bytes_per_second = kNetworkBytesPerSecond}};
    }
    const auto step = StepOf(scaled, gpus, speeds, folder);
    if (!step.ok()) {
      std::fprintf(stderr, "%s, %ld GPUs: %s\n", scaled.row.name.c_str(), static_cast<long>(gpus),
                   std::string(step.status().message()).c_str());
      if (!absl::IsResourceExhausted(step.status())) std::exit(1);
      steps.push_back({{"gpus", gpus}, {"refused", std::string(step.status().message())}});
      continue;
    }
    if (gpus == 1) one = step->step_seconds;
    steps.push_back({{"gpus", gpus}, {"predicted_ms", 1e3 * step->step_seconds}});
    if (one > 0) steps.back()["efficiency"] = one / step->step_seconds;
    std::printf("%-14s %-8s %3ld GPUs %9.2f ms%s\n", scaled.row.name.c_str(), links,
                static_cast<long>(gpus), 1e3 * step->step_seconds,
                one > 0 ? absl::StrCat("  ", 100 * one / step->step_seconds, " %").c_str() : "");
  }
  return {{"row", scaled.row.name}, {"links", links}, {"steps", steps}};
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  using namespace coxswain::bench;
  CLI::App app("Efficiency over GPUs by the planner");
  std::string json = "bench/results/papers_scaling.json";
  app.add_option("--json", json, "result file");
  CLI11_PARSE(app, argc, argv);
  const std::string folder = std::filesystem::temp_directory_path() / "coxswain-scaling";
  nlohmann::json rows = nlohmann::json::array();
  for (const Scaled& scaled : ScaledRows()) {
    for (const char* links : {"NVLink", "network"}) rows.push_back(Measure(scaled, links, folder));
  }
  WriteResults(json, {{"bench", "scaling"},
                      {"command", "build/cpu/bench/scaling_bench"},
                      {"device", kGpu},
                      {"rows", rows}});
  return 0;
}
