// Answers through the worker's engine under plans of the controller's planner: tokens per second of
// prompts of random tokens, from random weights.
//   decode_bench | gpu_decode_bench [--model NAME] [--batch N]... [--prompt N] [--tokens N]
//   [--commands N] [--draw] [--json FILE]
// A command writes --tokens of each of the batch's texts; it is timed from handing it to
// Engine::Generate until its ids are back. tokens/s = batch x tokens / seconds; median and p90 over
// the commands behind the first, which reads the prompts and is told apart. --draw: tokens are
// drawn on the host instead of the first maximum on the device.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "bench/worker/engine/step_rows.h"
#include "common/config/parser/job_parser.h"
#include "common/model/read/read_model_config.h"
#include "common/status_macros.h"
#include "controller/planner/generation_plan.h"
#include "kernels/cpu/blas_core.h"
#include "kernels/device.h"
#include "worker/engine/device/device.h"
#include "worker/engine/engine.h"

namespace coxswain::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kScratch = "/tmp/coxswain-decode-bench";

struct Flags {
  std::string model = "0.5b";
  std::vector<int64_t> batches;
  int64_t prompt = 128, tokens = 32, commands = 20;
  bool draw = false;
  std::string json_path;
};

absl::StatusOr<config::JobSpec> JobOf(const Flags& flags, const std::string& device) {
  const Json job = {
      {"apiVersion", "coxswain/v1"},
      {"kind", "FineTuneJob"},
      {"metadata", {{"name", "decode-bench"}}},
      {"spec",
       {{"base_model", {{"path", kScratch}, {"init", "random"}}},
        {"method", "generate"},
        {"sequence_len", 1 << 20},
        {"generate",
         {{"prompts", {"random"}}, {"max_new_tokens", flags.tokens * (flags.commands + 1)}}},
        {"resources", {{"device", device}, {"workers", 1}}}}}};
  const config::ParsedJob parsed = config::ParseJob(job.dump(), kScratch);
  if (parsed.errors.empty()) return parsed.spec;
  return absl::InvalidArgumentError(config::FormatErrors(parsed.errors, "decode-bench"));
}

engine::GenerateChunk Prompts(const Flags& flags, int64_t batch, int64_t vocab) {
  engine::GenerateChunk chunk;
  chunk.tokens = flags.tokens;
  if (flags.draw) chunk.sampling = {.temperature = 1, .top_p = 0.9};
  uint64_t mixed = 1;
  for (int64_t text = 0; text < batch; ++text) {
    std::vector<int32_t>& prompt = chunk.prompts.emplace_back();
    for (int64_t t = 0; t < flags.prompt; ++t) {
      mixed = mixed * 0x9E3779B97F4A7C15u + 1;
      prompt.push_back(static_cast<int32_t>((mixed >> 33) % static_cast<uint64_t>(vocab)));
    }
  }
  return chunk;
}

double SecondsOf(engine::Engine& engine, const engine::GenerateChunk& chunk, absl::Status* status) {
  const Clock::time_point begin = Clock::now();
  *status = engine.Generate(chunk).status();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

absl::StatusOr<Json> Measure(const Flags& flags, int64_t batch, const std::string& device,
                             int32_t capability) {
  ASSIGN_OR_RETURN(const config::JobSpec job, JobOf(flags, device));
  ASSIGN_OR_RETURN(const model::ModelConfig model, model::ReadModelConfig(kScratch));
  ASSIGN_OR_RETURN(const planner::PlannedJob planned,
                   planner::MakeGenerationPlan("decode-bench", job, model,
                                               {.texts = batch, .longest = flags.prompt},
                                               {.compute_capability = capability}));
  ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                   engine::Engine::Prepare(planned.plan, 0, ""));
  absl::Status status;
  engine::GenerateChunk chunk = Prompts(flags, batch, model.vocab_size);
  const double first = SecondsOf(*engine, chunk, &status);
  RETURN_IF_ERROR(status);
  chunk.prompts.clear();
  std::vector<double> rates;
  for (int64_t i = 0; i < flags.commands; ++i) {
    const double seconds = SecondsOf(*engine, chunk, &status);
    RETURN_IF_ERROR(status);
    rates.push_back(static_cast<double>(batch * flags.tokens) / seconds);
  }
  std::sort(rates.begin(), rates.end());
  return Json{{"model", flags.model},
              {"batch", batch},
              {"prompt", flags.prompt},
              {"drawn", flags.draw},
              {"tokens_per_second", rates[rates.size() / 2]},
              {"p90_tokens_per_second", rates[rates.size() / 10]},
              {"first_command_seconds", first},
              {"memory_bytes", planned.estimate.total_bytes}};
}

int Run(const Flags& flags) {
  const absl::StatusOr<kernels::DeviceDescription> device = engine::OpenDevice(0);
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", std::string(device.status().message()).c_str());
    return 1;
  }
  std::printf("%s\n", kernels::DeviceFingerprint().c_str());
  absl::Status status = CopyModelConfig(flags.model, kScratch);
  Json rows = Json::array();
  for (const int64_t batch : flags.batches) {
    if (!status.ok()) break;
    const absl::StatusOr<Json> row = Measure(flags, batch, device->kind, device->capability);
    status = row.status();
    if (!row.ok()) break;
    std::printf("%s batch %lld: %.0f tokens/s (p90 %.0f), prompts and first %lld tokens %.3f s\n",
                flags.model.c_str(), static_cast<long long>(batch),
                (*row)["tokens_per_second"].get<double>(),
                (*row)["p90_tokens_per_second"].get<double>(), static_cast<long long>(flags.tokens),
                (*row)["first_command_seconds"].get<double>());
    rows.push_back(*row);
  }
  std::error_code ignored;  // what is left is small
  std::filesystem::remove_all(kScratch, ignored);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  if (!flags.json_path.empty()) {
    WriteResults(flags.json_path, {{"device", kernels::DeviceFingerprint()}, {"rows", rows}});
  }
  return 0;
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  coxswain::kernels::cpu::UseWidestBlasCore(argv);
  coxswain::bench::Flags flags;
  CLI::App app{"Answers through the worker's engine"};
  app.add_option("--model", flags.model, "folder of bench/models");
  app.add_option("--batch", flags.batches, "texts at once; may be repeated");
  app.add_option("--prompt", flags.prompt, "tokens of each prompt")->check(CLI::Range(1, 1 << 18));
  app.add_option("--tokens", flags.tokens, "of each text and command")->check(CLI::Range(1, 4096));
  app.add_option("--commands", flags.commands, "timed ones")->check(CLI::Range(1, 10000));
  app.add_flag("--draw", flags.draw, "tokens are drawn");
  app.add_option("--json", flags.json_path, "results file");
  CLI11_PARSE(app, argc, argv);
  if (flags.batches.empty()) flags.batches = {1, 16};
  return coxswain::bench::Run(flags);
}
