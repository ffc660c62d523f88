#include "worker/agent/wire/log_stream.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "common/logging.h"

namespace coxswain::agent {
namespace {

constexpr int64_t kPollMs = 200;  // how soon a call notices that its caller is gone

}  // namespace

LogStream::LogStream(const v1::WorkerLogsRequest& request, int rank, LogBefore before)
    : request_(request), rank_(rank), before_(std::move(before)), early_(!before_()) {
  StartSendInitialMetadata();                // the caller knows that no line is missed from now on
  std::thread([this] { Feed(); }).detach();  // Finish is the last thing it does with this object
}

// A call that follows may come before the Prepare of its job.
bool LogStream::Await() {
  while (!before_()) {
    if (!request_.follow()) return false;
    log::WaitForLines(log::NewestLine(), kPollMs);
    MutexLock lock(mu_);
    if (gone_) return false;
  }
  return true;
}

// Lines are sent when, after they were read, they still are those of the call's job.
void LogStream::Feed() {
  bool alive = Await();
  uint64_t last = before_().value_or(0);
  std::vector<log::Line> lines = log::Lines(last);
  if (!lines.empty()) last = lines.back().number;
  const size_t tail = early_ ? lines.size() : std::min<size_t>(request_.tail(), lines.size());
  lines.erase(lines.begin(), lines.end() - tail);
  while (alive && before_()) {
    for (size_t i = 0; i < lines.size() && alive; ++i) {
      v1::LogLine out;
      out.set_time_unix_ms(lines[i].time_unix_ms);
      out.set_rank(rank_);
      out.set_level(log::LevelName(lines[i].level));
      out.set_json(lines[i].json);
      alive = Send(out);
      last = lines[i].number;
    }
    if (!request_.follow()) break;
    lines = log::WaitForLines(last, kPollMs);
    MutexLock lock(mu_);
    alive = alive && !gone_;
  }
  Finish(alive || !request_.follow() ? grpc::Status::OK : grpc::Status::CANCELLED);
}

bool LogStream::Send(const v1::LogLine& line) {
  {
    MutexLock lock(mu_);
    if (gone_) return false;
    writing_ = true;
  }
  StartWrite(&line);
  MutexLock lock(mu_);
  changed_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !writing_; });
  return !gone_;
}

void LogStream::OnWriteDone(bool ok) {
  MutexLock lock(mu_);
  writing_ = false;
  gone_ = gone_ || !ok;
  changed_.NotifyAll();
}

void LogStream::OnCancel() {
  MutexLock lock(mu_);
  gone_ = true;
}

}  // namespace coxswain::agent
