#include <memory>
#include <utility>

#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

constexpr int64_t kPage = 64;

// One open call. Reads the store from its cursor on, so that no event is missed or sent twice
// however often the client or the controller restarts. Invariant api-2.
class Watcher : public std::enable_shared_from_this<Watcher> {
 public:
  Watcher(Context* context, std::string job, const v1::WatchRequest& request,
          std::shared_ptr<Sink<v1::JobEvent>> sink)
      : context_(context),
        job_(std::move(job)),
        cursor_(request.after_event_id()),
        follow_(request.follow()),
        sink_(std::move(sink)) {}

  void Start() {
    token_ = context_->events->Listen(job_, [self = weak_from_this()] {
      if (auto watcher = self.lock()) watcher->Pump();
    });
    sink_->OnRoom([self = shared_from_this()] { self->Pump(); });  // held by the open call
    context_->deps.journal->Flush().IgnoreError();  // a kept batch is sent after its commit
    Pump();
  }

 private:
  void Pump() {
    while (sink_->open() && sink_->pending() < kPage) {
      auto events = context_->deps.journal->store()->Events(job_, cursor_, kPage);
      if (!events.ok()) {
        sink_->Finish(events.status());
        return;
      }
      for (const v1::JobEvent& event : *events) {
        sink_->Send(event);
        cursor_ = event.id();
      }
      if (!events->empty()) continue;
      if (Ended()) sink_->Finish(absl::OkStatus());
      return;
    }
  }

  bool Ended() {
    if (!follow_) return true;
    absl::StatusOr<driver::JobDriver*> job = context_->jobs->Find(job_);
    return !job.ok() || state::IsTerminal((*job)->phase());
  }

  Context* const context_;
  const std::string job_;
  int64_t cursor_;
  const bool follow_;
  const std::shared_ptr<Sink<v1::JobEvent>> sink_;
  std::shared_ptr<void> token_;
};

}  // namespace

void Watch(Context& context, const v1::WatchRequest& request,
           std::shared_ptr<Sink<v1::JobEvent>> sink) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    sink->Finish(job.status());
    return;
  }
  std::make_shared<Watcher>(&context, (*job)->job().id(), request, std::move(sink))->Start();
}

}  // namespace coxswain::api
