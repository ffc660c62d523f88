// All-reduce of float32 among ranks as threads over loopback: ours (rank order, equal bits) beside
// Gloo's ring (order depends on the ring). Bytes per second = vector bytes / time of the call.
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/google_main.h"
#include "tests/worker/comm/in_process_rendezvous.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {
namespace {

// Repeats `call(rank)` on every rank: rank 0 is timed, the others follow it.
void Follow(benchmark::State& state, int world, const std::function<void(int)>& call) {
  const int64_t rounds = state.max_iterations;
  std::vector<std::thread> peers;
  for (int rank = 1; rank < world; ++rank) {
    peers.emplace_back([&, rank] {
      for (int64_t i = 0; i < rounds; ++i) call(rank);
    });
  }
  for (auto _ : state) call(0);
  for (auto& peer : peers) peer.join();
  state.SetBytesProcessed(state.iterations() * state.range(1) * sizeof(float));
}

void Coxswain(benchmark::State& state) {
  const int world = state.range(0);
  InProcessRendezvous rendezvous;
  std::vector<std::unique_ptr<Collectives>> groups(world);
  std::vector<std::thread> forming;
  for (int rank = 0; rank < world; ++rank) {
    forming.emplace_back([&, rank] {
      GroupConfig config;
      config.rank = rank;
      config.world_size = world;
      groups[rank] = Collectives::Form(config, &rendezvous).value();
    });
  }
  for (auto& thread : forming) thread.join();
  std::vector<std::vector<float>> data(world, std::vector<float>(state.range(1), 0.5f));
  Follow(state, world, [&](int rank) {
    const absl::Status status = groups[rank]->AllReduceSum(
        Communicator::kWorld, data[rank].data(), state.range(1), kernels::DType::kFloat32, nullptr);
    if (!status.ok()) std::abort();
  });
}

void GlooRing(benchmark::State& state) {
  const int world = state.range(0);
  gloo::rendezvous::HashStore store;
  std::vector<std::shared_ptr<gloo::rendezvous::Context>> contexts(world);
  std::vector<std::thread> forming;
  for (int rank = 0; rank < world; ++rank) {
    forming.emplace_back([&, rank] {
      auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
      contexts[rank] = std::make_shared<gloo::rendezvous::Context>(rank, world);
      contexts[rank]->connectFullMesh(store, device);
    });
  }
  for (auto& thread : forming) thread.join();
  std::vector<std::vector<float>> data(world, std::vector<float>(state.range(1), 0.5f));
  Follow(state, world, [&](int rank) {
    gloo::AllreduceOptions options(contexts[rank]);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(data[rank].data(), data[rank].size());
    options.setReduceFunction(
        [](void* c, const void* a, const void* b, size_t n) { gloo::sum<float>(c, a, b, n); });
    gloo::allreduce(options);
  });
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"world", "n"})->UseRealTime();
  for (int world : {2, 4}) {
    for (int64_t n : {1, 4096, 65536, 1 << 20, 1 << 23}) bench->Args({world, n});
  }
}
BENCHMARK(Coxswain)->Apply(Sizes);
BENCHMARK(GlooRing)->Apply(Sizes);

}  // namespace
}  // namespace coxswain::comm

int main(int argc, char** argv) {
  return coxswain::bench::GoogleMain(argc, argv, "bench/results/all_reduce.json");
}
