#include "bench/controller/dispatch/run.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>

#include <prometheus/registry.h>

#include "common/plan/checks/plan_bytes.h"
#include "controller/driver/training/training.h"
#include "controller/gang/gang_session.h"
#include "controller/scheduler/registry.h"
#include "controller/transport/fan_out.h"
#include "controller/transport/grpc_worker_transport.h"
#include "tests/worker/agent/test_gang.h"

namespace coxswain::bench {
namespace {

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "dispatch_bench: %s\n", why.c_str());
  std::exit(1);
}

constexpr int kHeapSamples = 5;  // steps; the least of them: commands in flight come and go

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ThreadCpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Without mapped files; what earlier runs have freed is given back first.
double ResidentBytes() {
  malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0;
  statm >> size >> resident >> shared;
  return static_cast<double>((resident - shared) * sysconf(_SC_PAGESIZE));
}

double HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// Every worker takes itself for a gang of one, so that none waits for another: the fake engines
// agree because their bins are alike.
plan::Plan LonePlan(const Shape& shape) {
  plan::Plan plan = agent::TestPlan(1);
  plan.job = "bench";
  plan.sequence_len = shape.documents_per_bin * shape.document_tokens;
  plan.max_documents_per_bin = shape.documents_per_bin;
  return plan;
}

class Run {
 public:
  Run(const RunArgs& args, const std::vector<WorkerTarget>& workers)
      : args_(args),
        resident_before_(ResidentBytes()),
        curriculum_(std::make_shared<DispatchCurriculum>(args.shape, args.directory)),
        loop_(&clock_, Loop::Offloading::kInline),
        transport_(&loop_, args.tls, false),
        registry_(&loop_, &transport_, {}),
        fan_out_(FanOut::DefaultThreads()),
        metrics_(std::make_shared<prometheus::Registry>()) {
    deps_.loop = &loop_;
    deps_.transport = &transport_;
    deps_.registry = &registry_;
    deps_.fan_out = &fan_out_;
    deps_.metrics = &metrics_;
    deps_.settings.credits = args.credits;
    deps_.settings.ahead = {};
    gang_.job = "bench";
    gang_.term = 1;
    gang_.epoch = args.epoch;
    gang_.plan_bytes = plan::SerializePlan(LonePlan(args.shape));
    gang_.plan_hash = plan::PlanHash(gang_.plan_bytes);
    for (const WorkerTarget& worker : workers) {
      gang_.ranks.push_back({.target = worker, .host = "bench", .memory = {}});
    }
  }

  RunResult Go(const Stamps& stamps) {
    const std::string nonce = args_.directory + "/nonce";
    std::ofstream(nonce) << "bench";
    Prepare(nonce);
    gang::GangSession session(deps_, gang_,
                              {.formed = {},
                               .stepped = {},
                               .suspected = [](const v1::Error& error) { Die(error.message()); },
                               .failed = [](const v1::Error& error) { Die(error.message()); },
                               .ended = [this] { loop_.Stop(); }});
    driver::TrainingArgs args;
    args.curriculum = curriculum_;
    args.rules.total_steps = curriculum_->total_steps();
    driver::TrainingEvents events;
    events.on_step = [this](const driver::StepResult& step, const driver::Batch&,
                            const gang::InFlight& command,
                            const checkpoint::RunState&) -> std::optional<v1::Error> {
      OnStep(step, command);
      return std::nullopt;
    };
    events.on_snapshot = [&session](driver::Training* training, int64_t) {
      training->SaveFinished();
      session.GoOn();
    };
    loop_.Post([&] {
      session.Run(
          std::make_shared<driver::Training>(&session.gang(), std::move(args), std::move(events)));
    });
    loop_.Run();
    return Result(stamps);
  }

 private:
  void Prepare(const std::string& nonce) {
    v1::PrepareRequest request;
    request.set_world_size(1);
    request.set_plan(gang_.plan_bytes);
    *request.mutable_tokens() = curriculum_->token_stores();
    request.mutable_tokens()->set_nonce_path(nonce);
    request.mutable_tokens()->set_nonce(args_.document_ids ? "bench" : "not offered");
    size_t prepared = 0;
    for (int rank = 0; rank < gang_.world_size(); ++rank) {
      *request.mutable_fence() = gang_.FenceOf(rank);
      transport_.Prepare(gang_.ranks[rank].target, request, std::chrono::minutes(2),
                         [&, rank](const absl::StatusOr<v1::PrepareResponse>& response) {
                           if (!response.ok()) Die(response.status().ToString());
                           gang_.ranks[rank].maps_tokens = response->maps_tokens();
                           ++prepared;
                         });
    }
    while (prepared < gang_.ranks.size()) {
      if (!loop_.RunReady()) usleep(200);
    }
    if (gang_.ranks.front().maps_tokens != args_.document_ids) Die("token store not mapped");
  }

  void OnStep(const driver::StepResult& step, const gang::InFlight& command) {
    const int64_t finished = step.step + 1, total = curriculum_->total_steps();
    sent_ns_.push_back(command.sent_ns);
    SampleHeap(finished, (args_.warm_up + total) / 2, &heap_middle_);
    SampleHeap(finished, total - args_.credits,
               &heap_end_);  // the last ones have fewer behind them
    if (finished > args_.warm_up) {
      for (const auto& done : command.results) {
        idle_ += done->idle_seconds();
        work_ += done->seconds().step();
      }
    }
    if (finished == args_.warm_up) {
      cpu_began_ = CpuSeconds();
      loop_began_ = ThreadCpuSeconds();
      began_ns_ = clock_.NowNs();
    }
    if (finished == total) {
      cpu_ = CpuSeconds() - cpu_began_;
      loop_cpu_ = ThreadCpuSeconds() - loop_began_;
      ns_ = clock_.NowNs() - began_ns_;
      resident_end_ = ResidentBytes();
    }
  }

  static void SampleHeap(int64_t finished, int64_t last, double* least) {
    if (finished > last - kHeapSamples && finished <= last) *least = std::min(*least, HeapBytes());
  }

  RunResult Result(const Stamps& stamps) const {
    const double workers = gang_.world_size();
    const double steps = static_cast<double>(curriculum_->total_steps() - args_.warm_up);
    RunResult result;
    result.command_bytes = CommandBytes();
    result.cpu_us_per_worker_step = 1e6 * cpu_ / (steps * workers);
    result.loop_us_per_worker_step = 1e6 * loop_cpu_ / (steps * workers);
    result.seconds_per_step = 1e-9 * static_cast<double>(ns_) / steps;
    result.kib_per_worker = (resident_end_ - resident_before_) / workers / 1024;
    result.grown_bytes_per_worker_step = (heap_end_ - heap_middle_) / (workers * steps / 2);
    result.idle_ratio = idle_ / (idle_ + work_);
    std::vector<double> latencies;
    for (size_t step = static_cast<size_t>(args_.warm_up); step < sent_ns_.size(); ++step) {
      for (const int64_t arrived : stamps.Of(static_cast<int64_t>(step))) {
        latencies.push_back(1e-6 * static_cast<double>(arrived - sent_ns_[step]));
      }
    }
    if (latencies.empty()) return result;
    std::sort(latencies.begin(), latencies.end());
    result.p50_ms = latencies[latencies.size() / 2];
    result.p99_ms = latencies[latencies.size() * 99 / 100];
    return result;
  }

  int64_t CommandBytes() const {
    const std::vector<driver::BinSize> bins = curriculum_->step_bins(0);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < args_.shape.bins_per_rank; ++i) {
      ids.push_back(bins[static_cast<size_t>(i)].id);
    }
    v1::Command command;
    *command.mutable_fence() = gang_.FenceOf(0);
    curriculum_->FillTrain(
        0, ids, args_.document_ids ? driver::BinForm::kDocumentIds : driver::BinForm::kTokens,
        command.mutable_train()->mutable_bins());
    return static_cast<int64_t>(command.ByteSizeLong());
  }

  const RunArgs args_;
  const double resident_before_;
  const std::shared_ptr<const DispatchCurriculum> curriculum_;
  SystemClock clock_;
  Loop loop_;
  GrpcWorkerTransport transport_;
  scheduler::Registry registry_;  // empty: nobody sends heartbeats here
  FanOut fan_out_;
  Metrics metrics_;
  gang::Deps deps_;
  gang::Gang gang_;
  std::vector<int64_t> sent_ns_;
  double cpu_began_ = 0, cpu_ = 0, loop_began_ = 0, loop_cpu_ = 0;
  int64_t began_ns_ = 0, ns_ = 0;
  double heap_middle_ = std::numeric_limits<double>::max(), heap_end_ = heap_middle_;
  double resident_end_ = 0;
  double idle_ = 0, work_ = 0;
};

}  // namespace

RunResult RunSteps(const RunArgs& args, const std::vector<WorkerTarget>& workers, Stamps* stamps) {
  stamps->Clear();
  stamps->SetStepMs(args.step_ms);
  return Run(args, workers).Go(*stamps);
}

}  // namespace coxswain::bench
