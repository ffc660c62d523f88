// Training steps through the worker's engine under plans of the controller's planner: tokens per
// second of the rows in step_rows.cc, from random weights and random tokens.
//   step_bench | gpu_step_bench [--row NAME]... [--steps N] [--warmup N] [--seconds S] [--json
//   FILE] [--set LINE]... [--without WORD]...
// A step is timed from handing its batch to Engine::Train until the statistics are back; tokens/s
// is the median over the steps, real tokens only. --seconds bounds the timed steps of a row, and a
// quarter of it the warm-up. With libsync_counter.so preloaded, the calls that made the host wait
// in the timed steps are counted. --json keeps the rows of other names that the file holds; without
// it a run of all rows writes bench/results (kResults). A row whose step fails, whose gradients are
// zero or not finite, or whose updates were not all applied has no speed. Energy is that of the
// timed steps, by the driver's counter. --set adds a line to the spec of each row's job, --without
// takes away what makes a step fast (without.h): both are part of the name of the row.
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
#include "bench/worker/engine/step_text.h"
#include "bench/worker/engine/without.h"
#include "common/files/hash.h"
#include "common/identity.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/storage.h"
#include "common/status_macros.h"
#include "kernels/cpu/blas_core.h"
#include "kernels/device.h"
#include "worker/engine/device/device.h"
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
  std::string gemm_table;                      // file; empty: products are tuned in this process
  std::vector<std::string> settings, without;  // in the name of the row too
};

struct Measured {
  std::vector<double> rates, seconds;        // of the timed steps
  std::vector<engine::PhaseSeconds> phases;  // likewise
  engine::StepStats first, last;
  int64_t trained = 0;  // steps, warm-up included
  int64_t tokens = 0;   // of the last step, without padding
  int64_t slots = 0;    // of its bins
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
                               const Without& without, engine::Engine* engine) {
  Measured measured;
  const planner::Recipe& recipe = *prepared.recipe;
  const auto full = static_cast<size_t>(recipe.global_batch_bins());
  std::future<nlohmann::json> under_load;
  std::optional<EnergyMeter> energy;
  double warming = 0, timed = 0;
  bool warm = flags.warmup == 0;
  CountHostWaits();
  for (int64_t step = 0; step < recipe.total_steps(); ++step) {
    engine::TrainStep batch =
        MakeStep(recipe, *prepared.data.train, step, prepared.planned.plan.document_loss,
                 prepared.planned.plan.model.vocab_size);
    const bool whole = batch.bins.bin_ids.size() == full;
    measured.tokens = static_cast<int64_t>(batch.bins.token_ids.size());
    if (without.packing) Unpack(&batch);
    if (without.lengths) PadLengths(prepared.planned.plan, &batch);
    measured.slots =
        static_cast<int64_t>(batch.bins.bin_ids.size()) * prepared.planned.plan.sequence_len;
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
    if (!whole) continue;
    timed += seconds;
    measured.rates.push_back(static_cast<double>(measured.tokens) / seconds);
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
               {"tokens_per_step", measured.tokens},
               {"slots_per_step", measured.slots}};
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
  const planner::Estimate& estimate = prepared.planned.estimate;
  json["planned_gib"] = {
      {"weights", Gib(estimate.weights)},     {"gradients", Gib(estimate.gradients)},
      {"optimizer", Gib(estimate.optimizer)}, {"activations", Gib(estimate.activations)},
      {"workspace", Gib(estimate.workspace)}, {"runtime", Gib(estimate.runtime)}};
  json["flops_per_token"] = estimate.flops_per_token;
  json["dtypes"] = {{"compute", ToString(plan.compute_dtype)},
                    {"master", elements.master > 0 ? "float32" : ToString(plan.master_dtype)},
                    {"gradients", ToString(plan.gradient_dtype)},
                    {"bfloat16_gradient_elements", elements.bf16_gradient},
                    {"moments", Moments(plan)}};
  json["layout"] = {{"sequence_len", plan.sequence_len},
                    {"micro_batch_bins", plan.micro_batch_bins},
                    {"micro_steps", row.micro_steps},
                    {"recompute", ToString(plan.recompute)},
                    {"lm_head_chunk_tokens", plan.lm_head_chunk_tokens},
                    {"max_documents_per_bin", plan.max_documents_per_bin},
                    {"attention_deterministic", plan.attention_deterministic},
                    {"attention_workspace_bytes", plan.attention_workspace_bytes}};
  json["choices"] = engine.chosen_algorithms();
  json["fingerprint"] = engine.fingerprint();
  json["on_device"] = plan.device == DeviceKind::kCuda;
  return json;
}

absl::Status Measure(const Row& row, const Flags& flags, const planner::WorkerResources& worker,
                     Json* result) {
  Json& json = *result;
  json["gpu_before"] = GpuState();
  ASSIGN_OR_RETURN(const Without without, ParseWithout(flags.without));
  ASSIGN_OR_RETURN(PlannedRow prepared, PlanRow(row, absl::StrCat(kScratch, "/", row.name),
                                                flags.warmup + flags.steps, worker));
  RETURN_IF_ERROR(RemoveFromPlan(without, &prepared.planned));
  ReplaceCalls(without, prepared.planned.plan);
  json["config_hash"] = ToHex(prepared.planned.hash).substr(0, 12);
  std::printf("%s: commit %s, plan %s%s%s\n", json["row"].get<std::string>().c_str(),
              std::string(BuildCommit()).c_str(), json["config_hash"].get<std::string>().c_str(),
              row.remark.empty() ? "" : ", ", row.remark.c_str());
  std::fflush(stdout);
  const Clock::time_point begin = Clock::now();
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::Prepare(prepared.planned.plan, 0, ""));
  json["prepare_seconds"] = std::chrono::duration<double>(Clock::now() - begin).count();
  ASSIGN_OR_RETURN(const Measured measured, Train(prepared, flags, without, engine.get()));
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

// "0.5b_full_1024, recompute: block, without graphs".
std::string NameOf(const Row& row, const Flags& flags) {
  std::string name = row.name;
  for (const std::string& line : flags.settings) absl::StrAppend(&name, ", ", line);
  for (const std::string& word : flags.without) absl::StrAppend(&name, ", without ", word);
  return name;
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
      .compute_capability = device->capability,
      .gpu = GpuOf(device->name)};
  if (flags.rows.empty() && flags.json_path.empty()) {
    flags.json_path = cuda ? "bench/results/h200_step.json" : "bench/results/cpu_step.json";
  }
  std::printf("%s\n", kernels::DeviceFingerprint().c_str());
  Json rows = Json::array();
  bool failed = false;
  for (Row& row : Rows(device->kind)) {
    const bool wanted = flags.rows.empty() || std::find(flags.rows.begin(), flags.rows.end(),
                                                        row.name) != flags.rows.end();
    if (!wanted) continue;
    row.settings.insert(row.settings.end(), flags.settings.begin(), flags.settings.end());
    Json result = {{"row", NameOf(row, flags)}, {"commit", BuildCommit()}};
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
      std::printf("%s: no speed: %s\n", result["row"].get<std::string>().c_str(),
                  status.ToString().c_str());
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
  coxswain::kernels::cpu::UseWidestBlasCore(argv);
  coxswain::bench::Flags flags;
  CLI::App app{"Training steps through the worker's engine"};
  app.add_option("--row", flags.rows, "only this row; may be repeated");
  app.add_option("--steps", flags.steps, "timed steps of a row")->check(CLI::Range(1, 1000000));
  app.add_option("--warmup", flags.warmup, "steps before them")->check(CLI::Range(0, 1000000));
  app.add_option("--seconds", flags.seconds, "bound of a row's timed steps; 0: none");
  app.add_option("--json", flags.json_path, "results file");
  app.add_option("--gemm-table", flags.gemm_table,
                 "file of the products' algorithms, so that processes run the same");
  app.add_option("--set", flags.settings, "a line of the job's spec; may be repeated");
  app.add_option("--without", flags.without,
                 "packing, lengths, chunks, fusions, fused_update, tuning, graphs or balance; may "
                 "be repeated");
  CLI11_PARSE(app, argc, argv);
  return coxswain::bench::Run(std::move(flags));
}
