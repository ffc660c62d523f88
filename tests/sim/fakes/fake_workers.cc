#include "tests/sim/fakes/fake_workers.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kSilenceMs = 40'000;  // without a sign of life a supervisor ends its worker

}  // namespace

FakeWorkers::FakeWorkers(Agenda* agenda, MemoryFiles* files, uint64_t seed)
    : agenda_(agenda), files_(files), random_(seed) {}

void FakeWorkers::Connect(Loop* loop) {
  loop_ = loop;
  ++generation_;
  for (auto& [slot, process] : processes_) {
    process.run.reset();
    process.connect.reset();
  }
}

int64_t FakeWorkers::Delay() {
  return network_.min_delay_ms +
         static_cast<int64_t>(
             random_() % static_cast<uint64_t>(network_.max_delay_ms - network_.min_delay_ms + 1));
}

void FakeWorkers::ToController(int64_t delay_ms, std::function<void()> task) {
  ToController(generation_, delay_ms, std::move(task));
}

void FakeWorkers::ToController(uint64_t generation, int64_t delay_ms, std::function<void()> task) {
  agenda_->After(delay_ms, [this, generation, task = std::move(task)] {
    if (generation == generation_ && loop_ != nullptr) loop_->Post(task);
  });
}

std::string FakeWorkers::Start(int slot) {
  processes_.erase(slot);
  const std::string name = absl::StrCat("incarnation-", ++next_incarnation_);
  Process& process = processes_.emplace(slot, name).first->second;
  process.slot = slot;
  if (hosts_.contains(slot)) process.host = hosts_[slot];
  return name;
}

bool FakeWorkers::alive(int slot) const { return processes_.at(slot).alive; }
bool FakeWorkers::reachable(int slot) const {
  const Process& process = processes_.at(slot);
  return process.alive && !process.cut && !process.stopped;
}

void FakeWorkers::BreakStreams(int slot) {
  Process& process = processes_.at(slot);
  End(std::exchange(process.run, nullptr), absl::UnavailableError("reset"));
  End(std::exchange(process.connect, nullptr), absl::UnavailableError("reset"));
}

void FakeWorkers::Kill(int slot) {
  BreakStreams(slot);
  processes_.at(slot).alive = false;
}

void FakeWorkers::MoveTo(int slot, const std::string& host) { hosts_[slot] = host; }
void FakeWorkers::KillInSave(int slot) { processes_.at(slot).dies_in_save = true; }
void FakeWorkers::DamageShard(int slot) { processes_.at(slot).damages_shard = true; }
void FakeWorkers::CorruptStep(int slot) { processes_.at(slot).corrupts_step = true; }
void FakeWorkers::Hang(int slot) { processes_.at(slot).hung = true; }
void FakeWorkers::Stop(int slot) {
  processes_.at(slot).stopped = true;
  agenda_->After(kSilenceMs, [this, slot, incarnation = incarnation(slot)] {
    if (on_ended_ && this->incarnation(slot) == incarnation) on_ended_(slot);
  });
}
void FakeWorkers::Partition(int slot, bool cut) { processes_.at(slot).cut = cut; }
void FakeWorkers::Drain(int slot) { processes_.at(slot).draining = true; }
void FakeWorkers::SlowPrepare(int slot, int64_t delay_ms, bool gets_on) {
  processes_.at(slot).prepare_delay_ms = delay_ms;
  processes_.at(slot).gets_on = gets_on;
}
void FakeWorkers::SlowSave(int slot, int64_t delay_ms, absl::Status status) {
  processes_.at(slot).save_delay_ms = delay_ms;
  processes_.at(slot).save_error = std::move(status);
}
void FakeWorkers::set_fingerprint(int slot, std::string fingerprint) {
  processes_.at(slot).fingerprint = std::move(fingerprint);
}

std::string FakeWorkers::Process::gang() const {
  if (!gate.current()) return "";
  return absl::StrCat(gate.current()->job(), "/", gate.current()->epoch(), "/", opened);
}

v1::RegisterRequest FakeWorkers::Hello(int slot) const {
  const Process& process = processes_.at(slot);
  v1::RegisterRequest hello;
  hello.set_incarnation(process.incarnation);
  hello.set_address(absl::StrCat("sim:", slot));
  hello.set_host(process.host);
  hello.set_slot(slot);
  hello.set_supervisor("supervisor-" + process.host);
  hello.set_supervisor_address("sim");
  const auto device = devices_.find(slot);
  hello.mutable_build()->set_device(device == devices_.end() ? "cpu" : device->second);
  const auto threads = threads_.find(slot);
  hello.set_threads(threads == threads_.end() ? 1 : threads->second);
  hello.set_device_name(device_name_.empty() ? "Sim " + hello.build().device() : device_name_);
  hello.set_highest_term(process.gate.highest_term());
  if (!process.gate.current()) return hello;
  *hello.mutable_current() = process.fence();
  hello.set_last_queued_seq(process.last_seq);
  hello.set_last_done_seq(process.done_seq);
  for (const auto& [seq, kept] : process.kept) hello.add_queued(kept.kind);
  return hello;
}

// A command is one collective, numbered as it is.
v1::HeartbeatRequest FakeWorkers::Beat(int slot) const {
  const Process& process = processes_.at(slot);
  v1::HeartbeatRequest beat;
  beat.set_incarnation(process.incarnation);
  *beat.mutable_current() = process.fence();
  beat.set_draining(process.draining);
  beat.set_last_queued_seq(process.last_seq);
  beat.set_last_done_seq(process.done_seq);
  if (process.gets_on) {
    beat.set_work_done(static_cast<uint64_t>(agenda_->now_ms()));
    beat.set_blocks_saved(static_cast<uint64_t>(agenda_->now_ms()));
  }
  v1::CollectiveProgress* collective = beat.mutable_collectives();
  collective->set_started(process.done_seq);
  collective->set_finished(process.done_seq);
  if (const auto it = process.arrived_ms.find(process.done_seq + 1);
      it != process.arrived_ms.end()) {
    collective->set_started(it->first);
    collective->set_operation("all_reduce of 1 float32 over world");
    collective->set_in_it_ms(agenda_->now_ms() - it->second);
  }
  return beat;
}

FakeWorkers::Process* FakeWorkers::Find(const WorkerTarget& worker) {
  for (auto& [slot, process] : processes_) {
    if (process.incarnation == worker.incarnation) return reachable(slot) ? &process : nullptr;
  }
  return nullptr;
}

void FakeWorkers::DropEpoch(Process& process, const std::string& reason) {
  process.gate.Close(reason);
  process.snapshot.reset();
  process.hung = false;
  process.done_seq = 0;
  process.kept.clear();
  process.arrived_ms.clear();
  process.run.reset();
  process.connect.reset();
}

}  // namespace coxswain::sim
