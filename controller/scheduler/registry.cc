#include "controller/scheduler/registry.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"

namespace coxswain::scheduler {
namespace {

constexpr std::chrono::milliseconds kAbortTimeout{5000};
constexpr std::chrono::milliseconds kAbortRetry{1000};
constexpr std::chrono::minutes kForgetLostAfter{10};
constexpr std::chrono::milliseconds kEndTimeout{5000};
constexpr std::chrono::hours kForgetRefusedAfter{24};

bool IsDevice(const Worker& worker, const std::string& device) {
  return worker.hello.build().device() == device;
}

// May take a job.
bool IsFree(const state::WorkerStatus& status) {
  return status.phase == state::WorkerPhase::kReady && !status.suspect && !status.draining;
}

// Bytes by which what is free of a device changes by itself.
constexpr uint64_t kMemoryNoise = uint64_t{256} << 20;

int64_t Ns(std::chrono::nanoseconds duration) { return duration.count(); }

}  // namespace

Registry::Registry(Loop* loop, WorkerTransport* transport, LeaseTimes times)
    : loop_(loop), transport_(transport), times_(times) {
  loop_->After(times_.beat, lifetime_.Wrap([this] { CheckLeases(); }));
}

void Registry::Apply(Worker& worker, state::WorkerEvent event) {
  absl::StatusOr<state::WorkerStatus> next = state::Transition(worker.status, event);
  if (!next.ok()) {
    log::Warning("worker event refused",
                 {{"worker", worker.target.id}, {"error", std::string(next.status().message())}});
    return;
  }
  const bool freed = IsFree(*next) && !IsFree(worker.status);
  worker.status = *next;
  if (next->phase == state::WorkerPhase::kReady || next->phase == state::WorkerPhase::kLost ||
      next->phase == state::WorkerPhase::kAborting) {
    worker.job.clear();
    worker.rank = -1;
  }
  if (freed) TellFree();
}

void Registry::TellFree() {
  if (listener_.on_free) loop_->Post(lifetime_.Wrap([this] { listener_.on_free(); }));
}

// Nothing is taken back: what an idle worker still holds of its last gang is free for the next.
void Registry::TakeMemory(Worker& worker) {
  if (worker.beat.memory_bytes() <= worker.hello.memory_bytes() + kMemoryNoise) return;
  log::Info("worker has more memory", {{"worker", worker.target.id},
                                       {"before", worker.hello.memory_bytes()},
                                       {"now", worker.beat.memory_bytes()}});
  worker.hello.set_memory_bytes(worker.beat.memory_bytes());
  if (IsFree(worker.status)) TellFree();
}

void Registry::Lose(Worker& worker, state::WorkerEvent event, const std::string& reason) {
  if (IsLost(worker)) return;
  log::Warning("worker lost", {{"worker", worker.target.id}, {"error", reason}});
  const Worker before = worker;
  Apply(worker, event);
  if (!before.status.draining) EndLater(before.target, reason);
  if (!before.job.empty() && listener_.on_lost) listener_.on_lost(before, reason);
  TellFree();  // who needs more than live holds nobody up any more
}

bool Registry::Beat(const v1::HeartbeatRequest& request, uint64_t stream) {
  const auto it = workers_.find(request.incarnation());
  if (it == workers_.end() || IsLost(it->second)) return false;
  Worker& worker = it->second;
  worker.last_beat_ns = loop_->AttentiveNs();
  worker.beat_stream = std::max(worker.beat_stream, stream);
  worker.beat = request;
  if (worker.job.empty()) worker.told_term = term_;
  TakeMemory(worker);
  Apply(worker, state::WorkerEvent::kBeat);
  if (request.draining() && !worker.status.draining) {
    Apply(worker, state::WorkerEvent::kDrainRequested);
    if (!worker.job.empty() && listener_.on_draining) listener_.on_draining(worker);
    TellFree();
  }
  EndStrayEpoch(worker);
  return true;
}

// A Prepare that came late began an epoch that no gang here has: the worker would refuse every
// other job. An Abort of what has ended meanwhile changes nothing.
void Registry::EndStrayEpoch(const Worker& worker) {
  const v1::Fence& current = worker.beat.current();
  if (worker.status.phase != state::WorkerPhase::kReady || current.job().empty()) return;
  AbortAndFree(worker.target.incarnation, current, "no gang of the controller has this gang epoch");
}

void Registry::BeatStreamEnded(const std::string& incarnation, uint64_t stream) {
  const auto it = workers_.find(incarnation);
  if (it == workers_.end() || it->second.beat_stream != stream) return;
  Lose(it->second, state::WorkerEvent::kStreamReset, "its heartbeat stream ended");
}

// Behind the beats that have been received and wait for the loop.
void Registry::CheckLeases() {
  loop_->Post(lifetime_.Wrap([this] { JudgeLeases(); }));
  loop_->After(times_.beat, lifetime_.Wrap([this] { CheckLeases(); }));
}

void Registry::JudgeLeases() {
  const int64_t now = loop_->AttentiveNs();
  for (auto& [incarnation, worker] : workers_) {
    if (IsLost(worker)) continue;
    const int64_t age = now - worker.last_beat_ns;
    if (age >= Ns(times_.lost)) {
      Lose(worker, state::WorkerEvent::kLeaseExpired,
           absl::StrCat("no heartbeat for ", age / 1000000, " ms, limit ", times_.lost.count(),
                        " ms"));
    } else if (age >= Ns(times_.suspect) && !worker.status.suspect) {
      Apply(worker, state::WorkerEvent::kBeatLate);
    }
  }
  std::erase_if(workers_, [&](const auto& entry) {
    return IsLost(entry.second) && now - entry.second.last_beat_ns > Ns(kForgetLostAfter);
  });
  std::erase_if(refused_, [&](const auto& entry) {
    return now - entry.second.since_ns > Ns(kForgetRefusedAfter);
  });
}

std::vector<Worker> Registry::All() const {
  std::vector<Worker> workers;
  for (const auto& [incarnation, worker] : workers_) workers.push_back(worker);
  const auto place = [](const Worker& worker) {
    const v1::RegisterRequest& hello = worker.hello;
    return std::make_tuple(std::cref(hello.host()), hello.numa_node(), hello.gpu(), hello.slot());
  };
  std::sort(workers.begin(), workers.end(),
            [&](const Worker& a, const Worker& b) { return place(a) < place(b); });
  return workers;
}

std::vector<Worker> Registry::Free(const std::string& device) const {
  std::vector<Worker> free;
  for (Worker& worker : All()) {
    if (IsDevice(worker, device) && IsFree(worker.status) && worker.cordoned.empty()) {
      free.push_back(std::move(worker));
    }
  }
  return free;
}

int64_t Registry::Living(const std::string& device) const {
  int64_t count = 0;
  for (const auto& [incarnation, worker] : workers_) {
    const bool leaves = IsLost(worker) || worker.status.draining;
    count += !leaves && worker.cordoned.empty() && IsDevice(worker, device);
  }
  return count;
}

const Worker* Registry::Find(const std::string& incarnation) const {
  const auto it = workers_.find(incarnation);
  return it == workers_.end() ? nullptr : &it->second;
}

uint64_t Registry::TermFor(const std::string& incarnation) const {
  const Worker* worker = Find(incarnation);
  return worker == nullptr ? term_ : worker->told_term;
}

double Registry::AgeSeconds(int64_t since_ns) const {
  return static_cast<double>(loop_->AttentiveNs() - since_ns) * 1e-9;
}

absl::Status Registry::Reserve(const std::vector<std::string>& incarnations,
                               const std::string& job) {
  for (const std::string& incarnation : incarnations) {
    const auto it = workers_.find(incarnation);
    if (it == workers_.end()) {
      return absl::FailedPreconditionError("a worker to be reserved is not registered");
    }
    const auto next = state::Transition(it->second.status, state::WorkerEvent::kReserved);
    if (!next.ok()) return next.status();
    if (!it->second.cordoned.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("worker ", it->second.target.id, " is cordoned: ", it->second.cordoned));
    }
  }
  for (size_t rank = 0; rank < incarnations.size(); ++rank) {
    Worker& worker = workers_.at(incarnations[rank]);
    Apply(worker, state::WorkerEvent::kReserved);
    worker.job = worker.last_job = job;
    worker.rank = static_cast<int32_t>(rank);
  }
  return absl::OkStatus();
}

void Registry::SetCordon(Cordon cordon) {
  cordons_.Set(std::move(cordon));
  ApplyCordons();
}

void Registry::LiftCordon(const std::string& target) {
  cordons_.Lift(target);
  ApplyCordons();
}

void Registry::ApplyCordons() {
  for (auto& [incarnation, worker] : workers_) {
    const Cordon* cordon = cordons_.Covering(worker.target.id, worker.hello.host());
    worker.cordoned = cordon == nullptr ? "" : cordon->reason;
  }
}

void Registry::StepsStarted(const std::string& incarnation) {
  const auto it = workers_.find(incarnation);
  if (it != workers_.end()) Apply(it->second, state::WorkerEvent::kStepsStarted);
}

void Registry::Released(const std::string& incarnation) {
  const auto it = workers_.find(incarnation);
  if (it != workers_.end() && !IsLost(it->second)) {
    Apply(it->second, state::WorkerEvent::kReleased);
  }
}

void Registry::AbortAndFree(const std::string& incarnation, const v1::Fence& fence,
                            const std::string& reason) {
  const auto it = workers_.find(incarnation);
  if (it == workers_.end() || IsLost(it->second)) return;
  // Lost and back since, it may serve another job: it confirmed the end of this one before that.
  if (!it->second.job.empty() && it->second.job != fence.job()) return;
  if (it->second.status.phase != state::WorkerPhase::kAborting) {
    it->second.abort_since_ns = loop_->AttentiveNs();
  }
  Apply(it->second, state::WorkerEvent::kAbortSent);
  v1::AbortRequest request;
  *request.mutable_fence() = fence;
  request.mutable_fence()->set_term(term_);
  request.mutable_fence()->set_worker_incarnation(incarnation);
  request.set_gang_term(fence.term());
  request.set_reason(reason);
  SendAbort(incarnation, request);
}

void Registry::SendAbort(const std::string& incarnation, const v1::AbortRequest& request) {
  const auto it = workers_.find(incarnation);
  if (it == workers_.end() || it->second.status.phase != state::WorkerPhase::kAborting) return;
  transport_->Abort(
      it->second.target, request, kAbortTimeout,
      lifetime_.Wrap(
          [this, incarnation, request](const absl::StatusOr<v1::AbortResponse>& response) {
            const auto found = workers_.find(incarnation);
            if (found == workers_.end() || IsLost(found->second)) return;
            // ABORTED: the worker is already beyond this fence.
            if (response.ok() || absl::IsAborted(response.status())) {
              Apply(found->second, state::WorkerEvent::kAborted);
              return;
            }
            const int64_t waited = loop_->AttentiveNs() - found->second.abort_since_ns;
            if (waited >= Ns(kAbortPatience)) {
              EndProcess(found->second.target,
                         absl::StrCat("it has not answered Abort for ", waited / 1000000, " ms"));
            }
            loop_->After(kAbortRetry, lifetime_.Wrap([this, incarnation, request] {
              SendAbort(incarnation, request);
            }));
          }));
}

// A lost process that lives keeps its device. One that only lost its connection has that long to
// come back.
void Registry::EndLater(const WorkerTarget& worker, const std::string& reason) {
  if (worker.supervisor.empty()) return;
  loop_->Deadline(times_.lost, lifetime_.Wrap([this, worker, reason] {
    const Worker* found = Find(worker.incarnation);
    if (found != nullptr && IsLost(*found)) EndProcess(worker, reason);
  }));
}

// What its supervisor cannot do, it does by itself when the process gives it no sign of life.
void Registry::EndProcess(const WorkerTarget& worker, const std::string& reason) {
  if (worker.supervisor.empty()) return;
  transport_->EndWorker(worker, reason, kEndTimeout,
                        [worker, reason](const absl::StatusOr<v1::EndWorkerResponse>& response) {
                          if (absl::IsNotFound(response.status())) return;  // it is gone
                          log::Warning(response.ok() ? "worker ended by its supervisor"
                                                     : "worker not ended by its supervisor",
                                       {{"worker", worker.id},
                                        {"supervisor", worker.supervisor},
                                        {"reason", reason},
                                        {"error", response.status().ToString()}});
                        });
}

}  // namespace coxswain::scheduler
