// What self-verification costs: steps that it looks at and steps that it does not, in turns, of one
// row of step_rows.cc.
//   look_bench | gpu_look_bench [--row NAME] [--turns N]
// On the CPU time is that of the process, which others on the machine change little.
// Prints the medians of both and by how much the first is longer, in percent. The row's random
// tokens and weights are those of step_bench.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "bench/worker/engine/step_data.h"
#include "bench/worker/engine/step_plan.h"
#include "bench/worker/engine/step_rows.h"
#include "common/status_macros.h"
#include "kernels/cpu/blas_core.h"
#include "kernels/device.h"
#include "worker/engine/device/device.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"
#include "worker/engine/step/verified_step.h"

namespace coxswain::bench {
namespace {

constexpr const char* kScratch = "/tmp/coxswain-look-bench";
constexpr int64_t kWarmUp = 6, kTurn = 4;  // two steps of a turn are looked at

struct Flags {
  std::string row;
  int64_t turns = 25;
};

// Seconds: of the wall, or on the CPU, whose one thread computes, of the process.
double Now(bool of_process) {
  timespec now{};
  clock_gettime(of_process ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Measure(const Row& row, int64_t turns, const planner::WorkerResources& worker) {
  ASSIGN_OR_RETURN(const PlannedRow prepared, PlanRow(row, absl::StrCat(kScratch, "/", row.name),
                                                      kWarmUp + kTurn * turns, worker));
  std::string doing;
  ASSIGN_OR_RETURN(const std::unique_ptr<engine::State> state,
                   engine::MakeState(prepared.planned.plan, 0, "", &doing));
  const bool on_cpu = std::string(row.device) == "cpu";
  std::vector<double> seconds[2];  // not looked at, looked at
  for (int64_t step = 0; step < kWarmUp + kTurn * turns; ++step) {
    const int64_t of_turn = (step - kWarmUp) % kTurn;
    if (step >= kWarmUp && of_turn == 0) engine::BeginVerification(*state);
    const bool look = of_turn < 2;
    if (step >= kWarmUp && state->verification->finished() == look) {
      return absl::InternalError(absl::StrCat("step ", step, " is not looked at as planned"));
    }
    const engine::TrainStep batch = MakeStep(*prepared.recipe, *prepared.data.train, step);
    const double begin = Now(on_cpu);
    RETURN_IF_ERROR(engine::RunTrainStep(*state, batch).status());
    if (step >= kWarmUp) seconds[look ? 1 : 0].push_back(Now(on_cpu) - begin);
  }
  const double plain = Median(seconds[0]), looked = Median(seconds[1]);
  std::printf("%s: %zu tensors, step %.3f ms, looked at %.3f ms, %+.2f %%\n", row.name.c_str(),
              state->verified_tensors.size(), 1e3 * plain, 1e3 * looked,
              100 * (looked / plain - 1));
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  kernels::SetNumThreads(1);
  ASSIGN_OR_RETURN(const kernels::DeviceDescription device, engine::OpenDevice(0));
  const auto free_bytes = static_cast<uint64_t>(kernels::FreeMemoryBytes());
  const planner::WorkerResources worker = {
      .memory_bytes = device.kind == "cuda" ? engine::PlannableDeviceBytes(free_bytes) : 0,
      .compute_capability = device.capability,
      .gpu = GpuOf(device.name)};
  for (const Row& row : Rows(device.kind)) {
    if (!flags.row.empty() && row.name != flags.row) continue;
    RETURN_IF_ERROR(Measure(row, flags.turns, worker));
    std::fflush(stdout);
  }
  std::error_code ignored;  // what is left is small
  std::filesystem::remove_all(kScratch, ignored);
  return absl::OkStatus();
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  coxswain::kernels::cpu::UseWidestBlasCore(argv);
  coxswain::bench::Flags flags;
  CLI::App app{"What self-verification costs a step"};
  app.add_option("--row", flags.row, "only this row");
  app.add_option("--turns", flags.turns, "of two steps that are looked at and two that are not")
      ->check(CLI::Range(1, 100000));
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = coxswain::bench::Run(flags);
  if (!status.ok()) std::fprintf(stderr, "look_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
