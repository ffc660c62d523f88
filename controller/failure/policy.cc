#include "controller/failure/policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/faults/failure_kind.h"

namespace coxswain::failure {
namespace {

using std::chrono::seconds;

// The n-th restart waits 0, 1, 2, 4 ... at most 30 seconds.
seconds Backoff(int restarts) {
  if (restarts <= 1) return seconds(0);
  return seconds(std::min<int64_t>(int64_t{1} << std::min(restarts - 2, 5), 30));
}

// What waits for storage or machines tries again after 5, 10, 20 ... at most 300 seconds.
seconds HeldUp(int times) {
  return seconds(std::min<int64_t>(int64_t{5} << std::min(times, 6), 300));
}

// Why no further attempt is made; empty: one is.
std::string BudgetSpent(const JobFacts& facts) {
  if (facts.restarts_since_checkpoint >= facts.max_restarts) {
    return absl::StrCat(" (gave up after ", facts.max_restarts,
                        " restarts without a new checkpoint, resources.max_restarts)");
  }
  if (facts.restarts >= facts.max_restarts_total) {
    return absl::StrCat(" (gave up after ", facts.max_restarts_total,
                        " restarts in the job's life, resources.max_restarts_total)");
  }
  return "";
}

Verdict Ends(v1::Error error, const std::string& why, const JobFacts& facts) {
  error.set_message(absl::StrCat(error.message(), why));
  return {.course = Course::kEnds,
          .error = std::move(error),
          .reason = facts.restarts == 0
                        ? std::string("failed")
                        : absl::StrCat("failed after ", facts.restarts,
                                       facts.restarts == 1 ? " restart" : " restarts")};
}

Verdict Waits(v1::Error error, const JobFacts& facts) {
  if (facts.set_aside && !facts.draining) {
    return {.course = Course::kWaits,
            .error = std::move(error),
            .reason = "to be tried again from the checkpoint before"};
  }
  std::string reason = absl::StrCat(
      "waits for ", FailureSubject(error.kind()), ": ", error.message(),
      "; it goes on by itself when that is repaired; cox cancel (Ctrl-C in cox train) ends it");
  return {.course = Course::kWaits,
          .error = std::move(error),
          .wait = HeldUp(facts.held_up),
          .reason = facts.draining
                        ? "drained without a checkpoint: the steps since the last one run again"
                        : std::move(reason)};
}

}  // namespace

bool IsWaitedOut(const v1::Error& error) {
  return error.kind() == v1::ERROR_KIND_STORAGE || error.kind() == v1::ERROR_KIND_HOST;
}

bool NeedsDump(const v1::Error& error) {
  return error.kind() == v1::ERROR_KIND_SYSTEM || error.kind() == v1::ERROR_KIND_BUG;
}

v1::Error Whose(v1::Error found, const JobFacts& facts) {
  const bool full = found.code() == "RESOURCE_EXHAUSTED" || found.code() == "DATA_LOSS";
  const bool ours =
      found.phase() == "store" || found.phase() == "tokens" || found.phase() == "fetch";
  const bool disk = ours || (found.phase() == "output" && full);
  const bool passes = disk || facts.set_aside;
  if (IsWaitedOut(found) && !facts.has_trained && !passes) found.set_kind(v1::ERROR_KIND_USER);
  return found;
}

Verdict JudgeAttempt(const v1::Error& found, const JobFacts& facts) {
  v1::Error error = Whose(found, facts);
  if (error.kind() == v1::ERROR_KIND_BUG) return Ends(std::move(error), "", facts);
  if (IsWaitedOut(error)) return Waits(std::move(error), facts);
  if (facts.asked_to_stop && !facts.draining) {
    return {.course = Course::kWaits,
            .error = std::move(error),
            .reason = "its gang was ended by a user: it goes on from its last checkpoint"};
  }
  if (!facts.draining) {
    if (error.kind() == v1::ERROR_KIND_USER) return Ends(std::move(error), "", facts);
    if (const std::string spent = BudgetSpent(facts); !spent.empty()) {
      return Ends(std::move(error), spent, facts);
    }
  }
  return {
      .course = Course::kTriesAgain,
      .error = std::move(error),
      .wait = Backoff(facts.restarts_since_checkpoint + 1),
      .reason = facts.draining ? "drained by force" : "to be tried again from the last checkpoint"};
}

Verdict JudgePreparation(const v1::Error& found, const JobFacts& facts) {
  v1::Error error = Whose(found, facts);
  if (IsWaitedOut(error)) return Waits(std::move(error), facts);
  return Ends(std::move(error), "", facts);
}

Verdict JudgeExport(const v1::Error& found, const JobFacts& facts) {
  if (IsWaitedOut(found)) return Waits(found, facts);
  return Ends(found, "", facts);
}

bool CostsOnlyTheCheckpoint(const v1::Error& error, const SaveFacts& facts) {
  if (error.kind() != v1::ERROR_KIND_STORAGE) return false;
  return facts.cancelled || (!facts.is_best && !facts.is_last);
}

}  // namespace coxswain::failure
