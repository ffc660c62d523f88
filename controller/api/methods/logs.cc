#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

constexpr std::chrono::milliseconds kPoll{200};
constexpr size_t kMaxPending = 4096;  // a client that does not read loses lines beyond this

// One open call: relays lines of the job's workers and the controller's own about the job.
class LogRelay : public std::enable_shared_from_this<LogRelay> {
 public:
  LogRelay(Context* context, std::string job, v1::LogsRequest request,
           std::shared_ptr<Sink<v1::LogLine>> sink)
      : context_(context),
        job_(std::move(job)),
        request_(std::move(request)),
        marker_(absl::StrCat("\"job\":\"", job_, "\"")),
        sink_(std::move(sink)) {}

  void Start() {
    sink_->OnRoom([self = shared_from_this()] {
      if (!self->sink_->open()) self->streams_.clear();
    });
    if (request_.rank() < 0) SendOwn(/*tail=*/true);
    Attach(/*tail=*/true);
    Poll();
  }

 private:
  void Poll() {
    if (!sink_->open()) {
      streams_.clear();
      return;
    }
    if (request_.rank() < 0) SendOwn(/*tail=*/false);
    absl::StatusOr<driver::JobDriver*> job = context_->jobs->Find(job_);
    const bool ended = !job.ok() || state::IsTerminal((*job)->phase());
    if ((!request_.follow() && open_streams_ == 0) || (request_.follow() && ended)) {
      streams_.clear();
      sink_->Finish(absl::OkStatus());
      return;
    }
    if (request_.follow()) Attach(/*tail=*/false);
    context_->deps.loop->After(kPoll, [self = shared_from_this()] { self->Poll(); });
  }

  void SendOwn(bool tail) {
    std::deque<log::Line> lines;
    for (log::Line& line : log::Lines(last_line_)) {
      last_line_ = line.number;
      if (line.json.find(marker_) != std::string::npos) lines.push_back(std::move(line));
    }
    while (tail && static_cast<int64_t>(lines.size()) > request_.tail()) lines.pop_front();
    for (const log::Line& line : lines) {
      v1::LogLine out;
      out.set_time_unix_ms(line.time_unix_ms);
      out.set_rank(-1);
      out.set_level(log::LevelName(line.level));
      out.set_json(line.json);
      Send(out);
    }
  }

  // Opens the streams of the job's present gang, once per epoch.
  void Attach(bool tail) {
    absl::StatusOr<driver::JobDriver*> job = context_->jobs->Find(job_);
    const gang::Gang* gang = job.ok() ? (*job)->gang() : nullptr;
    if (gang == nullptr || gang->epoch == epoch_) return;
    epoch_ = gang->epoch;
    streams_.clear();
    open_streams_ = 0;
    for (int rank = 0; rank < gang->world_size(); ++rank) {
      if (request_.rank() >= 0 && request_.rank() != rank) continue;
      v1::WorkerLogsRequest ask;
      ask.set_tail(tail ? request_.tail() : 0);
      ask.set_follow(request_.follow());
      ask.set_job(job_);
      Incoming<v1::LogLine> incoming;
      const std::weak_ptr<LogRelay> self = weak_from_this();
      incoming.on_message = [self, rank](const v1::LogLine& line) {
        auto relay = self.lock();
        if (!relay) return;
        v1::LogLine out = line;
        out.set_rank(rank);
        relay->Send(out);
      };
      incoming.on_closed = [self](const absl::Status&) {
        if (auto relay = self.lock()) --relay->open_streams_;
      };
      ++open_streams_;
      streams_.push_back(
          context_->deps.transport->Logs(gang->ranks[rank].target, ask, std::move(incoming)));
    }
  }

  void Send(const v1::LogLine& line) {
    if (sink_->open() && sink_->pending() < kMaxPending) sink_->Send(line);
  }

  Context* const context_;
  const std::string job_;
  const v1::LogsRequest request_;
  const std::string marker_;
  const std::shared_ptr<Sink<v1::LogLine>> sink_;
  std::vector<std::unique_ptr<Outgoing<v1::WorkerLogsRequest>>> streams_;
  int open_streams_ = 0;
  uint64_t epoch_ = 0;
  uint64_t last_line_ = 0;
};

}  // namespace

void Logs(Context& context, const v1::LogsRequest& request,
          std::shared_ptr<Sink<v1::LogLine>> sink) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    sink->Finish(job.status());
    return;
  }
  if (request.rank() >= (*job)->job().workers()) {
    sink->Finish(absl::InvalidArgumentError(
        absl::StrCat("rank ", request.rank(), " is not one of the job's ", (*job)->job().workers(),
                     " ranks (0-based; -1: all)")));
    return;
  }
  std::make_shared<LogRelay>(&context, (*job)->job().id(), request, std::move(sink))->Start();
}

}  // namespace coxswain::api
