#include <gtest/gtest.h>

#include <random>
#include <set>

#include "controller/scheduler/admission.h"
#include "controller/scheduler/registry.h"
#include "tests/sim/simulation.h"

namespace coxswain::scheduler {
namespace {

QueueEntry Entry(const std::string& job, int64_t workers, int64_t order, int64_t priority = 0,
                 const std::string& device = "cpu") {
  return {.job = job, .priority = priority, .order = order, .device = device, .workers = workers};
}
using Jobs = std::vector<std::string>;

WorkerPool Cpu(size_t free, int64_t living) {
  return {.device = "cpu", .free = std::vector<std::string>(free), .living = living};
}

Jobs Admitted(std::vector<QueueEntry> queue, const std::vector<WorkerPool>& pools) {
  Jobs jobs;
  for (const Admission& admission : Admit(std::move(queue), pools)) jobs.push_back(admission.job);
  return jobs;
}

Worker On(const std::string& host, const std::string& device_name) {
  Worker worker;
  worker.hello.set_host(host);
  worker.hello.set_device_name(device_name);
  return worker;
}

TEST(LinkTableTest, GangsOfTheSameKindShareTheFirstMeasurement) {
  LinkTable table;
  const std::vector<Worker> one_host = {On("a", "H200"), On("a", "H200")};
  EXPECT_TRUE(table.Find(one_host).empty());
  EXPECT_FALSE(table.Remember(one_host, {}));
  EXPECT_TRUE(table.Remember(one_host, {{1024, 1e9}}));
  EXPECT_FALSE(table.Remember(one_host, {{1024, 2e9}}));
  const std::vector<plan::LinkSpeed> first = {{1024, 1e9}};
  EXPECT_EQ(table.Find(one_host), first);
  EXPECT_EQ(table.Find({On("b", "H200"), On("b", "H200")}), first);
  EXPECT_TRUE(table.Find({On("a", "H200"), On("b", "H200")}).empty());
  EXPECT_TRUE(table.Find({On("a", "H100"), On("a", "H100")}).empty());
  EXPECT_TRUE(table.Find({On("a", "H200")}).empty());
  std::vector<Worker> newer = one_host;
  for (Worker& worker : newer) worker.hello.mutable_build()->set_version("2");
  EXPECT_TRUE(table.Find(newer).empty());
}

TEST(LinkTableTest, StoredLinksAreFoundAndKept) {
  const std::vector<Worker> gang = {On("a", "H200"), On("b", "H200")};
  LinkTable table;
  table.Restore(GangKind(gang), {1024, 1e9});
  table.Restore(GangKind(gang), {4096, 2e9});
  const std::vector<plan::LinkSpeed> stored = {{1024, 1e9}, {4096, 2e9}};
  EXPECT_EQ(table.Find(gang), stored);
  EXPECT_FALSE(table.Remember(gang, {{1024, 5e9}}));
}

// Invariant scheduler-1.
TEST(AdmissionTest, AllOrNothing) {
  EXPECT_EQ(Admitted({Entry("a", 3, 1)}, {Cpu(2, 3)}), Jobs{});
  EXPECT_EQ(Admitted({Entry("a", 3, 1)}, {Cpu(3, 3)}), Jobs{"a"});
}

// Invariant scheduler-2.
TEST(AdmissionTest, PriorityThenOrder) {
  EXPECT_EQ(
      Admitted({Entry("late", 1, 2), Entry("early", 1, 1), Entry("urgent", 1, 3, 9)}, {Cpu(2, 2)}),
      (Jobs{"urgent", "early"}));
}

TEST(AdmissionTest, AWaitingJobIsNotOvertakenByASmallerOne) {
  EXPECT_EQ(Admitted({Entry("big", 2, 1), Entry("small", 1, 2)}, {Cpu(1, 2)}), Jobs{});
}

TEST(AdmissionTest, AJobThatCannotRunAtAllHoldsNobodyUp) {
  EXPECT_EQ(Admitted({Entry("huge", 8, 1), Entry("small", 1, 2)}, {Cpu(1, 2)}), Jobs{"small"});
}

TEST(AdmissionTest, KindsOfDevicesDoNotWaitForEachOther) {
  const WorkerPool no_gpu{.device = "cuda", .free = {}, .living = 1};
  EXPECT_EQ(Admitted({Entry("gpu", 1, 1, 0, "cuda"), Entry("cpu", 1, 2)}, {Cpu(1, 1), no_gpu}),
            Jobs{"cpu"});
  EXPECT_EQ(Admitted({Entry("x", 1, 1, 0, "tpu")}, {Cpu(1, 1)}), Jobs{});
}

TEST(AdmissionTest, FreeWorkersAreTakenInTheirOrder) {
  const std::vector<Admission> admitted = Admit({Entry("a", 2, 1), Entry("b", 1, 2)}, {Cpu(3, 3)});
  EXPECT_EQ(admitted, (std::vector<Admission>{{"a", {0, 1}}, {"b", {2}}}));
}

// "A recovers 8" is a gang of 8 that keeps its place; "waits" is one in its wait after a failure.
struct Kept {
  const char* what;
  std::vector<QueueEntry> queue;
  std::vector<std::string> free;  // whom each free worker worked for
  int64_t living;
  std::vector<Admission> admitted;
};

QueueEntry Recovers(const std::string& job, int64_t workers, int64_t order, bool ready = true,
                    int64_t priority = 0) {
  QueueEntry entry = Entry(job, workers, order, priority);
  entry.keeps = true;
  entry.ready = ready;
  return entry;
}

// Invariant scheduler-8.
TEST(AdmissionTest, ARecoveringGangKeepsItsPlaceAndItsFreeWorkers) {
  const std::vector<Kept> table = {
      {"seven of eight are not given to a small job",
       {Recovers("A", 3, 1), Entry("small", 1, 2)},
       {"A", "A"},
       2,
       {}},
      {"nor to one of a higher priority that came later",
       {Recovers("A", 3, 1), Entry("urgent", 2, 2, 9)},
       {"A", "A"},
       2,
       {}},
      {"nor to one that was submitted before",
       {Entry("old", 1, 1), Recovers("A", 3, 2)},
       {"A", "A"},
       2,
       {}},
      {"what it does not need goes to others at once",
       {Recovers("A", 2, 1), Entry("small", 1, 2)},
       {"", "A", "A"},
       3,
       {{"A", {1, 2}}, {"small", {0}}}},
      {"the worker that comes back is its own, though it waits",
       {Recovers("A", 3, 1, /*ready=*/false), Entry("small", 1, 2)},
       {"A", "", "A"},
       3,
       {}},
      {"a spare takes the place of one that does not come back",
       {Recovers("A", 3, 1)},
       {"", "A", "A"},
       8,
       {{"A", {0, 1, 2}}}},
      {"a larger job of a higher priority does not hold it up",
       {Recovers("A", 2, 1), Entry("huge", 3, 2, 9)},
       {"A", "A", ""},
       4,
       {{"A", {0, 1}}}},
      {"two that lack one each: the one in front completes itself",
       {Recovers("A", 3, 1), Recovers("B", 3, 2)},
       {"A", "B", "A", "B"},
       4,
       {{"A", {0, 1, 2}}}},
      {"in front is the higher priority",
       {Recovers("A", 3, 1), Recovers("B", 3, 2, true, 5)},
       {"A", "B", "A", "B"},
       4,
       {{"B", {0, 1, 3}}}},
      {"one that is complete and waits is not robbed",
       {Recovers("A", 3, 1), Recovers("B", 2, 2, /*ready=*/false)},
       {"A", "B", "A", "B"},
       4,
       {}},
      {"none is robbed where that completes nobody",
       {Recovers("A", 5, 1), Recovers("B", 3, 2), Entry("small", 1, 3)},
       {"A", "B", "A", "B"},
       4,
       {}},
      {"a job that keeps nothing any more is one of the queue",
       {Entry("A", 3, 1), Entry("small", 1, 2)},
       {"A", "A"},
       2,
       {{"small", {0}}}},
  };
  for (const Kept& row : table) {
    EXPECT_EQ(Admit(row.queue, {{.device = "cpu", .free = row.free, .living = row.living}}),
              row.admitted)
        << row.what;
  }
}

// No cluster, whatever its workers did before, is idle while a complete gang could form of them,
// and no worker is given twice.
TEST(AdmissionTest, RecoveringGangsNeverWaitForEachOther) {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 3000; ++round) {
    std::vector<QueueEntry> queue;
    for (int i = 0; i < 1 + below(4); ++i) {
      queue.push_back(Recovers(std::string(1, static_cast<char>('A' + i)), 1 + below(5), i));
    }
    WorkerPool pool{.device = "cpu", .free = {}, .living = 0};
    for (int i = below(9); i > 0; --i) {
      pool.free.push_back(std::string(1, static_cast<char>('A' + below(5))));
    }
    pool.living = static_cast<int64_t>(pool.free.size());
    const std::vector<Admission> admitted = Admit(queue, {pool});
    std::set<size_t> given;
    for (const Admission& admission : admitted) {
      for (const size_t worker : admission.workers) EXPECT_TRUE(given.insert(worker).second);
    }
    const bool fits = queue.front().workers <= pool.living;  // the one in front
    EXPECT_TRUE(!fits || !admitted.empty()) << "round " << round;
  }
}

class RegistryTest : public testing::Test {
 protected:
  RegistryTest()
      : workers_(&agenda_, &files_, 1),
        loop_(&clock_, Loop::Offloading::kInline),
        registry_(&loop_, &workers_, {}) {
    workers_.Connect(&loop_);
    registry_.SetListener({.on_free = [this] { ++freed_; },
                           .on_lost = [this](const Worker& worker,
                                             const std::string&) { lost_.push_back(worker.job); },
                           .on_draining = [](const Worker&) {},
                           .on_registered = {}});
  }
  std::string Join(int slot) {
    const std::string incarnation = workers_.Start(slot);
    EXPECT_TRUE(registry_.Register(workers_.Hello(slot)).ok());
    stream_ = registry_.OpenBeatStream();
    registry_.Beat(workers_.Beat(slot), stream_);
    return incarnation;
  }
  void JoinWithGpu(int slot, int32_t numa_node, int32_t gpu) {
    workers_.Start(slot);
    v1::RegisterRequest hello = workers_.Hello(slot);
    hello.set_numa_node(numa_node);
    hello.set_gpu(gpu);
    EXPECT_TRUE(registry_.Register(hello).ok());
  }
  void Run(int64_t ms) {
    const int64_t end = clock_.NowNs() + ms * 1'000'000;
    while (true) {
      while (loop_.RunReady()) {
      }
      const int64_t next = std::min(agenda_.NextNs(), loop_.NextTimerNs());
      if (next > end) break;
      clock_.AdvanceTo(next);
      agenda_.RunDue();
    }
    clock_.AdvanceTo(end);
  }
  state::WorkerPhase PhaseOf(const std::string& incarnation) {
    return registry_.Find(incarnation)->status.phase;
  }

  sim::VirtualClock clock_;
  sim::Agenda agenda_{&clock_};
  sim::MemoryFiles files_;
  sim::FakeWorkers workers_;
  Loop loop_;
  Registry registry_;
  uint64_t stream_ = 0;
  int freed_ = 0;
  Jobs lost_;
};

TEST_F(RegistryTest, ASilentWorkerIsSuspectAfterThreeSecondsAndLostAfterFive) {
  const std::string worker = Join(0);
  Run(2500);
  EXPECT_EQ(registry_.Free("cpu").size(), 1u);
  Run(1600);
  EXPECT_EQ(registry_.Free("cpu").size(), 0u);
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kReady);
  Run(2000);
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kLost);
  EXPECT_FALSE(registry_.Beat(workers_.Beat(0), stream_)) << "must register again";
  EXPECT_TRUE(registry_.Register(workers_.Hello(0)).ok());
  EXPECT_TRUE(registry_.Beat(workers_.Beat(0), registry_.OpenBeatStream()));
  EXPECT_EQ(registry_.Free("cpu").size(), 1u);
}

TEST_F(RegistryTest, ASuspectWorkerThatBeatsAgainIsFreeAgainAndSaidToBe) {
  const std::string worker = Join(0);
  Run(4100);
  ASSERT_TRUE(registry_.Free("cpu").empty());
  const int before = freed_;
  EXPECT_TRUE(registry_.Beat(workers_.Beat(0), stream_));
  Run(0);
  EXPECT_EQ(registry_.Free("cpu").size(), 1u);
  EXPECT_EQ(freed_, before + 1);
  EXPECT_TRUE(registry_.Beat(workers_.Beat(0), stream_));
  Run(0);
  EXPECT_EQ(freed_, before + 1) << "once";
}

TEST_F(RegistryTest, MemoryThatAnotherProcessLeftIsTold) {
  const std::string worker = Join(0);
  Run(0);
  const int before = freed_;
  v1::HeartbeatRequest beat = workers_.Beat(0);
  const uint64_t first = registry_.Find(worker)->hello.memory_bytes();
  beat.set_memory_bytes(first + (uint64_t{1} << 30));
  registry_.Beat(beat, stream_);
  Run(0);
  EXPECT_EQ(registry_.Find(worker)->hello.memory_bytes(), first + (uint64_t{1} << 30));
  EXPECT_EQ(freed_, before + 1) << "a job may fit now";
  beat.set_memory_bytes(first);
  registry_.Beat(beat, stream_);
  registry_.Beat(workers_.Beat(0), stream_);
  Run(0);
  EXPECT_EQ(registry_.Find(worker)->hello.memory_bytes(), first + (uint64_t{1} << 30));
  EXPECT_EQ(freed_, before + 1);
}

// Invariant scheduler-6.
TEST_F(RegistryTest, BeatsThatWaitForTheLoopAreReadBeforeLeasesAreJudged) {
  const std::string worker = Join(0);
  loop_.RunReady();
  for (int i = 0; i < 20; ++i) {  // busy for 8 s, never long with one thing
    loop_.Post([&] { clock_.AdvanceTo(clock_.NowNs() + 400'000'000); });
  }
  loop_.Post([&] { loop_.Post([&] { registry_.Beat(workers_.Beat(0), stream_); }); });
  Run(0);
  EXPECT_EQ(loop_.stalled_ns(), 0);
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kReady);
  EXPECT_EQ(registry_.Free("cpu").size(), 1u);
}

TEST_F(RegistryTest, AStallExtendsEveryLeaseAndAWorkerThatIsGoneIsLostOneLeaseLater) {
  const std::string alive = Join(0), gone = Join(1);
  Run(500);
  ASSERT_TRUE(registry_.Reserve({alive, gone}, "job").ok());
  clock_.AdvanceTo(clock_.NowNs() + 20'000'000'000);  // nobody is heard, nothing runs
  for (int beat = 0; beat < 4; ++beat) {
    Run(beat == 0 ? 200 : 1000);
    EXPECT_EQ(lost_, Jobs{}) << beat;
    registry_.Beat(workers_.Beat(0), stream_);
  }
  for (int beat = 0; beat < 3; ++beat) {
    Run(1000);
    registry_.Beat(workers_.Beat(0), stream_);
  }
  EXPECT_EQ(PhaseOf(gone), state::WorkerPhase::kLost);
  EXPECT_EQ(PhaseOf(alive), state::WorkerPhase::kJoined);
  EXPECT_EQ(lost_, Jobs{"job"});
}

// Invariant scheduler-4.
TEST_F(RegistryTest, TheEndOfTheHeartbeatStreamIsTheEndOfTheWorkerUnlessANewerOneOpened) {
  const std::string worker = Join(0);
  const uint64_t older = stream_;
  stream_ = registry_.OpenBeatStream();
  registry_.Beat(workers_.Beat(0), stream_);
  registry_.BeatStreamEnded(worker, older);
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kReady);
  registry_.BeatStreamEnded(worker, stream_);
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kLost);
}

// Invariant scheduler-5.
TEST_F(RegistryTest, ANewProcessInASlotReplacesTheOldOneAndItsJobHears) {
  const std::string old = Join(0);
  ASSERT_TRUE(registry_.Reserve({old}, "job").ok());
  const std::string fresh = Join(0);
  EXPECT_EQ(PhaseOf(old), state::WorkerPhase::kLost);
  EXPECT_EQ(PhaseOf(fresh), state::WorkerPhase::kReady);
  EXPECT_EQ(lost_, Jobs{"job"});
}

// They would replace each other's workers for ever.
TEST_F(RegistryTest, ASecondSupervisorInASlotIsRefusedByName) {
  const std::string first = Join(0);
  v1::RegisterRequest second = workers_.Hello(0);
  second.set_incarnation("second");
  second.set_supervisor("another");
  second.set_address("sim:9");
  second.set_pid(99);
  const absl::Status refused = registry_.Register(second).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  for (const char* part : {"slot 0 of host sim", "sim:0", "sim:9", "process 99", "--host-id"}) {
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused;
  }
  EXPECT_EQ(PhaseOf(first), state::WorkerPhase::kReady);
  EXPECT_EQ(registry_.Find("second"), nullptr);
  second.clear_supervisor();  // by hand
  EXPECT_EQ(registry_.Register(second).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(registry_.Register(workers_.Hello(0)).ok()) << "the same process comes back";
  // Its end, or that of its lease, makes room.
  registry_.BeatStreamEnded(first, stream_);
  EXPECT_TRUE(registry_.Register(second).ok());
  second.set_incarnation("third");
  EXPECT_EQ(registry_.Register(second).status().code(), absl::StatusCode::kAlreadyExists)
      << "of no supervisor are two of nobody";
  Run(6000);
  EXPECT_TRUE(registry_.Register(second).ok());
}

TEST_F(RegistryTest, WhoWantsTheSlotOfAWorkerThatLeavesWaits) {
  Join(0);
  v1::HeartbeatRequest beat = workers_.Beat(0);
  beat.set_draining(true);
  registry_.Beat(beat, stream_);
  v1::RegisterRequest second = workers_.Hello(0);
  second.set_incarnation("second");
  second.set_supervisor("another");
  EXPECT_EQ(registry_.Register(second).status().code(), absl::StatusCode::kUnavailable);
}

// Invariant scheduler-7. What comes back in time is left alone.
TEST_F(RegistryTest, ALostProcessThatDoesNotComeBackIsEndedByItsSupervisor) {
  std::vector<int> ended;
  workers_.set_on_ended([&](int slot) {
    ended.push_back(slot);
    workers_.Kill(slot);
  });
  const std::string stays = Join(0), returns = Join(1);
  Run(7000);  // both are lost after 5 s
  EXPECT_EQ(PhaseOf(stays), state::WorkerPhase::kLost);
  EXPECT_TRUE(registry_.Register(workers_.Hello(1)).ok());
  for (int second = 0; second < 8; ++second) {
    registry_.Beat(workers_.Beat(1), stream_);
    Run(1000);
  }
  EXPECT_EQ(ended, std::vector<int>{0});
  EXPECT_EQ(PhaseOf(returns), state::WorkerPhase::kReady);
}

// Nobody could have come back meanwhile.
TEST_F(RegistryTest, AStallOfTheLoopIsNoReasonToEndAProcess) {
  int ended = 0;
  workers_.set_on_ended([&](int) { ++ended; });
  const std::string worker = Join(0);
  Run(6000);
  ASSERT_EQ(PhaseOf(worker), state::WorkerPhase::kLost);
  clock_.AdvanceTo(clock_.NowNs() + int64_t{30} * 1'000'000'000);
  Run(1000);
  ASSERT_TRUE(registry_.Register(workers_.Hello(0)).ok());
  for (int second = 0; second < 12; ++second) {
    registry_.Beat(workers_.Beat(0), stream_);
    Run(1000);
  }
  EXPECT_EQ(ended, 0);
}

TEST_F(RegistryTest, AProcessThatDoesNotAnswerAnAbortIsEndedByItsSupervisor) {
  std::vector<int> ended;
  workers_.set_on_ended([&](int slot) {
    ended.push_back(slot);
    workers_.Kill(slot);
    registry_.BeatStreamEnded(workers_.Hello(slot).incarnation(), stream_);
  });
  const std::string worker = Join(0);
  ASSERT_TRUE(registry_.Reserve({worker}, "job").ok());
  workers_.Stop(0);
  v1::Fence fence;
  fence.set_job("job");
  registry_.AbortAndFree(worker, fence, "test");
  for (int second = 0; second < 19; ++second) {  // its heartbeats go on
    registry_.Beat(workers_.Beat(0), stream_);
    Run(1000);
  }
  EXPECT_EQ(ended, std::vector<int>{});
  for (int second = 0; second < 8 && ended.empty(); ++second) {
    registry_.Beat(workers_.Beat(0), stream_);
    Run(1000);
  }
  EXPECT_EQ(ended, std::vector<int>{0});
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kLost);
}

TEST_F(RegistryTest, ReservesAllOrNone) {
  const std::string a = Join(0), b = Join(1);
  ASSERT_TRUE(registry_.Reserve({b}, "first").ok());
  EXPECT_EQ(registry_.Reserve({a, b}, "second").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PhaseOf(a), state::WorkerPhase::kReady);
  EXPECT_EQ(registry_.Find(b)->job, "first");
}

// Invariant scheduler-3: the abort is sent again until the worker answers.
TEST_F(RegistryTest, AWorkerIsReachedByTheRelayItLastTold) {
  workers_.Start(2);
  v1::RegisterRequest hello = workers_.Hello(2);
  hello.set_relay_address("node-1:7078");
  ASSERT_TRUE(registry_.Register(hello).ok());
  EXPECT_EQ(registry_.Find(hello.incarnation())->target.relay, "node-1:7078");
  EXPECT_EQ(registry_.Find(hello.incarnation())->target.slot, 2);
  hello.clear_relay_address();
  ASSERT_TRUE(registry_.Register(hello).ok());
  EXPECT_EQ(registry_.Find(hello.incarnation())->target.relay, "");
}

TEST_F(RegistryTest, NeighboursInTheMachineAreNeighboursInRank) {
  JoinWithGpu(0, 1, 2);
  JoinWithGpu(1, 0, 3);
  JoinWithGpu(2, 1, 0);
  JoinWithGpu(3, 0, 1);
  std::vector<int> slots;
  for (const Worker& worker : registry_.All()) slots.push_back(worker.hello.slot());
  EXPECT_EQ(slots, (std::vector<int>{3, 1, 2, 0}));
}

// A late Prepare of a gang that has ended would make the worker refuse every other job.
TEST_F(RegistryTest, AFreeWorkerThatTellsOfAnEpochDropsItFirst) {
  const std::string worker = Join(0);
  v1::HeartbeatRequest beat = workers_.Beat(0);
  beat.mutable_current()->set_job("stray");
  beat.mutable_current()->set_epoch(3);
  registry_.Beat(beat, stream_);
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kAborting);
  Run(100);
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kReady);
  ASSERT_TRUE(registry_.Reserve({worker}, "job").ok());
  registry_.Beat(beat, stream_);  // told before it was reserved
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kJoined);
}

TEST_F(RegistryTest, AWorkerRemembersWhomItWorkedForOverAControllersEnd) {
  const std::string worker = Join(0);
  ASSERT_TRUE(registry_.Reserve({worker}, "job").ok());
  registry_.Released(worker);
  EXPECT_EQ(registry_.Find(worker)->last_job, "job");
  workers_.Start(1);
  v1::RegisterRequest hello = workers_.Hello(1);
  hello.mutable_current()->set_job("job");
  EXPECT_TRUE(registry_.Register(hello).ok());
  EXPECT_EQ(registry_.Find(hello.incarnation())->last_job, "job");
}

// Invariant scheduler-11.
TEST_F(RegistryTest, ARankOfAGangThatIsAwaitedIsReservedForIt) {
  int awaited = 1;
  registry_.SetListener(
      {.on_free = {}, .on_lost = {}, .on_draining = {}, .on_registered = [&](const Worker&) {
         return awaited;
       }});
  v1::RegisterRequest hello;
  hello.set_host("h");
  hello.set_incarnation("rank");
  hello.mutable_current()->set_job("job");
  ASSERT_TRUE(registry_.Register(hello).ok());
  EXPECT_EQ(PhaseOf("rank"), state::WorkerPhase::kJoined);
  EXPECT_EQ(registry_.Find("rank")->job, "job");
  EXPECT_EQ(registry_.Find("rank")->rank, 1);
  awaited = -1;
  hello.set_slot(1);
  hello.set_incarnation("stray");
  ASSERT_TRUE(registry_.Register(hello).ok());
  EXPECT_EQ(PhaseOf("stray"), state::WorkerPhase::kAborting);
}

TEST_F(RegistryTest, AnAbortedWorkerIsFreeOnlyWhenItSaysSo) {
  const std::string worker = Join(0);
  ASSERT_TRUE(registry_.Reserve({worker}, "job").ok());
  workers_.Partition(0, true);
  v1::Fence fence;
  fence.set_job("job");
  registry_.AbortAndFree(worker, fence, "test");
  for (int second = 0; second < 12; ++second) {
    registry_.Beat(workers_.Beat(0), stream_);
    Run(1000);
    EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kAborting);
  }
  workers_.Partition(0, false);
  for (int second = 0; second < 8; ++second) {
    registry_.Beat(workers_.Beat(0), stream_);
    Run(1000);
  }
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kReady);
  EXPECT_GE(freed_, 1);
}

// Lost and back, it was given to another job before its first gang came to its end.
TEST_F(RegistryTest, AGangThatEndsLeavesAWorkerAloneThatServesAnother) {
  const std::string worker = Join(0);
  ASSERT_TRUE(registry_.Reserve({worker}, "first").ok());
  registry_.BeatStreamEnded(worker, stream_);
  ASSERT_TRUE(registry_.Register(workers_.Hello(0)).ok());
  stream_ = registry_.OpenBeatStream();
  registry_.Beat(workers_.Beat(0), stream_);
  ASSERT_TRUE(registry_.Reserve({worker}, "second").ok());
  v1::Fence fence;
  fence.set_job("first");
  registry_.AbortAndFree(worker, fence, "test");
  Run(100);
  EXPECT_EQ(PhaseOf(worker), state::WorkerPhase::kJoined);
  EXPECT_EQ(registry_.Find(worker)->job, "second");
}

}  // namespace
}  // namespace coxswain::scheduler
