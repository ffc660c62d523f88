// The registered workers: their identity, whether they live, and the job of each.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_REGISTRY_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_REGISTRY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/runtime/loop.h"
#include "controller/scheduler/cordons.h"
#include "controller/scheduler/host_records.h"
#include "controller/scheduler/worker.h"
#include "controller/state/worker_state.h"
#include "controller/transport/worker_transport.h"
#include "coxswain/v1/registry_service.pb.h"

namespace coxswain::scheduler {

struct LeaseTimes {
  std::chrono::milliseconds beat{1000};
  std::chrono::milliseconds suspect{3000};
  std::chrono::milliseconds lost{5000};
};

class Registry {
 public:
  // A process that has not dropped its epoch within this time is wedged (it gives itself 5 s). Its
  // supervisor is then asked to end it.
  static constexpr std::chrono::seconds kAbortPatience{20};
  // A controller starts fewer times than this between a backup and its restore. A worker with a
  // term further above the store's belongs to another store and is refused.
  static constexpr uint64_t kMostTermsAhead = uint64_t{1} << 20;

  struct Listener {
    std::function<void()> on_free;  // a worker became READY, or one fewer lives
    std::function<void(const Worker&, const std::string& reason)> on_lost;  // had a job
    std::function<void(const Worker&)> on_draining;  // has a job and wants to leave
    // The worker registered and has no job here. Returns its rank in an awaited gang, -1: none.
    std::function<int(const Worker&)> on_registered;
    // Returns a durable term above `seen` (store::Store::NextTerm).
    std::function<absl::StatusOr<uint64_t>(uint64_t seen)> next_term = {};
  };

  Registry(Loop* loop, WorkerTransport* transport, LeaseTimes times);
  void SetListener(Listener listener) { listener_ = std::move(listener); }
  // Sets the id of the controller's store, and the term that the controller took there.
  void Lead(std::string store, uint64_t term) {
    store_ = std::move(store);
    term_ = first_term_ = term;
  }
  const std::string& store() const { return store_; }
  // 0 before Lead. It rises when a worker registers that has seen an equal or higher term of
  // another start.
  uint64_t term() const { return term_; }
  // The term to tell the worker: that of its gang if it has a job, else term().
  uint64_t TermFor(const std::string& incarnation) const;
  const LeaseTimes& times() const { return times_; }

  // Adds the worker, or renews one that reconnects. An older incarnation of the same host and slot
  // is lost. A worker still in a gang is reserved for it if the job awaits the gang; else it is
  // told to abort first. Returns the worker id. Errors:
  //   AlreadyExists       a worker of another supervisor lives in the slot; names both
  //   Unavailable         that worker is about to leave, or the store takes no write
  //   FailedPrecondition  the worker's term is more than kMostTermsAhead above the start's; names
  //   both Aborted             the worker is in a gang of another store; names both stores
  absl::StatusOr<std::string> Register(const v1::RegisterRequest& request);
  // Workers that were refused for their term or store and have not registered since, by worker id.
  const std::map<std::string, RefusedWorker>& refused() const { return refused_; }

  int64_t last_registered_ns() const { return last_registered_ns_; }  // by any worker

  // A heartbeat stream of this controller began; beats and its end carry the number.
  uint64_t OpenBeatStream() { return ++last_stream_; }
  // False: the incarnation is unknown or lost and must register again.
  bool Beat(const v1::HeartbeatRequest& request, uint64_t stream);
  void BeatStreamEnded(const std::string& incarnation, uint64_t stream);

  // Free workers of a device kind in the order of All. None is cordoned.
  std::vector<Worker> Free(const std::string& device) const;
  // Workers of the kind that live and may have a job, free or not.
  int64_t Living(const std::string& device) const;
  // By host, NUMA node, GPU and slot: neighbours in rank are neighbours in the machine, the same
  // after a restart.
  std::vector<Worker> All() const;
  const Worker* Find(const std::string& incarnation) const;
  LinkTable& links() { return links_; }
  // Covered workers keep their job and get no other.
  void SetCordon(Cordon cordon);
  void LiftCordon(const std::string& target);
  const Cordons& cordons() const { return cordons_; }
  double BeatAgeSeconds(const Worker& worker) const { return AgeSeconds(worker.last_beat_ns); }
  double AgeSeconds(int64_t since_ns) const;  // since Loop::AttentiveNs was that

  // Gang admission: worker i gets rank i. FailedPrecondition when one of them is not free; then
  // none is taken.
  absl::Status Reserve(const std::vector<std::string>& incarnations, const std::string& job);
  void StepsStarted(const std::string& incarnation);
  void Released(const std::string& incarnation);
  // Sends Abort with `fence` until the worker confirms that it dropped the epoch. It is then free.
  void AbortAndFree(const std::string& incarnation, const v1::Fence& fence,
                    const std::string& reason);

 private:
  void TellFree();
  void Apply(Worker& worker, state::WorkerEvent event);
  void TakeMemory(Worker& worker);  // of its last beat
  void Lose(Worker& worker, state::WorkerEvent event, const std::string& reason);
  bool IsAwaited(Worker& worker);
  absl::Status CheckSlot(const std::string& id, const v1::RegisterRequest& request) const;
  absl::Status CheckStore(const std::string& id, const v1::RegisterRequest& request) const;
  absl::Status RiseAbove(const std::string& id, const v1::RegisterRequest& request);
  absl::Status Refuse(const std::string& id, const v1::RegisterRequest& request,
                      absl::Status status);
  void EndStrayEpoch(const Worker& worker);
  void ApplyCordons();
  void CheckLeases();
  void JudgeLeases();
  void SendAbort(const std::string& incarnation, const v1::AbortRequest& request);
  void EndLater(const WorkerTarget& worker, const std::string& reason);
  void EndProcess(const WorkerTarget& worker, const std::string& reason);

  Loop* const loop_;
  WorkerTransport* const transport_;
  const LeaseTimes times_;
  Listener listener_;
  std::string store_;
  uint64_t term_ = 0, first_term_ = 0;  // now, at the start
  uint64_t last_stream_ = 0;
  int64_t last_registered_ns_ = 0;
  std::map<std::string, Worker> workers_;         // by incarnation
  std::map<std::string, RefusedWorker> refused_;  // by id
  LinkTable links_;
  Cordons cordons_;
  Lifetime lifetime_;
};

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_REGISTRY_H_
