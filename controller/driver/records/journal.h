// Everything jobs write to the store: batched, in order, durable when asked.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOURNAL_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOURNAL_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "controller/runtime/loop.h"
#include "controller/store/store.h"

namespace coxswain::driver {

// Loop thread only. A lane commits additions together within kDelay, so that the loop does not wait
// for the disk. Flush commits at once, after the commit that the lane has begun. A failed commit is
// kept and tried again. Nothing is reordered.
//
// While the store takes no writes, the backlog is bounded. A job has one row. Beyond kMostEvents
// events the oldest StepDone are dropped. Beyond kMostSteps step rows the oldest are dropped, and
// their replay is not compared. Drops are logged and counted. When the store takes writes again, a
// Warning in each job's history names the missing rows. Changes of state, epochs, checkpoints,
// idempotency keys and all other events are never dropped; a job makes few of them.
class Journal {
 public:
  static constexpr std::chrono::milliseconds kDelay{50};
  static constexpr std::chrono::milliseconds kRetry{1000};
  static constexpr size_t kMostEvents = 8192;
  static constexpr size_t kMostSteps = 16384;

  Journal(Loop* loop, store::Store* store);
  ~Journal();

  // Each joins the next commit. PutJob replaces an uncommitted row of the same job. A row that
  // could not be read stays as it is in the store. DeleteJob removes every row of the job.
  void PutJob(const store::JobRow& row);
  // Replaces an uncommitted position of the same job.
  void PutPosition(store::PositionRow row);
  void DeleteJob(const std::string& job) { Append(&rows_.batch.deleted_jobs, job); }
  void Add(store::EpochRow row) { Append(&rows_.batch.epochs, std::move(row)); }
  void Add(store::PlanRow row) { Append(&rows_.batch.plans, std::move(row)); }
  void Add(store::StepRow row) { Append(&rows_.batch.steps, std::move(row)); }
  void Add(store::CheckpointRow row) { Append(&rows_.batch.checkpoints, std::move(row)); }
  void Add(store::EvalRow row) { Append(&rows_.batch.evals, std::move(row)); }
  void Add(store::LinkRow row) { Append(&rows_.batch.links, std::move(row)); }
  void Add(store::CordonRow row) { Append(&rows_.batch.cordons, std::move(row)); }
  void Add(store::TokenRow row) { Append(&rows_.batch.tokens, std::move(row)); }
  void Add(v1::JobEvent event) { Append(&rows_.batch.events, std::move(event)); }
  // Rows that wait for a commit, without those that are being written.
  const store::Batch& batch() const { return rows_.batch; }
  // On OK every addition is durable.
  absl::Status Flush();
  // For changes that no caller waits for: a failed commit is tried again by itself.
  void FlushOrKeep() { Flush().IgnoreError(); }
  // For changes that a caller waits for. `decide` changes the batch. On OK its additions are
  // durable. Otherwise nothing of them is ever written, and the result is the error of `decide`, or
  // Unavailable with the store's error. `decide` is not called while the store refuses the backlog.
  absl::Status Transact(absl::FunctionRef<absl::Status()> decide);
  // Transact for a new job with its first event. A nonempty key lets a repeated request find the
  // job. AlreadyExists: the job's id is taken.
  absl::Status Submit(const store::JobRow& row, const v1::JobEvent& event,
                      const store::KeyRow& key);

  store::Store* store() const { return store_; }
  // Called after every commit with the jobs that got events.
  void OnEvents(std::function<void(const std::set<std::string>&)> listener) {
    listener_ = std::move(listener);
  }
  void OnCommit(std::function<void(double seconds)> observer) { observer_ = std::move(observer); }
  // Called with the number of events and of step rows that were dropped.
  void OnDropped(std::function<void(int64_t events, int64_t steps)> observer) {
    dropped_observer_ = std::move(observer);
  }

 private:
  struct Rows {  // of one commit
    store::Batch batch;
    std::map<std::string, size_t> job_at;       // place in batch.jobs
    std::map<std::string, size_t> position_at;  // likewise
  };
  class Writing;
  struct Missing {
    int64_t events = 0;
    int64_t steps = 0;
  };
  template <typename Row>
  void Append(std::vector<Row>* rows, Row row) {
    rows->push_back(std::move(row));
    Touch();
  }
  void Touch();  // a commit comes within kDelay
  void CommitAfter(std::chrono::milliseconds delay);
  void Write();           // in the lane
  absl::Status Settle();  // what is being written is durable, or waits again
  void OnWritten(const Rows& rows);
  void PutBack(Rows before);
  void Bound();
  std::vector<v1::JobEvent> TakeLossWarnings(const Rows& written);

  Loop* const loop_;
  store::Store* const store_;
  Rows rows_;                               // that wait
  std::shared_ptr<Writing> writing_;        // null: nothing is
  std::map<std::string, Missing> missing_;  // by job, since the last commit
  bool timer_set_ = false;
  std::function<void(const std::set<std::string>&)> listener_;
  std::function<void(double)> observer_;
  std::function<void(int64_t, int64_t)> dropped_observer_;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOURNAL_H_
