// Worker processes in virtual time, behind the controller's transport, with the real fence of
// worker/agent. They keep the rules of ARCHITECTURE.md, "Steps, fences, recovery", and really
// depend on what they are fed: see fake_model.h; and the gradient norm depends on the GEMM table of
// every rank, which each process draws for itself unless it is given one, and on which ranks share
// a host, as the order of sums does.
//
// fake_workers.cc: processes and what befalls them; fake_calls.cc: unary calls; fake_streams.cc:
// Connect, Run, Logs; fake_steps.cc: commands.
#ifndef COXSWAIN_TESTS_SIM_FAKES_FAKE_WORKERS_H_
#define COXSWAIN_TESTS_SIM_FAKES_FAKE_WORKERS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "controller/runtime/loop.h"
#include "controller/store/store.h"
#include "controller/transport/worker_transport.h"
#include "coxswain/v1/registry_service.pb.h"
#include "tests/sim/agenda.h"
#include "tests/sim/fakes/fake_model.h"
#include "tests/sim/fakes/fake_stream.h"
#include "tests/sim/fakes/memory_files.h"
#include "worker/agent/epoch_gate.h"

namespace coxswain::sim {

struct Network {
  int64_t min_delay_ms = 0;
  int64_t max_delay_ms = 3;
  int64_t step_ms = 40;         // of one command
  double duplicate_events = 0;  // probability
};

class FakeWorkers : public WorkerTransport {
 public:
  FakeWorkers(Agenda* agenda, MemoryFiles* files, uint64_t seed);

  // The controller that callbacks go to; null while it is down. Everything in flight to an earlier
  // one is lost; what that one sent still arrives.
  void Connect(Loop* loop);
  void set_network(Network network) { network_ = network; }
  // What a slot says it is; "cpu" unless said.
  void set_device(int slot, const std::string& device) { devices_[slot] = device; }

  // Starts a process in a slot (an earlier one there must be dead) and returns its incarnation.
  std::string Start(int slot);
  void Kill(int slot);          // as SIGKILL: streams break, nothing is answered
  void KillInSave(int slot);    // killed when half of its next shard is written
  void DamageShard(int slot);   // its storage writes other bytes of its next shard than it is given
  void Hang(int slot);          // it lives, beats and takes part in nothing again
  void CorruptStep(int slot);   // the bits of its next step are wrong, as a broken device's are
  void BreakStreams(int slot);  // its streams end, the process lives
  void Drain(int slot);         // it says in every heartbeat that it will leave
  void Stop(int slot);          // as SIGSTOP: says nothing more, until its supervisor ends it
  void Partition(int slot, bool cut);  // unary calls time out, heartbeats do not arrive
  void set_threads(int slot, int threads) { threads_[slot] = threads; }
  // Of every worker that registers from now on; empty: "Sim " and its kind of device.
  void set_device_name(std::string name) { device_name_ = std::move(name); }
  void MoveTo(int slot, const std::string& host);  // from its next start on
  // A process was ended by its supervisor, which starts another.
  void set_on_ended(std::function<void(int slot)> on_ended) { on_ended_ = std::move(on_ended); }
  // What Prepare answers until this is OK again.
  void FailPrepare(absl::Status status) { prepare_error_ = std::move(status); }
  // How late Prepare answers in this slot, and whether heartbeats say that it, or a save, gets on.
  void SlowPrepare(int slot, int64_t delay_ms, bool gets_on);
  // How SaveShard answers in this slot: so late, and so unless it is OK.
  void SlowSave(int slot, int64_t delay_ms, absl::Status status);
  void set_fingerprint(int slot, std::string fingerprint);
  void set_nonfinite_steps(std::set<int64_t> steps) { nonfinite_ = std::move(steps); }
  void FailCommand(int64_t step, v1::Error error) { failures_[step] = std::move(error); }
  // From this step on losses are a hundred times as large.
  void Diverge(int64_t step) { diverges_at_ = step; }
  // Called right before a rank reads written weights back, with their folder.
  void set_on_load(std::function<void(const std::string& directory)> on_load) {
    on_load_ = std::move(on_load);
  }
  // What every step tells of experts from now on.
  void set_experts(const v1::ExpertUse& use) { experts_ = use; }

  bool alive(int slot) const;
  const std::string& incarnation(int slot) const { return processes_.at(slot).incarnation; }
  void SeeTerm(int slot, uint64_t term) { processes_.at(slot).gate.SeeTerm(term); }
  bool reachable(int slot) const;  // alive and not cut off
  v1::RegisterRequest Hello(int slot) const;
  v1::HeartbeatRequest Beat(int slot) const;
  int slots() const { return static_cast<int>(processes_.size()); }

  // Drops its gang, as a worker does that has had no controller for a minute.
  void LoseController(int slot) { DropEpoch(processes_.at(slot), "no controller"); }

  // Violations of the rules that workers can see, in words; empty is good.
  const std::vector<std::string>& violations() const { return violations_; }
  // Looks into the store at every Prepare: numbers must be durable before use.
  void set_store(store::Store* store) { store_ = store; }
  // Called with what a rank holds after every step that it trained.
  using OnTrained = std::function<void(const v1::Fence& fence, int rank, const FakeModel& model)>;
  void set_on_trained(OnTrained on_trained) { on_trained_ = std::move(on_trained); }
  // Steps that all ranks of (job, epoch) finished.
  bool AllRanksDid(const std::string& job, uint64_t epoch, int64_t step) const {
    const auto steps = finished_.find({job, epoch});
    return steps != finished_.end() && steps->second.contains(step);
  }

  // WorkerTransport.
  void Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request, Timeout timeout,
               Done<v1::PrepareResponse> done) override;
  std::unique_ptr<Outgoing<v1::ConnectRequest>> Connect(
      const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) override;
  std::unique_ptr<CommandStream> Run(const WorkerTarget& worker,
                                     Incoming<v1::Event> incoming) override;
  void SaveShard(const WorkerTarget& worker, const v1::SaveShardRequest& request, Timeout timeout,
                 Done<v1::SaveShardResponse> done) override;
  std::unique_ptr<Outgoing<v1::WorkerLogsRequest>> Logs(const WorkerTarget& worker,
                                                        const v1::WorkerLogsRequest& request,
                                                        Incoming<v1::LogLine> incoming) override;
  void Inspect(const WorkerTarget& worker, Timeout timeout,
               Done<v1::WorkerInspectResponse> done) override;
  void Dump(const WorkerTarget& worker, Timeout timeout,
            Done<v1::WorkerDumpResponse> done) override;
  void Abort(const WorkerTarget& worker, const v1::AbortRequest& request, Timeout timeout,
             Done<v1::AbortResponse> done) override;
  void Release(const WorkerTarget& worker, const v1::ReleaseRequest& request, Timeout timeout,
               Done<v1::ReleaseResponse> done) override;
  void EndWorker(const WorkerTarget& worker, const std::string& reason, Timeout timeout,
                 Done<v1::EndWorkerResponse> done) override;
  // What it waits for, or where it stands still; a stopped process too.
  void Stacks(const WorkerTarget& worker, int64_t most_bytes, Timeout timeout,
              Done<v1::StacksResponse> done) override;

 private:
  struct Process {
    explicit Process(std::string name) : incarnation(std::move(name)), gate(incarnation) {}

    int slot = 0;
    std::string host = "sim";
    std::string incarnation;
    agent::EpochGate gate;
    bool alive = true;
    bool hung = false;
    bool cut = false;
    bool stopped = false;
    bool draining = false;
    std::string fingerprint = "sim";
    int64_t save_delay_ms = 0;
    int64_t prepare_delay_ms = 0;
    bool gets_on = false;         // in every heartbeat
    int64_t answer_delay_ms = 0;  // of the answer being made
    absl::Status save_error;
    bool dies_in_save = false;
    bool damages_shard = false;
    bool corrupts_step = false;
    uint64_t opened = 0;  // term that gave its epoch: two controllers may use one number
    int rank = 0;
    int world = 0;
    std::string gemm_table;
    std::string hosts;  // of the ranks of its epoch, since it connected
    uint64_t last_seq = 0;
    uint64_t done_seq = 0;
    std::map<uint64_t, int64_t> arrived_ms;  // when it began to wait for the others, by command
    struct Kept {
      v1::CommandKind kind = v1::COMMAND_KIND_UNSPECIFIED;
      uint64_t identity = 0;
      std::optional<v1::Event> event;  // nothing until it is done
    };
    std::map<uint64_t, Kept> kept;  // of the epoch, by command
    FakeModel model;
    std::optional<FakeModel> snapshot;
    std::optional<FakeModel> read_back;  // in place of the model, by LOAD
    std::vector<int64_t> written;        // tokens of each answer
    std::shared_ptr<FakeStream<v1::Event>> run;
    std::shared_ptr<FakeStream<v1::ConnectResponse>> connect;

    // Of the current epoch; without a job when idle.
    v1::Fence fence() const { return gate.current().value_or(v1::Fence()); }
    bool InGangOf(const Process& other) const { return gang() != "" && gang() == other.gang(); }
    std::string gang() const;  // job, epoch and the term that gave it; empty: none
  };
  // Where the ranks of one command meet.
  struct Meeting {
    std::map<int, v1::Command> commands;  // by rank
    uint64_t gemm_tables = 0;             // of all ranks
  };

  Process* Find(const WorkerTarget& worker);  // alive, reachable and of that incarnation; else null
  int64_t Delay();
  void ToController(int64_t delay_ms, std::function<void()> task);
  void ToController(uint64_t generation, int64_t delay_ms, std::function<void()> task);
  template <typename Response>
  void Answer(const WorkerTarget& worker, Timeout timeout, Done<Response> done,
              std::function<absl::StatusOr<Response>(Process&)> serve);
  template <typename Response>
  void AskSupervisor(const WorkerTarget& worker, Timeout timeout, Done<Response> done,
                     std::function<Response(Process&)> serve);
  absl::StatusOr<v1::PrepareResponse> ServePrepare(Process& process,
                                                   const v1::PrepareRequest& request);
  absl::Status CheckShards(const std::string& directory);
  absl::Status Load(Process& process, const v1::PrepareRequest& request);
  absl::StatusOr<v1::SaveShardResponse> ServeSave(Process& process,
                                                  const v1::SaveShardRequest& request);
  void CheckDurable(const v1::Fence& fence);
  void OnConnected(Process& process);
  template <typename Message>
  void End(const std::shared_ptr<FakeStream<Message>>& stream, absl::Status status);
  void OnCommand(const std::string& incarnation, const std::shared_ptr<FakeStream<v1::Event>>& from,
                 const v1::Command& command);
  absl::Status Accept(Process& process, const v1::Command& command);
  void Send(Process& process, const v1::Event& event);
  void Meet(Process& process, const v1::Command& command);
  void Finish(const std::string& key, const std::string& gang);
  v1::Event Execute(Process& process, const Meeting& meeting);
  void WriteOn(Process& process, const v1::Generate& generate, v1::Done* done);
  absl::Status ReadBack(Process& process, const v1::Load& load);
  void Train(Process& process, const Meeting& meeting, v1::Done* done);
  void DropEpoch(Process& process, const std::string& reason);
  void Violation(const std::string& text) { violations_.push_back(text); }

  Agenda* const agenda_;
  MemoryFiles* const files_;
  std::mt19937_64 random_;
  Network network_;
  Loop* loop_ = nullptr;
  uint64_t generation_ = 0;  // of the controller
  store::Store* store_ = nullptr;
  std::map<int, Process> processes_;  // by slot
  std::map<int, std::string> hosts_;  // by slot, of those that moved
  std::map<int, std::string> devices_;
  std::map<int, int> threads_;  // 1 where none is said
  std::string device_name_;
  std::function<void(const std::string& directory)> on_load_;
  int next_incarnation_ = 0;
  std::map<std::string, Meeting> meetings_;                                 // by gang and seq
  std::map<std::string, int64_t> busy_until_ms_;                            // by job
  std::map<std::pair<std::string, uint64_t>, std::set<int64_t>> finished_;  // steps
  OnTrained on_trained_;
  std::function<void(int slot)> on_ended_;
  std::set<int64_t> nonfinite_;
  std::optional<v1::ExpertUse> experts_;  // none: the model has no experts
  int64_t diverges_at_ = std::numeric_limits<int64_t>::max();
  std::map<int64_t, v1::Error> failures_;
  absl::Status prepare_error_;
  std::vector<std::string> violations_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_FAKE_WORKERS_H_
