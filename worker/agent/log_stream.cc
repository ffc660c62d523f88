#include "worker/agent/log_stream.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "common/logging.h"

namespace coxswain::agent {
namespace {

constexpr int64_t kPollMs = 200;  // how soon a call notices that its caller is gone

}  // namespace

LogStream::LogStream(const v1::WorkerLogsRequest& request, int rank)
    : request_(request), rank_(rank) {
  std::thread([this] { Feed(); }).detach();  // Finish is the last thing it does with this object
}

void LogStream::Feed() {
  std::vector<log::Line> lines = log::Lines(0);
  uint64_t last = lines.empty() ? 0 : lines.back().number;
  const size_t tail = std::min<size_t>(request_.tail(), lines.size());
  lines.erase(lines.begin(), lines.end() - tail);
  bool alive = true;
  while (alive) {
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
  Finish(alive ? grpc::Status::OK : grpc::Status::CANCELLED);
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
