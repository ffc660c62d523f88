// JobTable: workers that get no new job, by a user's word or because their host failed too often.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/driver/job/job_table.h"
#include "controller/driver/records/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

constexpr size_t kMostReasonBytes = 400;

store::CordonRow RowOf(const scheduler::Cordon& cordon, bool lifted) {
  return {.target = cordon.target,
          .reason = cordon.reason,
          .since_unix_ms = cordon.since_unix_ms,
          .automatic = cordon.automatic,
          .lifted = lifted};
}

bool IsOf(const scheduler::Worker& worker, const std::string& target) {
  return worker.target.id == target || worker.hello.host() == target;
}

}  // namespace

absl::Status JobTable::RestoreCordons() {
  ASSIGN_OR_RETURN(const std::vector<store::CordonRow> rows, deps_.journal->store()->Cordons());
  for (const store::CordonRow& row : rows) {
    deps_.registry->SetCordon({.target = row.target,
                               .reason = row.reason,
                               .since_unix_ms = row.since_unix_ms,
                               .automatic = row.automatic});
  }
  return absl::OkStatus();
}

std::vector<std::string> JobTable::WorkersOf(const std::string& target) const {
  std::vector<std::string> ids;
  for (const scheduler::Worker& worker : deps_.registry->All()) {
    const bool lost = worker.status.phase == state::WorkerPhase::kLost;
    if (!lost && IsOf(worker, target)) ids.push_back(worker.target.id);
  }
  return ids;
}

absl::Status JobTable::NoSuchWorker(const std::string& target) const {
  return absl::NotFoundError(
      absl::StrCat("no worker and no host '", target, "' is registered; cox workers lists them"));
}

absl::Status JobTable::Cordon(const std::string& target, const std::string& reason) {
  if (WorkersOf(target).empty() && deps_.registry->cordons().Find(target) == nullptr) {
    return NoSuchWorker(target);
  }
  const scheduler::Cordon cordon{
      .target = target,
      .reason = reason.empty() ? std::string("by a user") : absl::StrCat("by a user: ", reason),
      .since_unix_ms = deps_.loop->clock().UnixMs()};
  RETURN_IF_ERROR(deps_.journal->Transact([&] {
    deps_.journal->Add(RowOf(cordon, /*lifted=*/false));
    return absl::OkStatus();
  }));
  deps_.registry->SetCordon(cordon);
  log::Info("cordoned", {{"target", target}, {"reason", cordon.reason}});
  Reschedule();  // who waits behind a job that no longer fits need not
  return absl::OkStatus();
}

// A host's takes those of its workers with it.
absl::Status JobTable::Uncordon(const std::string& target) {
  std::vector<scheduler::Cordon> lifted;
  for (const scheduler::Cordon& cordon : deps_.registry->cordons().All()) {
    const bool of_it = cordon.target == target || cordon.target.starts_with(target + "/");
    if (of_it) lifted.push_back(cordon);
  }
  if (lifted.empty()) return NothingToLift(target);
  RETURN_IF_ERROR(deps_.journal->Transact([&] {
    for (const scheduler::Cordon& cordon : lifted) {
      deps_.journal->Add(RowOf(cordon, /*lifted=*/true));
    }
    return absl::OkStatus();
  }));
  for (const scheduler::Cordon& cordon : lifted) deps_.registry->LiftCordon(cordon.target);
  host_failures_.Forget(target);
  log::Info("uncordoned", {{"target", target}});
  Reschedule();
  return absl::OkStatus();
}

absl::Status JobTable::NothingToLift(const std::string& target) const {
  for (const scheduler::Worker& worker : deps_.registry->All()) {
    if (!IsOf(worker, target)) continue;
    const std::string& host = worker.hello.host();
    if (deps_.registry->cordons().Find(host) == nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", target, " is cordoned with its whole host: cox workers uncordon ", host));
  }
  return NoSuchWorker(target);
}

// Whoever it fails tells of it, and no job waits for the host's workers any more.
std::optional<v1::JobEvent> JobTable::HostFailed(const std::string& job, const v1::Error& error) {
  const std::string& host = error.host();
  if (host.empty() || deps_.registry->cordons().Find(host) != nullptr) return std::nullopt;
  if (!host_failures_.Add(host, deps_.loop->clock().NowNs())) return std::nullopt;
  constexpr int kMost = scheduler::HostFailures::kMost;
  const std::string reason =
      CleanText(absl::StrCat(kMost, " failures within an hour, the last of job ", job, ": ",
                             failure::Describe(error)),
                kMostReasonBytes);
  const scheduler::Cordon cordon{.target = host,
                                 .reason = reason,
                                 .since_unix_ms = deps_.loop->clock().UnixMs(),
                                 .automatic = true};
  deps_.journal->Add(RowOf(cordon, /*lifted=*/false));
  deps_.registry->SetCordon(cordon);
  log::Warning("host left out", {{"host", host}, {"reason", reason}});
  Reschedule();
  return HostLeftOutEvent(host, kMost, WorkersOf(host));
}

}  // namespace coxswain::driver
