#include "controller/gang/gang_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"

namespace coxswain::gang {
namespace {

constexpr std::chrono::milliseconds kReleaseTimeout{10000};

}  // namespace

GangSession::GangSession(const Deps& deps, Gang gang, SessionEvents events)
    : deps_(deps),
      gang_(std::move(gang)),
      events_(std::move(events)),
      window_(gang_.world_size()),
      errors_(gang_.world_size()),
      pace_(gang_.world_size()),
      heard_ns_(gang_.ranks.size(), deps.loop->clock().NowNs()) {
  gang_.status.world_size = gang_.world_size();
}

void GangSession::Change(state::GangEvent event) {
  if (const auto next = state::Transition(gang_.status, event); next.ok()) gang_.status = *next;
}

void GangSession::Number(uint64_t epoch, std::string plan_hash, std::string plan_bytes,
                         int64_t start_step) {
  gang_.epoch = epoch;
  gang_.plan_hash = std::move(plan_hash);
  gang_.plan_bytes = std::move(plan_bytes);
  gang_.start_step = start_step;
}

void GangSession::Form(FormArgs args) {
  formation_ = std::make_unique<Formation>(
      deps_, &gang_, std::move(args),
      lifetime_.Wrap([this](std::optional<v1::Error> error) { OnFormed(std::move(error)); }),
      events_.told);
  formation_->Start();
}

void GangSession::Readopt(uint64_t taken, uint64_t sent) {
  taken_ = taken;
  window_.GoOnBehind(taken, sent);
  Change(state::GangEvent::kReadopted);
  for (const Rank& rank : gang_.ranks) deps_.registry->StepsStarted(rank.target.incarnation);
}

void GangSession::OnFormed(std::optional<v1::Error> error) {
  // It is in the middle of its callback.
  deps_.loop->Post([formation = std::shared_ptr<Formation>(std::move(formation_))] {});
  if (error) {
    GiveUp(*std::move(error));
    return;
  }
  for (const Rank& rank : gang_.ranks) deps_.registry->StepsStarted(rank.target.incarnation);
  events_.formed();
}

void GangSession::Run(std::shared_ptr<Program> program) {
  program_ = std::move(program);
  answers_ = std::make_shared<AnswerQueue>(deps_.loop, lifetime_.Wrap([this] { TakeAnswers(); }));
  last_progress_ns_ = last_done_ns_ = deps_.loop->clock().NowNs();
  heard_ns_.assign(gang_.ranks.size(), last_progress_ns_);
  for (int rank = 0; rank < gang_.world_size(); ++rank) {
    Incoming<v1::Event> incoming;
    incoming.on_arrival = [queue = answers_, rank](v1::Event event) {
      queue->Push(rank, std::move(event));
    };
    incoming.on_closed = lifetime_.Wrap([this, rank](const absl::Status& status) {
      TakeAnswers();  // what it said before
      RankFailed(rank, absl::UnavailableError(
                           absl::StrCat("its command stream ended: ",
                                        status.ok() ? "closed" : std::string(status.message()))));
    });
    streams_.push_back(deps_.transport->Run(gang_.ranks[rank].target, std::move(incoming)));
  }
  deps_.loop->After(std::chrono::seconds(1), lifetime_.Wrap([this] { CheckHang(); }));
  Pump();
}

void GangSession::GoOn() {
  last_progress_ns_ = deps_.loop->clock().NowNs();
  Pump();
}

void GangSession::Drain(bool with_checkpoint) {
  if (program_ == nullptr || over_) return;
  Change(state::GangEvent::kDrainRequested);
  const std::chrono::milliseconds limit = timing_.DrainLimit(deps_.settings.drain_floor);
  deps_.loop->CancelTimer(drain_timer_);  // one who drains harder begins the time again
  drain_timer_ = deps_.loop->Deadline(limit, lifetime_.Wrap([this, limit] {
    if (window_.empty()) return;  // a checkpoint being written has its own limit
    GiveUp(failure::MakeError(
        absl::DeadlineExceededError(absl::StrCat("outstanding commands did not finish within ",
                                                 limit.count(), " ms of the drain")),
        {.phase = window_.oldest()->phase}));
  }));
  program_->Drain(with_checkpoint);
  Pump();
}

void GangSession::WorkerLost(const std::string& incarnation, const std::string& reason) {
  for (int rank = 0; rank < gang_.world_size(); ++rank) {
    if (gang_.ranks[rank].target.incarnation != incarnation) continue;
    const absl::Status status = absl::UnavailableError(absl::StrCat("worker lost: ", reason));
    if (program_ != nullptr) {
      RankFailed(rank, status);
    } else {
      GiveUp(failure::MakeError(status, {rank, gang_.ranks[rank].host, "form"}));
    }
    return;
  }
}

// `session` lives until the end, whoever lets go of it meanwhile.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void GangSession::Abort(std::shared_ptr<GangSession> session, const std::string& reason) {
  session->over_ = true;
  session->lifetime_.Reset();
  session->Change(state::GangEvent::kAbortRequested);
  const Gang& gang = session->gang_;
  scheduler::Registry* registry = session->deps_.registry;
  for (int rank = 0; rank < gang.world_size(); ++rank) {
    const std::string& incarnation = gang.ranks[rank].target.incarnation;
    if (gang.epoch == 0) {  // reserved, never told
      registry->Released(incarnation);
    } else {
      registry->AbortAndFree(incarnation, gang.FenceOf(rank), reason);
    }
  }
  session->deps_.loop->Post([session] {});  // this may be one of its callbacks
}

// As Abort. NOLINTNEXTLINE(performance-unnecessary-value-param)
void GangSession::Release(std::shared_ptr<GangSession> session) {
  session->over_ = true;
  session->lifetime_.Reset();
  session->Change(state::GangEvent::kFinished);
  const Gang& gang = session->gang_;
  scheduler::Registry* registry = session->deps_.registry;
  for (int rank = 0; rank < gang.world_size(); ++rank) {
    v1::ReleaseRequest request;
    *request.mutable_fence() = gang.FenceOf(rank);
    session->deps_.transport->Release(
        gang.ranks[rank].target, request, kReleaseTimeout,
        [registry, session, rank](const absl::StatusOr<v1::ReleaseResponse>& response) {
          const std::string& incarnation = session->gang_.ranks[rank].target.incarnation;
          const scheduler::Worker* worker = registry->Find(incarnation);
          // Lost and back since, it may serve another job.
          if (worker == nullptr || worker->job != session->gang_.job) return;
          if (response.ok()) {
            registry->Released(incarnation);
          } else {
            registry->AbortAndFree(incarnation, session->gang_.FenceOf(rank), "release failed");
          }
        });
    fault::Pass(fault::Point::kReleaseSent, {.rank = rank});
  }
  session->deps_.loop->Post([session] {});
}

}  // namespace coxswain::gang
