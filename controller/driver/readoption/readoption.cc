#include "controller/driver/readoption/readoption.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/hash.h"
#include "common/kept_answers.h"
#include "common/status_macros.h"
#include "controller/checkpoint/run_json.h"
#include "controller/driver/preparation/worker_facts.h"

namespace coxswain::driver {
namespace {

absl::StatusOr<std::vector<checkpoint::EvalPoint>> EvalsOf(
    const std::vector<store::EvalRow>& rows) {
  std::vector<checkpoint::EvalPoint> evals;
  try {
    for (const store::EvalRow& row : rows) {
      evals.push_back(checkpoint::EvalFromJson(nlohmann::json::parse(row.point)));
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat("an evaluation cannot be read: ", error.what()));
  }
  return evals;
}

std::string GangName(const v1::Fence& fence) {
  if (fence.job().empty()) return "no gang";
  return absl::StrCat("gang ", fence.epoch(), " of job ", fence.job());
}

}  // namespace

absl::StatusOr<std::optional<Readoption>> Readoption::Find(store::Store* store, const v1::Job& job,
                                                           bool trains) {
  if (job.epoch() == 0) return std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<store::PositionRow> row, store->Position(job.id()));
  if (!row || row->epoch != job.epoch() || row->state.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<store::EpochRow> epochs, store->Epochs(job.id()));
  if (epochs.empty() || epochs.back().epoch != row->epoch || epochs.back().ranks.empty()) {
    return std::nullopt;
  }
  Readoption found;
  found.epoch_ = epochs.back();
  found.taken_ = found.queued_ = row->seq;
  ASSIGN_OR_RETURN(found.plan_bytes_, store->PlanBytes(found.epoch_.plan_hash));
  ASSIGN_OR_RETURN(found.known_, gang::ParseRanks(found.epoch_.ranks));
  if (trains) {
    ASSIGN_OR_RETURN(const std::vector<store::EvalRow> rows, store->Evals(job.id(), row->epoch));
    ASSIGN_OR_RETURN(const std::vector<checkpoint::EvalPoint> evals, EvalsOf(rows));
    ASSIGN_OR_RETURN(found.position_, ParsePosition(row->state, evals));
  } else {
    ASSIGN_OR_RETURN(found.told_, ParseTold(row->state));
  }
  found.workers_.resize(found.known_.size());
  return found;
}

std::string Readoption::Name(size_t rank) const {
  return absl::StrCat("rank ", rank, " (", known_[rank].worker, ")");
}

absl::StatusOr<int> Readoption::Return(const scheduler::Worker& worker) {
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const auto& rank) {
    return rank.worker == worker.target.id || rank.incarnation == worker.target.incarnation;
  });
  if (known == known_.end()) return -1;
  const auto rank = static_cast<size_t>(known - known_.begin());
  if (known->incarnation != worker.target.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        Name(rank), " is another process (", worker.hello.pid(), ") than that of the gang"));
  }
  RETURN_IF_ERROR(CheckReturned(rank, worker.hello));
  if (worker.hello.last_queued_seq() > queued_) {
    queued_ = worker.hello.last_queued_seq();
    sent_.clear();
    const auto behind = static_cast<int>(queued_ - taken_);
    for (int i = worker.hello.queued_size() - behind; i < worker.hello.queued_size(); ++i) {
      sent_.push_back(worker.hello.queued(i));
    }
  }
  workers_[rank] = worker;
  return static_cast<int>(rank);
}

absl::Status Readoption::CheckReturned(size_t rank, const v1::RegisterRequest& hello) const {
  const v1::Fence& fence = hello.current();
  if (fence.job() != epoch_.job || fence.epoch() != epoch_.epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(rank), " is in ", GangName(fence), ", recorded is gang ", epoch_.epoch));
  }
  if (fence.plan_hash() != epoch_.plan_hash) {
    return absl::FailedPreconditionError(absl::StrCat(Name(rank), " has plan ",
                                                      ToHex(fence.plan_hash()), ", recorded is ",
                                                      ToHex(epoch_.plan_hash)));
  }
  if (hello.last_done_seq() < taken_) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(rank), " has done ", hello.last_done_seq(), " commands, recorded are ",
                     taken_, " answers"));
  }
  if (hello.last_done_seq() > taken_ + kKeptAnswers) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(rank), " has done ", hello.last_done_seq(),
                     " commands and keeps the answers of the newest ", kKeptAnswers,
                     "; the gang needs all answers after command ", taken_));
  }
  const uint64_t queued = std::max(hello.last_queued_seq(), taken_);
  if (queued - taken_ > static_cast<uint64_t>(hello.queued_size())) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(rank), " has ", queued, " commands and names the newest ",
                     hello.queued_size(), "; needed are those after command ", taken_));
  }
  return absl::OkStatus();
}

int Readoption::returned() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const auto& worker) { return worker.has_value(); }));
}

std::string Readoption::Missing() const {
  std::vector<std::string> missing;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    if (!workers_[rank]) missing.push_back(Name(rank));
  }
  return absl::StrJoin(missing, ", ");
}

std::vector<std::string> Readoption::Present() const {
  std::vector<std::string> present;
  for (const auto& worker : workers_) {
    if (worker) present.push_back(worker->target.incarnation);
  }
  return present;
}

gang::Gang Readoption::MakeGang(const scheduler::Registry& registry) const {
  gang::Gang gang;
  gang.store = registry.store();
  gang.job = epoch_.job;
  gang.term = registry.term();
  gang.epoch = epoch_.epoch;
  gang.plan_hash = epoch_.plan_hash;
  gang.plan_bytes = plan_bytes_;
  gang.fingerprint = epoch_.fingerprint;
  gang.gemm_table = epoch_.gemm_table;
  gang.start_step = epoch_.start_step;
  gang.applied_updates = position_.run.applied_updates;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    const scheduler::Worker& worker = *workers_[rank];
    gang.ranks.push_back({.target = worker.target,
                          .host = worker.hello.host(),
                          .memory = {},
                          .peak_flops = GpuOfWorker(worker).peak_flops_per_second,
                          .maps_tokens = known_[rank].maps_tokens});
  }
  return gang;
}

}  // namespace coxswain::driver
