// Everything jobs write to the store: batched, in order, durable when asked.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOURNAL_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOURNAL_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "controller/loop.h"
#include "controller/store/store.h"

namespace coxswain::driver {

// Loop thread only. Additions are committed together within kDelay, in a lane, so that the loop
// does not wait for the disk; or at once by Flush, which waits for what that lane is at. A commit
// that fails is kept as it is and tried again; nothing is reordered.
//
// What waits for a store that takes no writes is bounded: a job has one row; beyond kMostEvents
// events the oldest StepDone go, and beyond kMostSteps step rows the oldest of them (their replay
// is not compared). That is logged and counted, and once the store takes writes again a Warning in
// each job's history says what is missing. Changes of state, epochs, checkpoints, idempotency keys
// and every other event are never dropped; a job makes few of them.
class Journal {
 public:
  static constexpr std::chrono::milliseconds kDelay{50};
  static constexpr std::chrono::milliseconds kRetry{1000};
  static constexpr size_t kMostEvents = 8192;
  static constexpr size_t kMostSteps = 16384;

  Journal(Loop* loop, store::Store* store);
  ~Journal();

  // Each joins the next commit. PutJob replaces an earlier, uncommitted row of the same job; a row
  // that could not be read stays as it is in the store. With DeleteJob every row of the job goes.
  void PutJob(const store::JobRow& row);
  // Replaces an earlier, uncommitted one of the same job.
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
  // What waits for a commit, but for what is being written.
  const store::Batch& batch() const { return rows_.batch; }
  // All that was added is durable when OK comes back.
  absl::Status Flush();
  // For what is not answered: a commit that fails is tried again by itself.
  void FlushOrKeep() { Flush().IgnoreError(); }
  // For what is answered: `decide` changes the batch, and what it added is durable when OK comes
  // back. Else nothing of it is written, then or later: its own error, or Unavailable with the
  // store's. Without a store that takes what waits already `decide` is not called.
  absl::Status Transact(absl::FunctionRef<absl::Status()> decide);
  // Transact of a new job, its first event and, unless its key is empty, what a repeated request
  // finds it by. AlreadyExists: the job's id is taken.
  absl::Status Submit(const store::JobRow& row, const v1::JobEvent& event,
                      const store::KeyRow& key);

  store::Store* store() const { return store_; }
  const absl::Status& last_commit() const { return last_commit_; }
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
  absl::Status last_commit_;
  bool timer_set_ = false;
  std::function<void(const std::set<std::string>&)> listener_;
  std::function<void(double)> observer_;
  std::function<void(int64_t, int64_t)> dropped_observer_;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOURNAL_H_
