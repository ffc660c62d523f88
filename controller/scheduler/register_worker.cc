// A worker asks to be taken: who is, who is not and why, and what has to be durable before.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "controller/scheduler/registry.h"

namespace coxswain::scheduler {

// What one supervisor starts in a slot replaces what it had there. Two that claim one slot would
// replace each other's for ever.
absl::Status Registry::CheckSlot(const std::string& id, const v1::RegisterRequest& request) const {
  for (const auto& [incarnation, worker] : workers_) {
    if (worker.target.id != id || incarnation == request.incarnation() || IsLost(worker)) continue;
    const bool same = worker.hello.supervisor() == request.supervisor();
    if (same && !request.supervisor().empty()) continue;
    const std::string both =
        absl::StrCat("slot ", request.slot(), " of host ", request.host(),
                     " has a worker that lives at ", worker.target.address, " (process ",
                     worker.hello.pid(), "), and another supervisor started one at ",
                     request.address(), " (process ", request.pid(), ")");
    if (worker.status.draining) return absl::UnavailableError(both + "; the first is leaving");
    return absl::AlreadyExistsError(
        absl::StrCat(both,
                     ": give one of the supervisors another --host-id when they are on two "
                     "machines or in two containers, else another --first-slot (--slot of a "
                     "worker)"));
  }
  return absl::OkStatus();
}

// Epochs and plans of another store mean nothing here. Its controller may be back soon.
absl::Status Registry::CheckStore(const std::string& id, const v1::RegisterRequest& request) const {
  const v1::Fence& current = request.current();
  if (current.job().empty() || current.store() == store_) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "worker ", id, " is in gang ", current.epoch(), " of job ", current.job(),
      " of a controller with store ", current.store(), ", this controller has store ", store_,
      ": it is taken once it has dropped that gang, 60 s after it lost that controller"));
}

// A term that this controller did not give out is one of another start, or of a controller whose
// store was lost: workers refuse what is not above it.
absl::Status Registry::RiseAbove(const std::string& id, const v1::RegisterRequest& request) {
  const uint64_t seen = request.highest_term();  // 0: none
  if (seen == 0 || seen < term_ || (seen == term_ && workers_.contains(request.incarnation()))) {
    return absl::OkStatus();
  }
  if (seen - first_term_ > kMostTermsAhead) {  // whatever others have raised it to
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", id, " has seen controller term ", seen, ", this controller began with term ",
        first_term_, ": it is left out, because no controller of these workers was started ",
        kMostTermsAhead,
        " times meanwhile. A process started anew has seen no term: restart that worker"));
  }
  const uint64_t before = term_;
  ASSIGN_OR_RETURN(term_, listener_.next_term(seen));
  log::Warning("a worker has seen a later start of the controller: was its store restored or lost?",
               {{"worker", id}, {"seen", seen}, {"before", before}, {"term", term_}});
  return absl::OkStatus();
}

absl::Status Registry::Refuse(const std::string& id, const v1::RegisterRequest& request,
                              absl::Status status) {
  RefusedWorker& refused = refused_[id];
  if (refused.reason != status.message()) {
    log::Warning("worker refused", {{"worker", id}, {"error", std::string(status.message())}});
  }
  refused = {
      .hello = request, .reason = std::string(status.message()), .since_ns = loop_->AttentiveNs()};
  return status;
}

absl::StatusOr<std::string> Registry::Register(const v1::RegisterRequest& request) {
  const std::string id = absl::StrCat(request.host(), "/", request.slot());
  RETURN_IF_ERROR(CheckSlot(id, request));
  if (absl::Status status = CheckStore(id, request); !status.ok()) {
    return Refuse(id, request, std::move(status));
  }
  if (absl::Status status = RiseAbove(id, request); !status.ok()) {
    return Refuse(id, request, std::move(status));
  }
  refused_.erase(id);
  for (auto& [incarnation, worker] : workers_) {
    if (worker.target.id == id && incarnation != request.incarnation()) {
      Lose(worker, state::WorkerEvent::kLeaseExpired, "a newer process took its slot");
    }
  }
  Worker& worker = workers_[request.incarnation()];
  worker.hello = request;
  worker.target = {.id = id,
                   .address = request.address(),
                   .incarnation = request.incarnation(),
                   .relay = request.relay_address(),
                   .slot = request.slot(),
                   .supervisor = request.supervisor_address()};
  last_registered_ns_ = loop_->clock().NowNs();
  worker.last_beat_ns = loop_->AttentiveNs();
  if (worker.job.empty()) worker.told_term = term_;
  if (request.has_current()) worker.last_job = request.current().job();
  Apply(worker, state::WorkerEvent::kRegistered);
  ApplyCordons();
  log::Info("worker registered", {{"worker", id},
                                  {"host", request.host()},
                                  {"address", request.address()},
                                  {"device", request.build().device()}});
  if (!worker.job.empty() || worker.status.phase != state::WorkerPhase::kConnected) return id;
  if (!IsAwaited(worker) && !request.current().job().empty()) {
    AbortAndFree(request.incarnation(), request.current(),
                 "the controller restarted: the job goes on in a new gang epoch");
  }
  return id;
}

bool Registry::IsAwaited(Worker& worker) {
  const int rank = listener_.on_registered ? listener_.on_registered(worker) : -1;
  if (rank < 0) return false;
  Apply(worker, state::WorkerEvent::kReturned);
  worker.job = worker.hello.current().job();
  worker.rank = rank;
  return true;
}

}  // namespace coxswain::scheduler
