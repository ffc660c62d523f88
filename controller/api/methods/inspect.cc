#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/model/flops.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

constexpr std::chrono::milliseconds kInspectTimeout{2000};
constexpr int64_t kMinIntervalMs = 100;

// One open call: asks every rank of the current gang, live, per refresh.
class Inspector : public std::enable_shared_from_this<Inspector> {
 public:
  Inspector(Context* context, std::string job, int64_t interval_ms,
            std::shared_ptr<Sink<v1::InspectResponse>> sink)
      : context_(context),
        job_(std::move(job)),
        interval_ms_(interval_ms),
        sink_(std::move(sink)) {}

  void Refresh() {
    if (!sink_->open()) return;
    absl::StatusOr<driver::JobDriver*> job = context_->jobs->Find(job_);
    if (!job.ok()) {
      sink_->Finish(job.status());
      return;
    }
    response_ = v1::InspectResponse();
    peak_flops_.clear();
    response_.set_job_state(std::string(state::PhaseName((*job)->phase())));
    response_.set_last_step((*job)->last_step());
    response_.set_loss((*job)->job().progress().loss());
    response_.set_grad_norm((*job)->job().progress().grad_norm());
    const gang::Gang* gang = (*job)->gang();
    outstanding_ = gang == nullptr ? 0 : gang->world_size();
    flops_per_token_ = gang == nullptr ? 0 : (*job)->flops_per_token();
    if (outstanding_ == 0) {
      Deliver();
      return;
    }
    gang::GangPace::Summary pace;
    if ((*job)->pace() != nullptr) pace = (*job)->pace()->summary();
    FillPace(pace);
    for (int rank = 0; rank < gang->world_size(); ++rank) {
      v1::RankStatus* status = response_.add_ranks();
      if (pace.steps > 0) {
        status->set_compute_seconds(pace.ranks[static_cast<size_t>(rank)].compute_seconds);
        status->set_idle_seconds(pace.ranks[static_cast<size_t>(rank)].idle_seconds);
      }
      status->set_rank(rank);
      status->set_worker(gang->ranks[rank].target.id);
      status->set_host(gang->ranks[rank].host);
      peak_flops_.push_back(gang->ranks[rank].peak_flops);
    }
    for (int rank = 0; rank < gang->world_size(); ++rank) {
      context_->deps.transport->Inspect(
          gang->ranks[rank].target, kInspectTimeout,
          [self = shared_from_this(),
           rank](const absl::StatusOr<v1::WorkerInspectResponse>& answer) {
            self->Fill(rank, answer);
          });
    }
  }

 private:
  void FillPace(const gang::GangPace::Summary& summary) {
    v1::GangPace* pace = response_.mutable_pace();
    pace->set_steps(summary.steps);
    pace->set_slowest_rank(summary.slowest);
    pace->set_peer_median_seconds(summary.peer_median_seconds);
    pace->set_control_idle_ratio(summary.control_idle_ratio);
    if (summary.slowest >= 0) {
      pace->set_slowest_seconds(
          summary.ranks[static_cast<size_t>(summary.slowest)].compute_seconds);
    }
  }

  void Fill(int rank, const absl::StatusOr<v1::WorkerInspectResponse>& answer) {
    v1::RankStatus* status = response_.mutable_ranks(rank);
    if (answer.ok()) {
      status->set_device_name(answer->device_name());
      status->set_state(answer->state());
      *status->mutable_memory() = answer->memory();
      *status->mutable_build() = answer->build();
      status->set_last_step(answer->last_step());
      status->set_loss_sum(answer->last_loss_sum());
      status->set_targets(answer->last_targets());
      status->set_tokens(answer->last_tokens());
      status->set_tokens_per_second(answer->tokens_per_second());
      status->set_mfu(model::ModelFlopsUtilisation(flops_per_token_, answer->tokens_per_second(),
                                                   peak_flops_[static_cast<size_t>(rank)]));
      *status->mutable_seconds() = answer->seconds();
      *status->mutable_bin_ids() = answer->last_bin_ids();
      if (rank == 0) {
        response_.set_choices(answer->choices());
        if (answer->has_experts()) *response_.mutable_experts() = answer->experts();
        *response_.mutable_expert_layers() = answer->expert_layers();
      }
    } else {
      status->set_error(std::string(answer.status().message()));
    }
    if (--outstanding_ == 0) Deliver();
  }

  void Deliver() {
    if (!sink_->open()) return;
    sink_->Send(response_);
    if (interval_ms_ <= 0) {
      sink_->Finish(absl::OkStatus());
      return;
    }
    context_->deps.loop->After(std::chrono::milliseconds(std::max(interval_ms_, kMinIntervalMs)),
                               [self = shared_from_this()] { self->Refresh(); });
  }

  Context* const context_;
  const std::string job_;
  const int64_t interval_ms_;
  const std::shared_ptr<Sink<v1::InspectResponse>> sink_;
  v1::InspectResponse response_;
  int outstanding_ = 0;
  double flops_per_token_ = 0;      // of the gang's plan
  std::vector<double> peak_flops_;  // Rank::peak_flops
};

}  // namespace

void Inspect(Context& context, const v1::InspectRequest& request,
             std::shared_ptr<Sink<v1::InspectResponse>> sink) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    sink->Finish(job.status());
    return;
  }
  std::make_shared<Inspector>(&context, (*job)->job().id(), request.interval_ms(), std::move(sink))
      ->Refresh();
}

}  // namespace coxswain::api
