// A job in one process, by the controller's data and plan and the worker's engine: the loss of
// every step and of the evaluations that the job asks for (eval.eval_steps, test_datasets).
//
//   train_bench | gpu_train_bench JOB [--set KEY=VALUE]... [--break] [--json FILE] [--ids FILE]
//     [--gemm-table FILE]
//
// Relative paths of the job are its folder's. One rank; on the CPU one thread. No checkpoint and no
// artifact is written. --break: the backward of RoPE does nothing (broken_rope.h). The file gets
// commit, machine, settings, device, `losses` by step, `evaluations` {step, loss}, `grad_norms`,
// seconds of training and the tokens trained. --ids: for each step the
// number of ids and the ids that routers chose in its newest micro-step, int32 (routed_ids.h;
// route_flips.py compares two such files). --gemm-table: as of step_bench. A
// loss that is not finite ends the run.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "bench/worker/engine/broken_rope.h"
#include "bench/worker/engine/routed_ids.h"
#include "bench/worker/engine/step_data.h"
#include "common/config/parser/job_parser.h"
#include "common/config/parser/override.h"
#include "common/files/read_file.h"
#include "common/model/read/read_model_config.h"
#include "common/status_macros.h"
#include "controller/data/prepare/prepare.h"
#include "controller/planner/planner.h"
#include "kernels/cpu/blas_core.h"
#include "kernels/device.h"
#include "worker/engine/device/device.h"
#include "worker/engine/engine.h"

namespace coxswain::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string job, json_path, ids_path, gemm_table;
  std::vector<std::string> settings;
  bool broken = false;
};

absl::StatusOr<config::JobSpec> ReadJob(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.job));
  ASSIGN_OR_RETURN(const std::string yaml, config::OverrideJob(text, flags.settings));
  const std::string folder = std::filesystem::absolute(flags.job).parent_path().string();
  config::ParsedJob parsed = config::ParseJob(yaml, folder);
  if (!parsed.errors.empty()) {
    return absl::InvalidArgumentError(config::FormatErrors(parsed.errors, flags.job));
  }
  if (parsed.spec.workers != 1) {
    return absl::InvalidArgumentError(absl::StrCat(flags.job, ": resources.workers is ",
                                                   parsed.spec.workers, "; one rank runs here"));
  }
  return std::move(parsed.spec);
}

planner::WorkerResources ResourcesOf(const kernels::DeviceDescription& device) {
  const bool cuda = device.kind == "cuda";
  const auto free_bytes = static_cast<uint64_t>(kernels::FreeMemoryBytes());
  return {.memory_bytes = cuda ? engine::PlannableDeviceBytes(free_bytes) : 0,
          .compute_capability = device.capability,
          .gpu = GpuOf(device.name)};
}

engine::BinBatch EvaluationBins(const planner::Recipe& recipe, const data::TokenStore& store) {
  engine::BinBatch bins;
  for (int64_t b = 0; b < recipe.eval_bins().size(); ++b) {
    AddBin(b, recipe.eval_bins().bin(b), store, &bins);
  }
  return bins;
}

// Trains and evaluates one engine, and keeps what came of it.
class Run {
 public:
  Run(const config::JobSpec& job, const planner::Recipe& recipe, const data::PreparedData& data,
      engine::Engine* engine, const std::string& ids_path)
      : job_(job), recipe_(recipe), data_(data), engine_(engine) {
    if (!ids_path.empty()) ids_.open(ids_path, std::ios::binary);
    if (data.eval != nullptr) eval_bins_ = EvaluationBins(recipe, *data.eval);
  }

  absl::Status Train() {
    for (int64_t step = 0; step < recipe_.total_steps(); ++step) {
      if (step == 0 || (job_.eval_steps > 0 && step % job_.eval_steps == 0)) {
        RETURN_IF_ERROR(Evaluate(step));
      }
      RETURN_IF_ERROR(Step(step));
    }
    return Evaluate(recipe_.total_steps());
  }

  Json Results() const {
    return {{"losses", losses_},
            {"evaluations", evaluations_},
            {"grad_norms", grad_norms_},
            {"seconds", seconds_},
            {"tokens", tokens_}};
  }

 private:
  absl::Status Step(int64_t step) {
    const engine::TrainStep batch = MakeStep(recipe_, *data_.train, step);
    const auto begin = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const engine::StepStats stats, engine_->Train(batch));
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    tokens_ += stats.tokens;
    losses_.push_back(stats.loss_sum / static_cast<double>(stats.targets));
    grad_norms_.push_back(stats.grad_norm);
    if (ids_.is_open()) {
      std::vector<int32_t> ids = RoutedIds();
      ids.insert(ids.begin(), static_cast<int32_t>(ids.size()));
      ids_.write(reinterpret_cast<const char*>(ids.data()),
                 static_cast<std::streamsize>(ids.size() * sizeof(int32_t)));
    }
    if (std::isfinite(losses_.back()) && stats.applied) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step, ": loss ", losses_.back(), ", ",
                     stats.applied ? "the update applied" : "no update applied"));
  }

  absl::Status Evaluate(int64_t step) {
    if (data_.eval == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const engine::EvalStats stats, engine_->Evaluate(eval_bins_));
    const double loss = stats.loss_sum / static_cast<double>(stats.targets);
    evaluations_.push_back({{"step", step}, {"loss", loss}});
    std::printf("step %lld: held-back loss %.5f\n", static_cast<long long>(step), loss);
    std::fflush(stdout);
    return absl::OkStatus();
  }

  const config::JobSpec& job_;
  const planner::Recipe& recipe_;
  const data::PreparedData& data_;
  engine::Engine* const engine_;
  engine::BinBatch eval_bins_;
  std::vector<double> losses_, grad_norms_;
  Json evaluations_ = Json::array();
  std::ofstream ids_;
  double seconds_ = 0;
  int64_t tokens_ = 0;
};

absl::Status Main(const Flags& flags) {
  ASSIGN_OR_RETURN(const config::JobSpec job, ReadJob(flags));
  kernels::SetNumThreads(1);
  ASSIGN_OR_RETURN(const kernels::DeviceDescription device, engine::OpenDevice(0));
  ASSIGN_OR_RETURN(const model::ModelConfig model, model::ReadModelConfig(job.model_path));
  const std::filesystem::path cache =
      std::filesystem::temp_directory_path() / "coxswain-train-bench";
  data::PrepareOptions options;
  options.cache_dir = cache.string();
  ASSIGN_OR_RETURN(const data::PreparedData data, data::PrepareData(job, options));
  ASSIGN_OR_RETURN(const planner::Recipe recipe, planner::Recipe::Make(job, model, data));
  ASSIGN_OR_RETURN(const planner::PlannedJob planned,
                   planner::MakePlan("train-bench", job, model, recipe, ResourcesOf(device)));
  engine::GemmTableFile table(flags.gemm_table);
  if (!flags.gemm_table.empty()) RETURN_IF_ERROR(table.Load().status());
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::Prepare(planned.plan, 0, ""));
  if (flags.broken) BreakRopeBackward();
  Run run(job, recipe, data, engine.get(), flags.ids_path);
  RETURN_IF_ERROR(run.Train());
  if (!flags.gemm_table.empty()) RETURN_IF_ERROR(table.Save().status());
  Json results = {{"job", flags.job}, {"settings", flags.settings}, {"broken", flags.broken}};
  results["device"] = kernels::DeviceFingerprint();
  results["compute"] = ToString(planned.plan.compute_dtype);
  results.update(run.Results());
  if (!flags.json_path.empty()) WriteResults(flags.json_path, results);
  return absl::OkStatus();
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  coxswain::kernels::cpu::UseWidestBlasCore(argv);
  coxswain::bench::Flags flags;
  CLI::App app{"A job in one process: its losses"};
  app.add_option("job", flags.job, "job file")->required();
  app.add_option("--set", flags.settings, "KEY=VALUE of the job; may be repeated");
  app.add_flag("--break", flags.broken, "the backward of RoPE does nothing");
  app.add_option("--json", flags.json_path, "results file");
  app.add_option("--gemm-table", flags.gemm_table,
                 "file of the products' algorithms, so that processes run the same");
  app.add_option("--ids", flags.ids_path, "file of the experts that routers chose");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = coxswain::bench::Main(flags);
  if (!status.ok()) std::fprintf(stderr, "train_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
