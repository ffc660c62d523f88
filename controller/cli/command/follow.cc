#include "controller/cli/command/follow.h"

#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/status_line.h"

namespace coxswain::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRefresh{300};
constexpr std::chrono::seconds kReconnectPatience{60};

// One Watch stream, read on a thread of its own.
class EventFeed {
 public:
  EventFeed(Client* client, const std::string& job, int64_t after_event_id)
      : thread_([this, client, job, after_event_id](const std::stop_token& stop) {
          v1::WatchRequest request;
          request.set_job(job);
          request.set_after_event_id(after_event_id);
          request.set_follow(true);
          const auto take = [this](const v1::JobEvent& event) {
            MutexLock lock(mu_);
            events_.push_back(event);
            changed_.NotifyOne();
            return true;
          };
          absl::Status status = client->Watch(request, take, stop);
          MutexLock lock(mu_);
          status_ = std::move(status);
          ended_ = true;
          changed_.NotifyOne();
        }) {}

  // Events that came, after waiting up to kRefresh for the first.
  std::deque<v1::JobEvent> Take() {
    MutexLock lock(mu_);
    changed_.WaitFor(lock, kRefresh, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !events_.empty() || ended_;
    });
    return std::exchange(events_, {});
  }

  // Set when the stream ended and every event was taken.
  std::optional<absl::Status> End() {
    MutexLock lock(mu_);
    if (!ended_ || !events_.empty()) return std::nullopt;
    return status_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<v1::JobEvent> events_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::jthread thread_;  // last: stops and joins before the rest goes
};

class Follower {
 public:
  Follower(Cox* cox, std::string job, const FollowOptions& options)
      : cox_(cox),
        job_id_(std::move(job)),
        options_(options),
        view_(cox->terminal, options.progress),
        last_event_id_(options.after_event_id),
        start_(Clock::now()) {}

  absl::StatusOr<v1::Job> Run() {
    absl::StatusOr<v1::Job> job = cox_->Server().Get(job_id_);
    if (!job.ok()) return job;
    job_id_ = job->id();
    const std::string page = PageLine(*job, cox_->Server().address());
    if (!page.empty()) view_.Note(page);
    view_.Job(*job);
    absl::Status status = Loop();
    view_.Close();
    if (!status.ok()) return status;
    return cox_->Server().Get(job_id_);
  }

 private:
  absl::Status Loop() {
    for (;;) {
      ASSIGN_OR_RETURN(const bool finished, FollowOneStream());
      if (finished) return absl::OkStatus();
      RETURN_IF_ERROR(Reconnect());
    }
  }

  // True: nothing is left to follow. False: the stream broke.
  absl::StatusOr<bool> FollowOneStream() {
    EventFeed feed(&cox_->Server(), job_id_, last_event_id_);
    Clock::time_point refreshed = Clock::now();
    for (;;) {
      for (const v1::JobEvent& event : feed.Take()) {
        last_event_id_ = event.id();
        view_.Event(event, cox_->now_unix_ms());
        if (options_.on_event && !options_.on_event(event)) return true;
      }
      RETURN_IF_ERROR(CheckLimits());
      const std::optional<absl::Status> end = feed.End();
      if (end.has_value()) return AtEnd(*end);
      if (Clock::now() - refreshed >= kRefresh) {
        refreshed = Clock::now();
        Refresh();
      }
    }
  }

  absl::StatusOr<bool> AtEnd(const absl::Status& end) {
    if (absl::IsUnavailable(end) || absl::IsDeadlineExceeded(end)) return false;
    RETURN_IF_ERROR(end);
    const absl::StatusOr<v1::Job> job = cox_->Server().Get(job_id_);
    if (!job.ok()) return false;
    view_.Job(*job);
    return IsTerminal(job->state());
  }

  void Refresh() {
    const absl::StatusOr<v1::Job> job = cox_->Server().Get(job_id_, std::chrono::seconds(5));
    if (job.ok()) view_.Job(*job);
  }

  absl::Status Reconnect() {
    const Clock::time_point lost = Clock::now();
    view_.Note(absl::StrCat("connection to ", cox_->Server().address(),
                            " lost; waiting for the controller"));
    for (;;) {
      if (WaitForInterrupt(500)) return CheckLimits();
      RETURN_IF_ERROR(CheckLimits());
      cox_->client.reset();  // a restarted controller may have another address
      const absl::StatusOr<v1::Job> job = cox_->Server().Get(job_id_, std::chrono::seconds(5));
      if (job.ok()) return absl::OkStatus();
      const bool gone = absl::IsUnavailable(job.status()) || absl::IsDeadlineExceeded(job.status());
      if (!gone || Clock::now() - lost > kReconnectPatience) return job.status();
    }
  }

  absl::Status CheckLimits() const {
    if (InterruptSignal() != 0) return absl::CancelledError("interrupted");
    if (options_.check) RETURN_IF_ERROR(options_.check());
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_).count();
    if (options_.timeout_ms > 0 && elapsed >= options_.timeout_ms) {
      return absl::DeadlineExceededError(
          absl::StrCat("timeout: ", job_id_, " goes on without cox"));
    }
    return absl::OkStatus();
  }

  Cox* cox_;
  std::string job_id_;
  const FollowOptions& options_;
  ProgressView view_;
  int64_t last_event_id_;
  Clock::time_point start_;
};

}  // namespace

absl::StatusOr<v1::Job> FollowJob(Cox* cox, const std::string& job, const FollowOptions& options) {
  return Follower(cox, job, options).Run();
}

absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(Client* client, const std::string& job) {
  std::vector<v1::JobEvent> events;
  v1::WatchRequest request;
  request.set_job(job);
  RETURN_IF_ERROR(client->Watch(request, [&](const v1::JobEvent& event) {
    events.push_back(event);
    return true;
  }));
  return events;
}

}  // namespace coxswain::cli
