// Training steps through the worker's engine under plans of the controller's planner: tokens per
// second of the rows in step_rows.cc, from random weights and random tokens.
//   step_bench | gpu_step_bench [--row NAME]... [--steps N] [--warmup N] [--seconds S] [--json
//   FILE]
// A step is timed from handing its batch to Engine::Train until the statistics are back; tokens/s
// is the median over the steps, real tokens only. --seconds bounds the timed steps of a row, and a
// quarter of it the warm-up. With libsync_counter.so preloaded, the calls that made the host wait
// in the timed steps are counted. --json keeps the rows of other names that the file holds; without
// it a run of all rows writes bench/results (kResults). A row whose step fails, whose gradients are
// zero or not finite, or whose updates were not all applied has no speed. Energy is that of the
// timed steps, by the driver's counter.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "bench/energy.h"
#include "bench/host_waits.h"
#include "bench/profiler_window.h"
#include "bench/report.h"
#include "bench/worker/engine/step_data.h"
#include "bench/worker/engine/step_plan.h"
#include "bench/worker/engine/step_rows.h"
#include "common/build_info.h"
#include "common/hash.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/storage.h"
#include "common/status_macros.h"
#include "kernels/device.h"
#include "worker/engine/device.h"
#include "worker/engine/engine.h"

namespace coxswain::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Fixed, as its path is part of the plan and so of the hash. Removed at the end.
constexpr const char* kScratch = "/tmp/coxswain-step-bench";
constexpr double kGib = 1 << 30;
constexpr int64_t kFewestSteps = 3;

struct Flags {
  std::vector<std::string> rows;
  int64_t steps = 100, warmup = 20;
  double seconds = 0;   // 0: no bound
  std::string pci_bus;  // of the device
  std::string json_path;
  std::string gemm_table;  // file; empty: products are tuned in this process
};

struct Measured {
  std::vector<double> rates, seconds;        // of the timed steps
  std::vector<engine::PhaseSeconds> phases;  // likewise
  engine::StepStats first, last;
  int64_t trained = 0;  // steps, warm-up included
  int64_t denominator = 1;
  nlohmann::json under_load;
  std::optional<double> watts;     // of the GPU, likewise; none: not told
  std::optional<HostWaits> waits;  // in the timed steps; none: not counted
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

// What a step must show for its time to count.
absl::Status CheckStep(const engine::StepStats& stats, int64_t step) {
  const double loss = stats.loss_sum / static_cast<double>(std::max<int64_t>(stats.targets, 1));
  if (!std::isfinite(loss) || !std::isfinite(stats.grad_norm) || stats.nonfinite != 0) {
    return absl::FailedPreconditionError(absl::StrCat("step ", step, ": loss ", loss,
                                                      ", gradient norm ", stats.grad_norm, ", ",
                                                      stats.nonfinite, " non-finite elements"));
  }
  if (stats.grad_norm == 0) {
    return absl::FailedPreconditionError(absl::StrCat("step ", step, ": the gradient is zero"));
  }
  if (!stats.applied) {
    return absl::FailedPreconditionError(absl::StrCat("step ", step, ": no update was applied"));
  }
  return absl::OkStatus();
}

// Trains warm-up and timed steps. Steps whose batch is not full are trained and not timed.
absl::StatusOr<Measured> Train(const PlannedRow& prepared, const Flags& flags,
                               engine::Engine* engine) {
  Measured measured;
  const planner::Recipe& recipe = *prepared.recipe;
  const auto full = static_cast<size_t>(recipe.global_batch_bins());
  std::future<nlohmann::json> under_load;
  std::optional<EnergyMeter> energy;
  double warming = 0, timed = 0;
  bool warm = flags.warmup == 0;
  CountHostWaits();
  for (int64_t step = 0; step < recipe.total_steps(); ++step) {
    const engine::TrainStep batch = MakeStep(recipe, *prepared.data.train, step);
    const Clock::time_point begin = Clock::now();
    ASSIGN_OR_RETURN(const engine::StepStats stats, engine->Train(batch));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    RETURN_IF_ERROR(CheckStep(stats, step));
    if (step == 0) measured.first = stats;
    measured.last = stats;
    measured.trained = step + 1;
    if (!warm) {
      warming += seconds;
      const bool bounded = flags.seconds > 0 && warming > flags.seconds / 4;
      warm = step + 1 >= flags.warmup || (bounded && step + 1 >= kFewestSteps);
      if (!warm) continue;
      under_load = std::async(std::launch::async, GpuState);
      CountHostWaits();
      energy.emplace(flags.pci_bus);
      SetProfilerWindow(true);
      continue;
    }
    SetProfilerWindow(false);  // one step is enough
    if (batch.bins.bin_ids.size() != full) continue;
    timed += seconds;
    measured.rates.push_back(static_cast<double>(stats.tokens) / seconds);
    measured.seconds.push_back(seconds);
    measured.phases.push_back(stats.seconds);
    const auto count = static_cast<int64_t>(measured.rates.size());
    if (flags.seconds > 0 && timed > flags.seconds && count >= kFewestSteps) break;
  }
  measured.waits = CountedHostWaits();
  if (energy.has_value()) measured.watts = energy->Watts();
  if (under_load.valid()) measured.under_load = under_load.get();
  if (engine->applied_updates() != measured.trained) {
    return absl::FailedPreconditionError(absl::StrCat(engine->applied_updates(), " updates of ",
                                                      measured.trained, " steps were applied"));
  }
  return measured;
}

double MedianPhase(const Measured& measured, double engine::PhaseSeconds::*phase) {
  std::vector<double> values;
  for (const engine::PhaseSeconds& seconds : measured.phases) values.push_back(seconds.*phase);
  return 1e3 * Median(std::move(values));
}

Json Speed(const Row& row, const Measured& measured) {
  using Phases = engine::PhaseSeconds;
  const auto [slowest, fastest] = std::minmax_element(measured.rates.begin(), measured.rates.end());
  Json json = {{"tokens_per_second", Median(measured.rates)},
               {"tokens_per_second_range", {*slowest, *fastest}},
               {"goal", row.goal},
               {"ms_per_step", 1e3 * Median(measured.seconds)},
               {"steps_timed", measured.rates.size()},
               {"steps_warm_up", measured.trained - static_cast<int64_t>(measured.rates.size())},
               {"tokens_per_step", measured.last.tokens}};
  if (measured.waits.has_value()) {
    json["host_waits"] = {{"count", measured.waits->count}, {"calls", measured.waits->calls}};
  }
  if (measured.watts.has_value()) {
    json["energy"] = {{"watts", *measured.watts},
                      {"joules_per_step", *measured.watts * Median(measured.seconds)},
                      {"tokens_per_joule", Median(measured.rates) / *measured.watts}};
  }
  json["device_ms"] = {{"forward", MedianPhase(measured, &Phases::forward)},
                       {"backward", MedianPhase(measured, &Phases::backward)},
                       {"optimizer", MedianPhase(measured, &Phases::optimizer)},
                       {"step", MedianPhase(measured, &Phases::step)}};
  return json;
}

double Loss(const engine::StepStats& stats) {
  return stats.loss_sum / static_cast<double>(std::max<int64_t>(stats.targets, 1));
}

// Elements of the plan's trainable tensors: all, with a bfloat16 gradient, with a master.
struct Elements {
  explicit Elements(const plan::Plan& plan) {
    for (const model::Parameter& parameter : plan.parameters) {
      total += parameter.elements();
      if (!parameter.trainable()) continue;
      trainable += parameter.elements();
      const plan::ParameterStorage storage = plan::StorageOf(plan, parameter);
      if (storage.gradient == plan::Storage::kBfloat16) bf16_gradient += parameter.elements();
      if (storage.master.has_value()) master += parameter.elements();
    }
  }
  int64_t total = 0, trainable = 0, bf16_gradient = 0, master = 0;
};

// The storage of the optimizer's first state.
std::string Moments(const plan::Plan& plan) {
  return plan::StorageName(plan::OptimizerOf(plan).states.front().storage);
}

Json Facts(const Row& row, const PlannedRow& prepared, const Measured& measured,
           const engine::Engine& engine) {
  const plan::Plan& plan = prepared.planned.plan;
  const Elements elements(plan);
  const engine::MemoryBytes memory = engine.memory();
  Json json;
  json["loss"] = {Loss(measured.first), Loss(measured.last)};
  json["grad_norm"] = {measured.first.grad_norm, measured.last.grad_norm};
  json["parameters"] = {
      {"total", elements.total}, {"trainable", elements.trainable}, {"expected", row.parameters}};
  json["memory_gib"] = {
      {"peak", Gib(memory.peak)},           {"plan", Gib(prepared.planned.estimate.total_bytes)},
      {"weights", Gib(memory.weights)},     {"gradients", Gib(memory.gradients)},
      {"optimizer", Gib(memory.optimizer)}, {"activations", Gib(memory.activations)},
      {"workspace", Gib(memory.workspace)}};
  json["dtypes"] = {{"compute", plan.compute_dtype},
                    {"master", elements.master > 0 ? "float32" : plan.master_dtype},
                    {"gradients", plan.gradient_dtype},
                    {"bfloat16_gradient_elements", elements.bf16_gradient},
                    {"moments", Moments(plan)}};
  json["layout"] = {{"sequence_len", plan.sequence_len},
                    {"micro_batch_bins", plan.micro_batch_bins},
                    {"micro_steps", row.micro_steps},
                    {"recompute", plan.recompute},
                    {"lm_head_chunk_tokens", plan.lm_head_chunk_tokens},
                    {"max_documents_per_bin", plan.max_documents_per_bin},
                    {"attention_deterministic", plan.attention_deterministic},
                    {"attention_workspace_bytes", plan.attention_workspace_bytes}};
  json["choices"] = engine.chosen_algorithms();
  json["fingerprint"] = engine.fingerprint();
  json["on_device"] = plan.device == "cuda";
  return json;
}

void PrintRow(const Json& r) {
  const auto number = [&](const char* path) {
    return r.at(Json::json_pointer(path)).get<double>();
  };
  const double rate = number("/tokens_per_second"), goal = number("/goal");
  std::printf("  speed       %.0f tokens/s (%.0f .. %.0f), %.1f ms a step, %.0f steps after %.0f",
              rate, number("/tokens_per_second_range/0"), number("/tokens_per_second_range/1"),
              number("/ms_per_step"), number("/steps_timed"), number("/steps_warm_up"));
  if (goal > 0) std::printf("; goal %.0f: %s", goal, rate >= goal ? "met" : "MISSED");
  if (r.contains("host_waits")) {
    std::printf("\n  host waits  %.0f %s", number("/host_waits/count"),
                r["host_waits"]["calls"].get<std::string>().c_str());
  }
  if (r.contains("energy")) {
    std::printf("\n  energy      %.0f J a step, %.0f W, %.0f tokens/J",
                number("/energy/joules_per_step"), number("/energy/watts"),
                number("/energy/tokens_per_joule"));
  }
  std::printf("\n  device      forward %.1f, backward %.1f, optimizer %.1f, step %.1f ms\n",
              number("/device_ms/forward"), number("/device_ms/backward"),
              number("/device_ms/optimizer"), number("/device_ms/step"));
  std::printf("  loss        %.4f -> %.4f, gradient norm %.4f -> %.4f\n", number("/loss/0"),
              number("/loss/1"), number("/grad_norm/0"), number("/grad_norm/1"));
  std::printf("  parameters  %.0f trainable, %.0f expected, %.0f in all\n",
              number("/parameters/trainable"), number("/parameters/expected"),
              number("/parameters/total"));
  const double peak = number("/memory_gib/peak"), planned = number("/memory_gib/plan");
  std::printf("  memory      peak %.2f GiB, plan %.2f (%+.1f %%)%s\n", peak, planned,
              100 * (peak / planned - 1),
              r["on_device"].get<bool>() ? "" : ", of the whole process");
  std::printf("  dtypes      %s\n  layout      %s\n", r["dtypes"].dump().c_str(),
              r["layout"].dump().c_str());
  std::printf("  choices     %s\n", r["choices"].get<std::string>().c_str());
  for (const char* when : {"gpu_before", "gpu_under_load", "gpu_after"}) {
    if (!r[when].is_null()) std::printf("  %-11s %s\n", when + 4, GpuStateText(r[when]).c_str());
  }
}

absl::Status Measure(const Row& row, const Flags& flags, const planner::WorkerResources& worker,
                     Json* result) {
  Json& json = *result;
  json["gpu_before"] = GpuState();
  ASSIGN_OR_RETURN(const PlannedRow prepared, PlanRow(row, absl::StrCat(kScratch, "/", row.name),
                                                      flags.warmup + flags.steps, worker));
  json["config_hash"] = ToHex(prepared.planned.hash).substr(0, 12);
  std::printf("%s: commit %s, plan %s%s%s\n", row.name.c_str(), std::string(BuildCommit()).c_str(),
              json["config_hash"].get<std::string>().c_str(), row.remark.empty() ? "" : ", ",
              row.remark.c_str());
  std::fflush(stdout);
  const Clock::time_point begin = Clock::now();
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::Prepare(prepared.planned.plan, 0, ""));
  json["prepare_seconds"] = std::chrono::duration<double>(Clock::now() - begin).count();
  ASSIGN_OR_RETURN(const Measured measured, Train(prepared, flags, engine.get()));
  json["gpu_under_load"] = measured.under_load;
  json["gpu_after"] = GpuState();
  const Json facts = Facts(row, prepared, measured, *engine);
  if (facts["parameters"]["trainable"] != facts["parameters"]["expected"]) {
    return absl::FailedPreconditionError(absl::StrCat(facts["parameters"]["trainable"].dump(),
                                                      " trainable parameters, expected ",
                                                      facts["parameters"]["expected"].dump()));
  }
  json.update(Speed(row, measured));
  json.update(facts);
  PrintRow(json);
  return absl::OkStatus();
}

// The file's rows without those measured now.
Json OtherRows(const std::string& path, const Json& rows) {
  Json kept = Json::array();
  std::ifstream file(path);
  const Json old = file ? Json::parse(file, nullptr, /*allow_exceptions=*/false) : Json();
  if (!old.is_object() || !old.contains("rows")) return kept;
  for (const Json& row : old["rows"]) {
    const bool again = std::any_of(rows.begin(), rows.end(),
                                   [&](const Json& r) { return r["row"] == row["row"]; });
    if (!again) kept.push_back(row);
  }
  return kept;
}

int Run(Flags flags) {
  kernels::SetNumThreads(1);
  const absl::StatusOr<kernels::DeviceDescription> device = engine::OpenDevice(0);
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", std::string(device.status().message()).c_str());
    return 1;
  }
  engine::GemmTableFile table(flags.gemm_table);
  if (!flags.gemm_table.empty()) {
    const absl::StatusOr<bool> loaded = table.Load();
    std::printf("GEMM table %s: %s\n", flags.gemm_table.c_str(),
                !loaded.ok() ? loaded.status().ToString().c_str()
                : *loaded    ? "used"
                             : "made");
  }
  const bool cuda = device->kind == "cuda";
  flags.pci_bus = device->pci_bus;
  const auto free_bytes = static_cast<uint64_t>(kernels::FreeMemoryBytes());
  const planner::WorkerResources worker = {
      .memory_bytes = cuda ? engine::PlannableDeviceBytes(free_bytes) : 0,
      .compute_capability = device->capability};
  if (flags.rows.empty() && flags.json_path.empty()) {
    flags.json_path = cuda ? "bench/results/h200_step.json" : "bench/results/cpu_step.json";
  }
  std::printf("%s\n", kernels::DeviceFingerprint().c_str());
  Json rows = Json::array();
  bool failed = false;
  for (const Row& row : Rows(device->kind)) {
    const bool wanted = flags.rows.empty() || std::find(flags.rows.begin(), flags.rows.end(),
                                                        row.name) != flags.rows.end();
    if (!wanted) continue;
    Json result = {{"row", row.name}, {"commit", BuildCommit()}};
    if (!row.remark.empty()) result["remark"] = row.remark;
    planner::WorkerResources resources = worker;
    if (row.memory_limit > 0) {
      resources.memory_bytes =
          std::min(resources.memory_bytes, static_cast<uint64_t>(row.memory_limit * kGib));
    }
    const absl::Status status = Measure(row, flags, resources, &result);
    if (!status.ok()) {
      failed = true;
      result["error"] = status.ToString();
      std::printf("%s: no speed: %s\n", row.name.c_str(), status.ToString().c_str());
    }
    std::fflush(stdout);
    rows.push_back(std::move(result));
  }
  std::error_code ignored;  // what is left is small
  std::filesystem::remove_all(kScratch, ignored);
  if (!flags.gemm_table.empty()) table.Save().IgnoreError();  // the next process makes it again
  if (rows.empty()) std::fprintf(stderr, "no row of this device has that name\n");
  if (!flags.json_path.empty()) {
    Json all = OtherRows(flags.json_path, rows);
    for (Json& row : rows) all.push_back(std::move(row));
    WriteResults(flags.json_path, {{"device", kernels::DeviceFingerprint()}, {"rows", all}});
  }
  return failed || rows.empty() ? 1 : 0;
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  coxswain::bench::Flags flags;
  CLI::App app{"Training steps through the worker's engine"};
  app.add_option("--row", flags.rows, "only this row; may be repeated");
  app.add_option("--steps", flags.steps, "timed steps of a row")->check(CLI::Range(1, 1000000));
  app.add_option("--warmup", flags.warmup, "steps before them")->check(CLI::Range(0, 1000000));
  app.add_option("--seconds", flags.seconds, "bound of a row's timed steps; 0: none");
  app.add_option("--json", flags.json_path, "results file");
  app.add_option("--gemm-table", flags.gemm_table,
                 "file of the products' algorithms, so that processes run the same");
  CLI11_PARSE(app, argc, argv);
  return coxswain::bench::Run(std::move(flags));
}
