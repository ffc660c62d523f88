#include "tests/sim/faults.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/simulation.h"

namespace coxswain::sim {
namespace {

int AnySlot(Simulation& sim, Draw& draw) { return draw.Below(sim.workers().slots()); }

// Notes what is done to a worker, and to which.
int NotedSlot(Simulation& sim, Draw& draw, const char* what) {
  const int slot = AnySlot(sim, draw);
  sim.Note(absl::StrCat(what, " ", slot));
  return slot;
}

absl::Status InputOutputError() { return absl::DataLossError("input/output error"); }
absl::Status Full() { return absl::ResourceExhaustedError("no space left on device"); }

void KillWorker(Simulation& sim, Draw& draw) {
  const int slot = NotedSlot(sim, draw, "kill worker");
  sim.RestartWorker(slot, draw.Upto(3000));
}
void KillWorkerInSave(Simulation& sim, Draw& draw) {
  sim.workers().KillInSave(NotedSlot(sim, draw, "worker that will die in its next save:"));
}
void DamageShard(Simulation& sim, Draw& draw) {
  sim.workers().DamageShard(NotedSlot(sim, draw, "damaged bytes in the next shard of worker"));
}
void HangWorker(Simulation& sim, Draw& draw) {
  sim.workers().Hang(NotedSlot(sim, draw, "hang worker"));
}
void StopWorker(Simulation& sim, Draw& draw) {
  sim.workers().Stop(NotedSlot(sim, draw, "stop worker"));
}
void BreakStreams(Simulation& sim, Draw& draw) {
  sim.workers().BreakStreams(NotedSlot(sim, draw, "break streams of worker"));
}
void RelayDies(Simulation& sim, Draw&) {
  sim.Note("the relay dies: every stream breaks");
  for (int slot = 0; slot < sim.workers().slots(); ++slot) sim.workers().BreakStreams(slot);
}
void CutWorker(Simulation& sim, Draw& draw) {
  const int slot = NotedSlot(sim, draw, "cut off worker");
  sim.workers().Partition(slot, true);
  sim.At(draw.Upto(9000), [&sim, slot] { sim.workers().Partition(slot, false); });
}
void DrainWorker(Simulation& sim, Draw& draw) {
  const int slot = NotedSlot(sim, draw, "drain worker");
  sim.workers().Drain(slot);
  sim.At(draw.Upto(5000) + 2000, [&sim, slot] { sim.RestartWorker(slot, 500); });
}
void CorruptStep(Simulation& sim, Draw& draw) {
  sim.workers().CorruptStep(NotedSlot(sim, draw, "wrong bits in the next step of worker"));
}
void KillController(Simulation& sim, Draw& draw) {
  if (!sim.up()) return;
  sim.Note("kill the controller");
  sim.KillController(draw.Upto(5000));
}
void KillControllerAtEffect(Simulation& sim, Draw& draw) {
  if (!sim.up()) return;
  const int effects = draw.Below(40);
  sim.Note(absl::StrCat("the controller will die after ", effects, " more writes and messages"));
  sim.KillControllerAfter(effects, draw.Upto(5000));
}
void StopController(Simulation& sim, Draw& draw) {
  if (!sim.up()) return;
  const int64_t grace_ms = draw.Upto(20000);
  sim.Note(absl::StrCat("stop the controller, with ", grace_ms, " ms of grace"));
  sim.StopController(grace_ms, draw.Upto(5000));
}
void StallLoop(Simulation& sim, Draw& draw) {
  const int64_t ms = draw.Upto(20000);
  sim.Note(absl::StrCat("stall the loop for ", ms, " ms"));
  sim.StallLoop(ms);
}
void Suspend(Simulation& sim, Draw& draw) {
  const int64_t ms = draw.Upto(30000);
  sim.Note(absl::StrCat("suspend everything for ", ms, " ms"));
  sim.Suspend(ms);
}
void JumpWall(Simulation& sim, Draw& draw) {
  constexpr int64_t kDayMs = 86'400'000;
  const int64_t ms = draw.Upto(2 * kDayMs) - kDayMs;
  sim.Note(absl::StrCat("the wall clock jumps by ", ms, " ms"));
  sim.JumpWall(ms);
}
void StoreFails(Simulation& sim, Draw& draw) {
  const auto count = static_cast<int>(draw.Upto(8));
  sim.Note(absl::StrCat("the next ", count, " commits fail"));
  sim.faulty_store().FailCommits(count);
}
void StoreUnreadable(Simulation& sim, Draw& draw) {
  const auto count = static_cast<int>(draw.Upto(2));
  sim.Note(absl::StrCat("the next ", count, " reads of the store fail"));
  sim.faulty_store().FailReads(count);
}
void StoreSlow(Simulation& sim, Draw& draw) {
  const int64_t ms = draw.Upto(8000);
  sim.Note(absl::StrCat("the next commit takes ", ms, " ms"));
  sim.faulty_store().SlowCommit(ms);
}
void DiskFull(Simulation& sim, Draw& draw) {
  sim.Note("the disk is full");
  sim.files().FailWrites("/out", Full());
  sim.At(draw.Upto(9000), [&sim] { sim.files().FailWrites("/out", absl::OkStatus()); });
}
void WriteFails(Simulation& sim, Draw& draw) {
  const int skip = draw.Below(12);
  const absl::Status error = draw.Below(2) == 0 ? Full() : InputOutputError();
  sim.Note(absl::StrCat("after ", skip, " more, a write of the controller fails"));
  sim.faulty_files().FailWrites(skip, 1, error);
}
void ReadFails(Simulation& sim, Draw& draw) {
  const int skip = draw.Below(12);
  sim.Note(absl::StrCat("after ", skip, " more, a read of the controller fails"));
  sim.faulty_files().FailReads(skip, 1, absl::NotFoundError("cannot read: stale file handle"));
}
void DiskSlow(Simulation& sim, Draw& draw) {
  const int64_t ms = draw.Upto(4000);
  sim.Note(absl::StrCat("work with files takes up to ", ms, " ms"));
  sim.SlowDisk(ms, draw.Upto(9000));
}
void OutputUnmounted(Simulation& sim, Draw& draw) {
  sim.Note("the output's file system is gone");
  sim.files().Unmount("/out");
  sim.At(draw.Upto(15000), [&sim] { sim.files().Mount(); });
}
void LoseMessage(Simulation& sim, Draw& draw) {
  const auto call = static_cast<Call>(draw.Below(kNumCalls));
  const auto fault = static_cast<MessageFault>(draw.Below(2));
  sim.transport().Arm(call, fault, draw.Upto(2000));
}
// Late by less than what a gang waits for.
void DisturbMessage(Simulation& sim, Draw& draw) {
  const auto call = static_cast<Call>(draw.Below(kNumCalls));
  const auto fault = static_cast<MessageFault>(2 + draw.Below(kNumMessageFaults - 2));
  sim.transport().Arm(call, fault, draw.Upto(3000));
}
void DelayMessageForLong(Simulation& sim, Draw& draw) {
  const auto call = static_cast<Call>(draw.Below(kNumCalls));
  const auto fault = static_cast<MessageFault>(2 + draw.Below(2));
  sim.transport().Arm(call, fault, 3000 + draw.Upto(60000));
}
void PauseJob(Simulation& sim, Draw& draw) {
  const std::string name = sim.AnyJob(draw);
  sim.Note(absl::StrCat("pause ", name));
  sim.users().PauseFor(name, draw.Upto(9000), draw.Below(2));
}
void CancelJob(Simulation& sim, Draw& draw) {
  const std::string name = sim.AnyJob(draw);
  if (!sim.MayCancel(name)) return;
  sim.Note(absl::StrCat("cancel ", name));
  sim.users().Cancel(name, /*with_checkpoint=*/false, draw.Below(2));
}
void CancelJobWithCheckpoint(Simulation& sim, Draw& draw) {
  const std::string name = sim.AnyJob(draw);
  if (!sim.MayCancel(name)) return;
  sim.Note(absl::StrCat("cancel ", name, " with a checkpoint"));
  sim.users().Cancel(name, /*with_checkpoint=*/true, draw.Below(2));
}
void CordonWorker(Simulation& sim, Draw& draw) {
  const int slot = AnySlot(sim, draw);
  if (!sim.workers().alive(slot)) return;
  const v1::RegisterRequest worker = sim.workers().Hello(slot);
  const bool whole_host = draw.Below(3) == 0;
  const std::string target =
      whole_host ? worker.host() : absl::StrCat(worker.host(), "/", worker.slot());
  sim.Note(absl::StrCat("cordon ", target));
  sim.users().CordonFor(target, draw.Upto(20000), draw.Below(2));
}
void PreparationFails(Simulation& sim, Draw& draw) {
  sim.Note("data cannot be read");
  sim.FailPreparation(absl::NotFoundError("cannot read /data.jsonl: connection timed out"));
  sim.At(draw.Upto(9000), [&sim] { sim.FailPreparation(absl::OkStatus()); });
}

constexpr FaultKind kKinds[] = {
    {"worker killed", false, 3, KillWorker},
    {"worker killed in a save", false, 2, KillWorkerInSave},
    {"shard damaged", false, 2, DamageShard},
    {"worker hangs", false, 2, HangWorker},
    {"worker stopped", false, 2, StopWorker},
    {"streams of a worker broken", false, 2, BreakStreams},
    {"relay dies", false, 1, RelayDies},
    {"worker cut off", false, 2, CutWorker},
    {"worker drained", false, 2, DrainWorker},
    {"wrong bits", false, 1, CorruptStep},
    {"controller killed", false, 2, KillController, true},
    {"controller killed at an effect", false, 6, KillControllerAtEffect, true},
    {"controller stopped", false, 3, StopController, true},
    {"loop stalled", true, 2, StallLoop},
    {"everything suspended", true, 1, Suspend},
    {"wall clock set", true, 1, JumpWall},
    {"commits fail", false, 2, StoreFails},
    {"store unreadable", false, 2, StoreUnreadable},
    {"commit slow", true, 2, StoreSlow},
    {"disk full", false, 2, DiskFull},
    {"write fails", false, 3, WriteFails},
    {"read fails", false, 3, ReadFails},
    {"disk slow", true, 2, DiskSlow},
    {"output unmounted", false, 1, OutputUnmounted},
    {"message lost", false, 7, LoseMessage},
    {"message disturbed", true, 7, DisturbMessage},
    {"message very late", false, 3, DelayMessageForLong},
    {"job paused", false, 2, PauseJob, true},
    {"job cancelled", false, 1, CancelJob, true},
    {"job cancelled with a checkpoint", false, 1, CancelJobWithCheckpoint, true},
    {"worker cordoned", false, 2, CordonWorker},
    {"preparation fails", false, 1, PreparationFails},
};

}  // namespace

std::span<const FaultKind> FaultKinds() { return kKinds; }

std::vector<PlannedFault> PlanFaults(uint64_t seed, int64_t horizon_ms, int count, FaultsOf of) {
  std::vector<const FaultKind*> kinds;  // as often as their weight
  for (const FaultKind& kind : kKinds) {
    const bool wanted = of == FaultsOf::kAll || (of == FaultsOf::kHarmless && kind.harmless) ||
                        (of == FaultsOf::kController && kind.of_controller);
    if (wanted) kinds.insert(kinds.end(), kind.weight, &kind);
  }
  Draw draw(seed);
  std::vector<PlannedFault> faults;
  for (int i = 0; i < count; ++i) {
    const int64_t at_ms = draw.Upto(horizon_ms);
    const FaultKind* kind = kinds[static_cast<size_t>(draw.Below(static_cast<int>(kinds.size())))];
    faults.push_back({at_ms, kind, seed * 1000 + static_cast<uint64_t>(i)});
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const auto& a, const auto& b) { return a.at_ms < b.at_ms; });
  return faults;
}

void LetHappen(const std::vector<PlannedFault>& faults, Simulation* sim) {
  for (const PlannedFault& fault : faults) {
    sim->At(fault.at_ms, [sim, fault] {
      sim->Count(absl::StrCat("fault ", fault.kind->name));
      Draw draw(fault.draw);
      fault.kind->inject(*sim, draw);
    });
  }
}

}  // namespace coxswain::sim
