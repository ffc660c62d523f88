// The seam to durable state. SqliteStore in production, MemoryStore in tests and the simulator.
#ifndef COXSWAIN_CONTROLLER_STORE_STORE_H_
#define COXSWAIN_CONTROLLER_STORE_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coxswain/v1/job.pb.h"
#include "coxswain/v1/job_event.pb.h"

namespace coxswain::store {

struct JobRow {
  v1::Job job;               // all that users see; `checkpoints` is left empty here
  std::string base_dir;      // relative paths of the YAML are resolved against it
  int64_t order = 0;         // of submission, unique
  int64_t stop_at_step = 0;  // pause after this many finished steps, 0: run to the end
  int32_t drain_goal = 0;    // v1::JobState while DRAINING
  // While DRAINING, the finished steps after which its gang stops with a checkpoint; kNoDrainStep:
  // it stops without.
  static constexpr int64_t kNoDrainStep = -1;
  int64_t drain_step = kNoDrainStep;
  std::string yields_to = {};  // while DRAINING, the job that preempted it; empty: none did
  // The reason why the row cannot be read; empty: it can. An unreadable row has only `order` and
  // the job's id. It must not be written again, because its bytes are the evidence.
  std::string unreadable = {};
};

// One gang, written before any message carries its number.
struct EpochRow {
  std::string job = {};
  uint64_t epoch = 0;
  uint64_t term = 0;
  std::string plan_hash = {};    // 32 bytes
  std::string fingerprint = {};  // of the ranks, empty until formed
  int32_t world_size = 0;
  int64_t start_step = 0;
  std::string gemm_table = {};  // of the ranks, empty until formed and on the CPU
  // Who they are (controller/gang/gang_ranks.h); empty: written by an older release.
  std::string ranks = {};
};

// An evaluation in the lineage of a gang. The next epoch of a job deletes those of earlier gangs.
struct EvalRow {
  std::string job;
  uint64_t epoch = 0;
  int64_t step = 0;   // finished steps
  std::string point;  // controller/checkpoint/run_json.h
};

// The position of a job's running gang, from which another controller continues with the same
// ranks. One per job. It is written together with the steps and events before it.
struct PositionRow {
  std::string job;
  uint64_t epoch = 0;
  uint64_t seq = 0;   // the newest command whose answers were taken, 0: none
  std::string state;  // of its program; empty: the gang has ended, nothing goes on from it
};

struct PlanRow {
  std::string hash;  // 32 bytes
  std::string bytes;
};

// A committed optimizer step. Bits: the IEEE-754 representation, compared on replay.
struct StepRow {
  std::string job;
  int64_t step = 0;  // 0-based
  uint64_t epoch = 0;
  uint64_t loss_bits = 0;
  uint64_t gnorm_bits = 0;
  int64_t tokens = 0;
  double learning_rate = 0;
  bool superseded = false;  // a later epoch trained the step again
};

struct CheckpointRow {
  std::string job;
  int64_t step = 0;  // finished steps
  uint64_t epoch = 0;
  std::string directory;
  int64_t bytes = 0;
  int64_t committed_unix_ms = 0;
  double eval_loss = 0;
  bool has_eval = false;
  bool deleted = false;  // superseded and removed from storage
};

struct KeyRow {
  std::string key;        // idempotency key of a Submit
  std::string body_hash;  // SHA-256 of the request without the key
  std::string job;
};

// A point of the links measured between the ranks of a kind of gang.
struct LinkRow {
  std::string gang;  // scheduler::GangKind
  int64_t bytes = 0;
  double bytes_per_second = 0;
};

// Workers that get no new job: scheduler::Cordon.
struct CordonRow {
  std::string target = {};
  std::string reason = {};
  int64_t since_unix_ms = 0;
  bool automatic = false;
  bool lifted = false;  // the row goes
};

// A token by which a user or operator calls (controller/access/tokens.h). No row holds the token
// itself.
struct TokenRow {
  std::string id = {};
  std::string user = {};
  std::string role = {};  // access::RoleName
  std::string hash = {};  // SHA-256 of the token, 32 bytes
  int64_t created_unix_ms = 0;
  int64_t expires_unix_ms = 0;  // 0: never
  int64_t revoked_unix_ms = 0;  // 0: it is not
};

// One transaction, written whole or not at all. Rows replace those of the same key, except new
// jobs.
struct Batch {
  std::vector<JobRow> new_jobs;  // their ids are no job's yet, else AlreadyExists
  std::vector<JobRow> jobs;      // of jobs that are there; one that is not, or no more, stays so
  std::vector<EpochRow> epochs;
  std::vector<PlanRow> plans;
  std::vector<EvalRow> evals;
  std::vector<PositionRow> positions;
  std::vector<StepRow> steps;  // rows of the same step and a lower epoch: superseded
  std::vector<CheckpointRow> checkpoints;
  std::vector<KeyRow> keys;
  std::vector<LinkRow> links;
  std::vector<CordonRow> cordons;
  std::vector<TokenRow> tokens;
  std::vector<v1::JobEvent> events;  // id is assigned by Commit: +1 per event of the store
  // Jobs to delete. SweepDeleted later deletes the rest of long histories.
  std::vector<std::string> deleted_jobs;

  bool empty() const {
    return new_jobs.empty() && jobs.empty() && epochs.empty() && plans.empty() && steps.empty() &&
           checkpoints.empty() && keys.empty() && links.empty() && cordons.empty() &&
           tokens.empty() && evals.empty() && positions.empty() && events.empty() &&
           deleted_jobs.empty();
  }
};

// Rows that grow with the life of a job. Thread-safe, for the lanes of the loop. It sees everything
// that Commit made durable before the call.
class History {
 public:
  virtual ~History() = default;

  // Rows not superseded with step >= from_step, by step: one per step. After a rollback those at
  // and beyond the checkpoint are what the replay must reproduce.
  virtual absl::StatusOr<std::vector<StepRow>> Steps(const std::string& job, int64_t from_step) = 0;
  // Events of a job with id > after, by id, at most `limit`. An event of type Unreadable replaces
  // one that cannot be read.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> EventsAfter(const std::string& job,
                                                                int64_t after, int64_t limit) = 0;
  // The `limit` newest events of a job, by id.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> NewestEvents(const std::string& job,
                                                                 int64_t limit) = 0;
};

// Lanes call Commit and the counts of preparations; the loop calls everything else. This is
// thread-safe: a call waits for the previous one. Every error names the store's path.
class Store {
 public:
  virtual ~Store() = default;

  // Drawn when the store was made. It distinguishes its controller from others. Never empty.
  virtual std::string Id() const = 0;
  // Raises the term to 1 above both itself and `seen`, durably, and returns it. Called at every
  // start with 0, and with a term of another start that a worker has seen.
  virtual absl::StatusOr<uint64_t> NextTerm(uint64_t seen) = 0;
  // Durable (fsync) when it returns OK. Unchanged when it fails. AlreadyExists names a new job
  // whose id is taken.
  virtual absl::Status Commit(const Batch& batch) = 0;

  // Removes a bounded part of what deleted jobs have left, durably. True: call it again.
  virtual absl::StatusOr<bool> SweepDeleted() = 0;

  virtual absl::StatusOr<std::vector<JobRow>> Jobs() = 0;  // by order; the unreadable ones too
  virtual absl::StatusOr<std::vector<EpochRow>> Epochs(const std::string& job) = 0;
  virtual absl::StatusOr<std::vector<EvalRow>> Evals(const std::string& job,
                                                     uint64_t epoch) = 0;  // by step
  virtual absl::StatusOr<std::optional<PositionRow>> Position(const std::string& job) = 0;
  virtual absl::StatusOr<std::string> PlanBytes(const std::string& hash) = 0;  // NotFound
  virtual absl::StatusOr<std::vector<CheckpointRow>> Checkpoints(const std::string& job) = 0;
  virtual absl::StatusOr<std::optional<KeyRow>> FindKey(const std::string& key) = 0;
  virtual absl::StatusOr<std::vector<LinkRow>> Links() = 0;      // by gang, then bytes
  virtual absl::StatusOr<std::vector<CordonRow>> Cordons() = 0;  // by target, none lifted
  virtual absl::StatusOr<std::vector<TokenRow>> Tokens() = 0;    // by creation, then id
  // Events of a job with id > after, by id, at most `limit`. An event of type Unreadable replaces
  // one that cannot be read.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> Events(const std::string& job, int64_t after,
                                                           int64_t limit) = 0;
  // Number of preparations of a job in a row that began and did not end. They may have ended the
  // controller.
  virtual absl::StatusOr<int64_t> UnendedPreparations(const std::string& job) = 0;
  // Sets that, durably; 0 also forgets the job. Of another thread than commits.
  virtual absl::Status SetUnendedPreparations(const std::string& job, int64_t count) = 0;
  // OK when a write would succeed now.
  virtual absl::Status CheckWritable() = 0;
  // The history of the same rows lives as long as the store.
  virtual History* history() = 0;
};

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_STORE_H_
