// Handles the controller's requests to one worker: fences, the life of an epoch, and the ordered
// execution of its commands. The service (service.h) puts gRPC around it.
//
// Threads. gRPC threads call in and never wait. `control_` begins and ends epochs. Only `executor_`
// touches the engine, with two exceptions: its Abort, and `saver_`, which writes checkpoints beside
// the commands. `teller_` makes dumps, which may wait for a driver. mu_ is never held while the
// engine works, so Inspect and heartbeats answer during a step.
#ifndef COXSWAIN_WORKER_AGENT_AGENT_H_
#define COXSWAIN_WORKER_AGENT_AGENT_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/plan/plan.h"
#include "coxswain/v1/worker_service.pb.h"
#include "worker/agent/agent_state.h"
#include "worker/agent/epoch_gate.h"
#include "worker/agent/mapped_tokens.h"
#include "worker/agent/relay_rendezvous.h"
#include "worker/agent/task_thread.h"
#include "worker/agent/wire/decode.h"
#include "worker/agent/wire/queued_stream.h"
#include "worker/agent/worker_metrics.h"
#include "worker/comm/collectives.h"
#include "worker/engine/engine.h"

namespace coxswain::agent {

struct AgentOptions {
  std::string incarnation;  // UUID of this process
  std::string host;
  std::string host_id;  // GroupConfig::host_id
  std::string device_name;
  std::string pci_bus;  // of its GPU; empty: it has none
  v1::BuildInfo build;
  int threads = 1;
  std::string interface_address = "127.0.0.1";           // other ranks reach this one here
  std::chrono::milliseconds collective_timeout{300000};  // a rank may wait this long for another
  std::chrono::milliseconds abort_deadline{5000};
  // Called when the engine did not come back from an abort. The callee ends the process, and with
  // it the call that hangs.
  std::function<void(const std::string& why)> on_abort_deadline;
  // Called when the device is lost to this process. The callee ends the process before the
  // controller hears of the failure, which then counts as a lost worker.
  std::function<void(const std::string& why)> on_device_lost;
  std::function<void()> on_connected;  // an engine is ready for its first command; may be empty
};

class Agent {
 public:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;
  using Finished = std::function<void(absl::Status)>;
  // The results of Connect.
  struct Connected {
    std::vector<plan::LinkSpeed> links;
    std::string fingerprint;  // Engine::group_fingerprint
  };

  Agent(AgentOptions options, WorkerMetrics* metrics);
  ~Agent();  // ends the epoch

  void Prepare(const v1::PrepareRequest& request, Done<v1::PrepareResponse> done);

  // Makes rank 0's choices, forms the epoch's group and measures its links. `first` is the stream's
  // first message. Keys this rank sets go to `publish`; the caller delivers the others' to the
  // rendezvous returned and cancels it when the stream breaks.
  absl::StatusOr<std::shared_ptr<RelayRendezvous>> Connect(const v1::ConnectRequest& first,
                                                           RelayRendezvous::Publish publish,
                                                           Done<Connected> finished);

  // Queues one command of the stream `sink`; its event goes to the newest stream that asked for it.
  // A sequence number that is done gets its recorded event again. A stale fence or a gap in the
  // sequence gives ABORTED naming both values: the stream should end with it.
  absl::Status Submit(const std::shared_ptr<EventSink>& sink, const v1::Command& command);
  // No command follows on this stream. It is closed after its last event.
  void EndOfCommands(const std::shared_ptr<EventSink>& sink);

  void SaveShard(const v1::SaveShardRequest& request, Done<v1::SaveShardResponse> done);
  void Abort(const v1::AbortRequest& request, Finished finished);
  void Release(const v1::ReleaseRequest& request, Finished finished);

  // Its lines of the log have numbers above this: the newest before this process first prepared for
  // `job`. Nothing: it never did, or has prepared for another job since.
  std::optional<uint64_t> LogBefore(const std::string& job) const;
  v1::WorkerInspectResponse Inspect() const;
  // Calls `done` with DumpJson on a thread that may wait.
  void Dump(std::function<void(const std::string& json)> done);
  std::string DumpJson() const;  // waits for the device's driver, at most a second

  // The progress that the registry client reports to the controller.
  struct Progress {
    v1::Fence current;  // empty when idle
    uint64_t last_queued_seq = 0;
    uint64_t last_done_seq = 0;
    std::vector<v1::CommandKind> queued = {};  // RegisterRequest.queued
    uint64_t highest_term = 0;                 // of any controller, 0: none
    comm::Progress collectives;                // of the group, once it is formed
    uint64_t work_done = 0;                    // engine::WorkDone
    uint64_t blocks_saved = 0;                 // engine::BlocksSaved
    bool outstanding() const { return last_queued_seq > last_done_seq; }
  };
  Progress progress() const;
  void SeeTerm(uint64_t term);
  void DropEpoch(const std::string& reason);  // as Abort; returns at once

  const AgentOptions& options() const { return options_; }

 private:
  struct Record {  // one command of the epoch, for duplicates and Dump
    uint64_t seq = 0;
    std::string summary = {};
    int64_t queued_unix_ms = 0;
    int64_t begun_unix_ms = 0;  // 0: not yet
    double seconds = 0;
    v1::Event event = {};  // of one that is done
  };
  struct Accepted {
    uint64_t seq = 0;
    v1::CommandKind kind = v1::COMMAND_KIND_UNSPECIFIED;
    uint64_t identity = 0;
    std::string summary;
  };
  // Membership in one epoch. A new epoch replaces the whole object, so that nothing old is mixed
  // in.
  struct Epoch {
    int rank = 0;
    int world_size = 1;
    int shard = 1;           // ranks of a replica
    bool connected = false;  // the engine has its group
    BinLimits limits;
    std::shared_ptr<const MappedTokens> tokens;  // null: commands carry their tokens
    std::shared_ptr<engine::Engine> engine;      // null until prepared
    std::shared_ptr<RelayRendezvous> relay;      // null until connecting
    std::shared_ptr<EventSink> sink;             // newest Run stream
    std::deque<Record> records;                  // newest kRecords that are done, by seq
    std::deque<Record> waiting;                  // queued and not done, by seq
    std::deque<Accepted> accepted;               // those of `records` and newer ones, by seq
    std::string chosen_algorithms;               // of the engine
    uint64_t last_queued_seq = 0;
    uint64_t last_done_seq = 0;
    bool ended = false;  // its results are no longer sent
    // Executor thread: when the engine was last done with something.
    std::optional<std::chrono::steady_clock::time_point> worked_until;
  };
  using EpochPtr = std::shared_ptr<Epoch>;

  // agent.cc
  void Apply(AgentEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Refused(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BeginEpoch(const v1::PrepareRequest& request, Done<v1::PrepareResponse> done);
  absl::StatusOr<v1::PrepareResponse> BuildEngine(const v1::PrepareRequest& request,
                                                  const plan::Plan& plan, const EpochPtr& epoch);
  absl::StatusOr<Connected> FormGroup(const EpochPtr& epoch, const std::string& gemm_table);
  void EndIfDeviceLost(const absl::Status& status) const;
  EpochPtr CloseEpoch(const std::string& reason, AgentEvent event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndEpoch(const std::string& reason);  // control thread
  v1::Error ErrorOf(const absl::Status& status, const Epoch& epoch, const std::string& phase) const;

  // commands.cc
  struct Work;
  absl::StatusOr<Work> Decode(const v1::Command& command, const BinLimits& limits,
                              const MappedTokens* tokens) const;
  void Execute(const EpochPtr& epoch, uint64_t seq, const absl::StatusOr<Work>& work,
               const std::string& phase, const std::string& summary);

  // run_command.cc, on the executor thread
  absl::StatusOr<v1::Done> RunOn(engine::Engine& engine, const Work& work);
  absl::StatusOr<v1::Done> Train(engine::Engine& engine, const engine::TrainStep& step);
  absl::StatusOr<v1::Done> ForwardBackward(engine::Engine& engine,
                                           const engine::GradientBatch& batch);
  absl::StatusOr<v1::Done> Update(engine::Engine& engine, const engine::UpdateStep& update);
  void KeepLast(int64_t step, const engine::StepStats& stats, const engine::MemoryBytes& memory,
                const v1::Done& done);

  void Report(const Epoch& epoch, const v1::Event& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static absl::Status CheckSame(const Epoch& epoch, const v1::Command& command);
  void Resend(const Epoch& epoch, uint64_t seq, EventSink* sink) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const AgentOptions options_;
  WorkerMetrics* const metrics_;

  mutable Mutex mu_;
  EpochGate gate_ ABSL_GUARDED_BY(mu_);
  EpochPtr epoch_ ABSL_GUARDED_BY(mu_);   // null when idle
  EpochPtr newest_ ABSL_GUARDED_BY(mu_);  // also after its end, for Dump
  AgentState state_ ABSL_GUARDED_BY(mu_) = AgentState::kIdle;
  // The fields of the last step only.
  v1::WorkerInspectResponse last_step_ ABSL_GUARDED_BY(mu_);
  engine::MemoryBytes memory_ ABSL_GUARDED_BY(mu_);
  std::string log_job_ ABSL_GUARDED_BY(mu_);  // that Prepare came for last; empty: for none
  uint64_t log_before_ ABSL_GUARDED_BY(mu_) = 0;

  TaskThread teller_;  // of dumps
  TaskThread saver_;
  TaskThread executor_;  // waits for the one before
  TaskThread control_;   // destroyed first: it waits for executor_ and saver_
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_AGENT_H_
