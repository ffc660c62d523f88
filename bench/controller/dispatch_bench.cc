// Controller CPU per worker and step: the real StepRun (bins dealt, commands built and serialised,
// answers parsed, joined and committed) against workers that answer at once, in the same process
// and without a network. Time per worker-step = CPU time / (steps x workers).
//
//   build/cpu/bench/dispatch_bench     from the repository root; writes bench/results/dispatch.json
#include <benchmark/benchmark.h>
#include <prometheus/registry.h>

#include <memory>

#include "bench/google_main.h"
#include "common/logging.h"
#include "controller/driver/step_run.h"
#include "controller/store/memory_store.h"
#include "tests/sim/fake_workers.h"
#include "tests/sim/synthetic_curriculum.h"

namespace coxswain {
namespace {

constexpr int64_t kSteps = 200;

// Answers each command when it arrives; every message passes through its serialised form, as on the
// wire.
class EchoTransport : public sim::FakeWorkers {
 public:
  EchoTransport(Loop* loop, sim::Agenda* agenda, sim::MemoryFiles* files)
      : FakeWorkers(agenda, files, 1), loop_(loop) {}

  std::unique_ptr<Outgoing<v1::Command>> Run(const WorkerTarget&,
                                             Incoming<v1::Event> incoming) override {
    return std::make_unique<Echo>(loop_, std::move(incoming));
  }

 private:
  class Echo : public Outgoing<v1::Command> {
   public:
    Echo(Loop* loop, Incoming<v1::Event> incoming)
        : loop_(loop), incoming_(std::make_shared<Incoming<v1::Event>>(std::move(incoming))) {}
    void Write(const v1::Command& command) override {
      const std::string sent = command.SerializeAsString();
      benchmark::DoNotOptimize(sent.data());
      if (command.has_stop()) return;
      v1::Event event;
      *event.mutable_fence() = command.fence();
      event.set_seq(command.seq());
      v1::Done& done = *event.mutable_done();
      *done.mutable_bin_ids() = command.train().bins().bin_ids();
      for (const int32_t t : command.train().bins().document_lengths()) {
        done.set_targets(done.targets() + t);
      }
      done.set_grad_norm(1.0);
      done.set_applied(true);
      loop_->Post([incoming = incoming_, bytes = event.SerializeAsString()] {
        v1::Event received;
        received.ParseFromString(bytes);
        incoming->on_message(received);
      });
    }
    void WritesDone() override {}

   private:
    Loop* const loop_;
    std::shared_ptr<Incoming<v1::Event>> incoming_;
  };

  Loop* const loop_;
};

void Dispatch(benchmark::State& state) {
  log::Init("bench", log::Level::kError);
  const int workers = static_cast<int>(state.range(0));
  const int64_t tokens = state.range(1);
  SystemClock clock;
  Loop loop(&clock, 0);
  sim::VirtualClock virtual_clock;
  sim::Agenda agenda(&virtual_clock);
  sim::MemoryFiles files;
  EchoTransport transport(&loop, &agenda, &files);
  driver::Metrics metrics(std::make_shared<prometheus::Registry>());
  const sim::SyntheticCurriculum curriculum(
      {.steps = kSteps, .bins_per_step = workers, .eval_bins = 0, .tokens_per_bin = tokens});
  driver::Gang gang;
  gang.job = "bench";
  gang.ranks.resize(static_cast<size_t>(workers));
  driver::Deps deps;
  deps.loop = &loop;
  deps.transport = &transport;
  deps.metrics = &metrics;
  for (auto _ : state) {
    bool ended = false;
    driver::StepRunArgs args;
    args.curriculum = &curriculum;
    args.rules.total_steps = kSteps;
    driver::StepRunEvents events;
    events.on_step = [](const driver::StepResult& result, const driver::InFlight&) {
      benchmark::DoNotOptimize(result.loss);
    };
    events.on_eval = [](const driver::EvalPoint&, bool) {};
    driver::StepRun* current = nullptr;
    events.on_snapshot = [&current](int64_t, int64_t) { current->SaveFinished(); };
    events.on_end = [&ended] { ended = true; };
    events.on_failed = [&state](const v1::Error& error) {
      state.SkipWithError(error.message().c_str());
    };
    driver::StepRun run(deps, &gang, std::move(args), std::move(events));
    current = &run;
    run.Start();
    while (!ended && loop.RunReady()) {
    }
  }
  const double worker_steps = static_cast<double>(state.iterations() * kSteps * workers);
  state.counters["us_per_worker_step"] = benchmark::Counter(
      worker_steps * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetBytesProcessed(static_cast<int64_t>(worker_steps) * tokens * 4);
}

BENCHMARK(Dispatch)
    ->ArgNames({"workers", "tokens"})
    ->Args({2, 0})
    ->Args({8, 0})
    ->Args({64, 0})
    ->Args({2, 2048})
    ->Args({8, 2048})
    ->Args({8, 16384})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  return coxswain::bench::GoogleMain(argc, argv, "bench/results/dispatch.json");
}
