// A training step of a 4-million-parameter Qwen2 (the quickstart's shape: hidden 256, 4 layers,
// vocab 4,096) on 4 bins of 512 tokens, one thread: tokens per second, and GFLOP/s by 6 N tokens
// (full) or 4 N tokens (adapters), N without the attention scores.
#include <benchmark/benchmark.h>

#include <memory>

#include "kernels/device.h"
#include "tests/worker/engine/test_batch.h"
#include "tests/worker/engine/test_plan.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {
namespace {

model::ModelConfig Config() {
  model::ModelConfig config;
  config.architecture = "Qwen2ForCausalLM";
  config.vocab_size = 4096;
  config.hidden_size = 256;
  config.intermediate_size = 704;
  config.num_layers = 4;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.tie_embeddings = true;
  config.qkv_bias = true;
  config.rope.theta = 1e6;
  config.layer_windows = {0, 0, 0, 0};
  return config;
}

void TrainStep(benchmark::State& state, int64_t lora_rank, const char* recompute) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 512;
  options.micro_batch_bins = 2;
  options.head_chunk = 512;
  options.lora_rank = lora_rank;
  options.recompute = recompute;
  const plan::Plan plan = MakePlan(Config(), options);
  auto engine = Engine::Prepare(plan, 0, "");
  if (!engine.ok()) return state.SkipWithError(engine.status().ToString().c_str());
  const BinBatch bins =
      RandomBins({{300, 212}, {100, 200, 212}, {512}, {250, 262}}, plan.model.vocab_size, 1);
  int64_t step = 0;
  for (auto _ : state) {
    const auto stats = (*engine)->Train(MakeStep(step++, bins));
    if (!stats.ok()) return state.SkipWithError(stats.status().ToString().c_str());
  }
  int64_t parameters = 0;
  for (const plan::Parameter& parameter : plan.parameters) parameters += parameter.elements();
  const double tokens = static_cast<double>(bins.token_ids.size());
  const double flops = (lora_rank > 0 ? 4.0 : 6.0) * static_cast<double>(parameters) * tokens;
  state.counters["tokens/s"] =
      benchmark::Counter(tokens, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(TrainStep, full, 0, "none")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(TrainStep, full_recompute, 0, "block")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(TrainStep, lora, 16, "none")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace coxswain::engine

int main(int argc, char** argv) {
  coxswain::kernels::SetNumThreads(1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
