// Time to plan: recipe of 52,000 documents and plan of a 7B model. No weights are read.
// Writes bench/results/planner.json.
#include <filesystem>

#include <benchmark/benchmark.h>

#include "bench/google_main.h"
#include "common/data/token_store_writer.h"
#include "common/plan/checks/plan_bytes.h"
#include "controller/planner/planner.h"
#include "tests/common/config/default_spec.h"

namespace coxswain::planner {
namespace {

model::ModelConfig SevenBillion() {
  return {.architecture = "Qwen2ForCausalLM",
          .vocab_size = 152064,
          .hidden_size = 3584,
          .intermediate_size = 18944,
          .num_layers = 28,
          .num_heads = 28,
          .num_kv_heads = 4,
          .head_dim = 128,
          .qkv_bias = true,
          .rope = {},
          .layer_windows = std::vector<int64_t>(28, 0)};
}

config::JobSpec Job(config::Adapter adapter) {
  config::JobSpec job = config::DefaultSpec();
  job.model_path = "/model";
  job.init = BaseInit::kRandom;
  job.adapter = adapter;
  job.workers = 8;
  job.train.global_batch_size = 64;
  job.train.num_epochs = 3;
  return job;
}

const data::PreparedData& Data() {
  static const data::PreparedData* const data = [] {
    const std::string path = std::filesystem::temp_directory_path() / "planner_bench.tokens";
    auto writer = *data::TokenStoreWriter::Create(path);
    for (int i = 0; i < 52000; ++i) {
      const std::vector<int32_t> ids(static_cast<size_t>(40 + (i * 7919) % 400), 1);
      const std::vector<uint8_t> bits((ids.size() + 7) / 8, 0x7F);
      if (!writer->Add(ids, bits, 1).ok()) std::abort();
    }
    if (!writer->Finish().ok()) std::abort();
    auto* prepared = new data::PreparedData;
    prepared->train = *data::TokenStore::Open(path);
    prepared->content_hash = std::string(64, 'a');
    return prepared;
  }();
  return *data;
}

void BM_MakeRecipe(benchmark::State& state) {
  const config::JobSpec job = Job(config::Adapter::kLora);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Recipe::Make(job, SevenBillion(), Data())->total_steps());
  }
}
BENCHMARK(BM_MakeRecipe)->Unit(benchmark::kMillisecond);

void BM_MakePlan(benchmark::State& state) {
  const config::JobSpec job =
      Job(state.range(0) == 0 ? config::Adapter::kNone : config::Adapter::kLora);
  const Recipe recipe = *Recipe::Make(job, SevenBillion(), Data());
  size_t bytes = 0;
  for (auto _ : state) bytes = MakePlan("job", job, SevenBillion(), recipe, {})->bytes.size();
  state.counters["plan_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_MakePlan)->ArgNames({"lora"})->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void BM_ParsePlan(benchmark::State& state) {
  const config::JobSpec job = Job(config::Adapter::kLora);
  const Recipe recipe = *Recipe::Make(job, SevenBillion(), Data());
  const std::string bytes = MakePlan("job", job, SevenBillion(), recipe, {})->bytes;
  for (auto _ : state) benchmark::DoNotOptimize(plan::ParsePlan(bytes)->parameters.size());
}
BENCHMARK(BM_ParsePlan)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace coxswain::planner

int main(int argc, char** argv) {
  return coxswain::bench::GoogleMain(argc, argv, "bench/results/planner.json");
}
