#include "controller/driver/records/make_events.h"

#include <algorithm>
#include <numeric>

#include "common/faults/failure_kind.h"

namespace coxswain::driver {
namespace {

constexpr size_t kRanksInEvents = 64;

v1::JobEvent EventOfType(const char* type) {
  v1::JobEvent event;
  event.set_type(type);
  return event;
}

double Compute(const v1::Done& done) {
  return done.seconds().forward() + done.seconds().backward();
}

// Of large gangs the fastest and the slowest rank only: every step leaves a row in the store.
std::vector<size_t> RanksToRecord(const gang::InFlight& command) {
  std::vector<size_t> ranks(command.results.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (ranks.size() <= kRanksInEvents) return ranks;
  const auto [fastest, slowest] =
      std::minmax_element(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
        return Compute(*command.results[a]) < Compute(*command.results[b]);
      });
  return {*fastest, *slowest};
}

template <typename Detail>
void AddRanks(const Batch& batch, const gang::InFlight& command, Detail* detail) {
  for (const size_t rank : RanksToRecord(command)) {
    const v1::Done& done = *command.results[rank];
    v1::RankStep& step = *detail->add_ranks();
    step.set_rank(static_cast<int32_t>(rank));
    step.set_loss_sum(done.loss_sum());
    step.set_targets(done.targets());
    step.set_tokens(done.tokens());
    step.mutable_bin_ids()->Add(batch.bins[rank].begin(), batch.bins[rank].end());
    *step.mutable_seconds() = done.seconds();
  }
}

}  // namespace

v1::JobEvent WarningEvent() { return EventOfType("Warning"); }

v1::JobEvent AdviceEvent() { return EventOfType("Advice"); }

v1::JobEvent NotComparedWarning(const std::string& fingerprint) {
  v1::JobEvent event = WarningEvent();
  event.mutable_warning()->set_fingerprint(fingerprint);
  return event;
}

v1::JobEvent DroppedWarning(int64_t events, int64_t steps) {
  v1::JobEvent event = WarningEvent();
  event.mutable_warning()->set_dropped_events(events);
  event.mutable_warning()->set_dropped_steps(steps);
  return event;
}

v1::JobEvent ResourcesChosenEvent(const std::string& device, int32_t workers) {
  v1::JobEvent event = EventOfType("ResourcesChosen");
  event.mutable_resources_chosen()->set_device(device);
  event.mutable_resources_chosen()->set_workers(workers);
  return event;
}

v1::JobEvent StateChangedEvent(v1::JobState from, const state::JobStatus& to, state::JobEvent event,
                               const std::vector<std::string>& reserved) {
  v1::JobEvent changed = EventOfType("StateChanged");
  v1::StateChanged& detail = *changed.mutable_state_changed();
  detail.set_from(std::string(state::PhaseName(from)));
  detail.set_to(std::string(state::PhaseName(to.phase)));
  detail.set_event(std::string(state::EventName(event)));
  detail.set_epoch(to.epoch);
  detail.mutable_workers()->Add(reserved.begin(), reserved.end());
  return changed;
}

v1::JobEvent SourceResolvedEvent(const sources::PinnedSource& source) {
  v1::JobEvent event = EventOfType("SourceResolved");
  event.mutable_source_resolved()->set_source(source.source);
  event.mutable_source_resolved()->set_revision(source.revision);
  event.mutable_source_resolved()->set_commit(source.commit);
  return event;
}

v1::JobEvent SourceFetchedEvent(const sources::FetchedSource& fetched) {
  v1::JobEvent event = EventOfType("SourceFetched");
  v1::SourceFetched& detail = *event.mutable_source_fetched();
  detail.set_source(fetched.source);
  detail.set_directory(fetched.directory);
  detail.set_files(fetched.files);
  detail.set_bytes(fetched.bytes);
  detail.set_fetched_bytes(fetched.fetched_bytes);
  detail.set_seconds(fetched.seconds);
  return event;
}

v1::JobEvent DataPreparedEvent(const v1::DatasetSummary& data, int64_t total_steps) {
  v1::JobEvent event = EventOfType("DataPrepared");
  *event.mutable_data_prepared()->mutable_data() = data;
  event.mutable_data_prepared()->set_total_steps(total_steps);
  return event;
}

v1::JobEvent ResumingEvent(int64_t step, const std::string& directory, int64_t extended_steps) {
  v1::JobEvent event = EventOfType("Resuming");
  event.mutable_resuming()->set_step(step);
  event.mutable_resuming()->set_directory(directory);
  if (extended_steps > 0) event.mutable_resuming()->set_extended_steps(extended_steps);
  return event;
}

v1::JobEvent GangFormedEvent(const gang::Gang& gang, const GangPlan& plan) {
  v1::JobEvent event = EventOfType("GangFormed");
  v1::GangFormed& formed = *event.mutable_gang_formed();
  formed.set_epoch(gang.epoch);
  for (const gang::Rank& rank : gang.ranks) formed.add_workers(rank.target.id);
  formed.set_start_step(gang.start_step);
  formed.set_fingerprint(gang.fingerprint);
  for (const plan::LinkSpeed& link : gang.links) {
    v1::LinkSpeed& speed = *formed.add_links();
    speed.set_bytes(link.bytes);
    speed.set_bytes_per_second(link.bytes_per_second);
  }
  v1::PredictedStep& predicted = *formed.mutable_predicted();
  predicted.set_step_seconds(plan.predicted.step_seconds);
  predicted.set_comm_seconds(plan.predicted.comm_seconds);
  predicted.set_exposed_seconds(plan.predicted.exposed_seconds);
  predicted.set_links_measured(plan.links_measured);
  return event;
}

v1::JobEvent GangReadoptedEvent(const gang::Gang& gang, const Readopted& readopted) {
  v1::JobEvent event = EventOfType("GangReadopted");
  v1::GangReadopted& detail = *event.mutable_gang_readopted();
  detail.set_epoch(gang.epoch);
  for (const gang::Rank& rank : gang.ranks) detail.add_workers(rank.target.id);
  detail.set_step(readopted.step);
  detail.set_last_seq(readopted.taken);
  detail.set_queued_seq(readopted.queued);
  return event;
}

v1::JobEvent ReadoptionFailedEvent(uint64_t epoch, const std::string& reason) {
  v1::JobEvent event = EventOfType("ReadoptionFailed");
  event.mutable_readoption_failed()->set_epoch(epoch);
  event.mutable_readoption_failed()->set_reason(reason);
  return event;
}

v1::JobEvent StepDoneEvent(const StepResult& result, const Batch& batch,
                           const gang::InFlight& command, const StepPace& pace) {
  v1::JobEvent event = EventOfType("StepDone");
  v1::StepDone& done = *event.mutable_step_done();
  done.set_step(result.step);
  done.set_total_steps(pace.total_steps);
  done.set_epoch(pace.epoch);
  done.set_loss(result.loss);
  done.set_grad_norm(result.grad_norm);
  done.set_learning_rate(pace.learning_rate);
  done.set_tokens(result.tokens);
  done.set_tokens_per_second(pace.tokens_per_second);
  done.set_seconds(pace.seconds);
  done.set_pass(pace.pass);
  done.set_applied(result.applied);
  if (result.experts) *done.mutable_experts() = *result.experts;
  if (result.preference) *done.mutable_preference() = *result.preference;
  AddRanks(batch, command, &done);
  return event;
}

v1::JobEvent StepSkippedEvent(const StepResult& result, const Batch& batch,
                              const gang::InFlight& command) {
  v1::JobEvent event = EventOfType("StepSkipped");
  event.mutable_step_skipped()->set_step(result.step);
  AddRanks(batch, command, event.mutable_step_skipped());
  return event;
}

v1::JobEvent StragglerEvent(int rank, const gang::Gang& gang, const gang::GangPace::Summary& pace) {
  const gang::Rank& slow = gang.ranks[static_cast<size_t>(rank)];
  v1::JobEvent event = EventOfType("Straggler");
  v1::Straggler& straggler = *event.mutable_straggler();
  straggler.set_rank(rank);
  straggler.set_host(slow.host);
  straggler.set_worker(slow.target.id);
  straggler.set_compute_seconds(pace.ranks[static_cast<size_t>(rank)].compute_seconds);
  straggler.set_peer_median_seconds(pace.peer_median_seconds);
  straggler.set_steps(pace.steps);
  return event;
}

v1::JobEvent ReplayDivergenceEvent(int64_t step, uint64_t epoch, uint64_t before) {
  v1::JobEvent event = EventOfType("ReplayDivergence");
  v1::ReplayDivergence& divergence = *event.mutable_replay_divergence();
  divergence.set_step(step);
  divergence.set_epoch(epoch);
  divergence.set_before(before);
  return event;
}

v1::JobEvent EvalDoneEvent(const checkpoint::EvalPoint& point,
                           const std::optional<v1::Preference>& preference, bool is_best) {
  v1::JobEvent event = EventOfType("EvalDone");
  v1::EvalDone& done = *event.mutable_eval_done();
  done.set_step(point.step);
  done.set_eval_loss(point.loss);
  if (preference) {
    *done.mutable_preference() = *preference;
  } else {
    done.set_eval_perplexity(point.perplexity());
  }
  if (point.token_accuracy) done.set_eval_token_accuracy(*point.token_accuracy);
  done.set_best(is_best);
  return event;
}

v1::JobEvent AnswerWrittenEvent(int32_t prompt, const std::string& piece) {
  v1::JobEvent event = EventOfType("AnswerWritten");
  event.mutable_answer_written()->set_prompt(prompt);
  event.mutable_answer_written()->set_piece(piece);
  return event;
}

v1::JobEvent PromptAnsweredEvent(v1::PromptAnswered answer) {
  v1::JobEvent event = EventOfType("PromptAnswered");
  *event.mutable_prompt_answered() = std::move(answer);
  return event;
}

v1::JobEvent EarlyStoppedEvent(int64_t step, const checkpoint::EvalPoint& best) {
  v1::JobEvent event = EventOfType("EarlyStopped");
  v1::EarlyStopped& stopped = *event.mutable_early_stopped();
  stopped.set_step(step);
  stopped.set_best_step(best.step);
  stopped.set_best_eval_loss(best.loss);
  return event;
}

v1::JobEvent CheckpointCommittedEvent(const v1::CheckpointInfo& info, double seconds) {
  v1::JobEvent event = EventOfType("CheckpointCommitted");
  v1::CheckpointCommitted& committed = *event.mutable_checkpoint_committed();
  committed.set_step(info.step());
  committed.set_directory(info.directory());
  committed.set_bytes(info.bytes());
  committed.set_seconds(seconds);
  return event;
}

v1::JobEvent CheckpointDeletedEvent(int64_t step, const std::string& directory) {
  v1::JobEvent event = EventOfType("CheckpointDeleted");
  event.mutable_checkpoint_deleted()->set_step(step);
  event.mutable_checkpoint_deleted()->set_directory(directory);
  return event;
}

v1::JobEvent CheckpointFailedEvent(int64_t step, const v1::Error& error) {
  v1::JobEvent event = EventOfType("CheckpointFailed");
  v1::CheckpointFailed& failed = *event.mutable_checkpoint_failed();
  failed.set_step(step);
  failed.set_code(error.code());
  failed.set_kind(FailureName(error.kind()));
  return event;
}

v1::JobEvent AttemptFailedEvent(uint64_t epoch, const v1::Error& error) {
  v1::JobEvent event = EventOfType("AttemptFailed");
  v1::AttemptFailed& failed = *event.mutable_attempt_failed();
  failed.set_epoch(epoch);
  failed.set_code(error.code());
  failed.set_kind(FailureName(error.kind()));
  failed.set_rank(error.rank());
  failed.set_host(error.host());
  failed.set_phase(error.phase());
  return event;
}

v1::JobEvent RecoveryStageEvent(state::RecoveryStage stage, uint64_t epoch, double limit_seconds) {
  v1::JobEvent event = EventOfType("RecoveryStage");
  v1::RecoveryStage& detail = *event.mutable_recovery_stage();
  detail.set_stage(std::string(state::StageName(stage)));
  detail.set_epoch(epoch);
  detail.set_limit_seconds(limit_seconds);
  return event;
}

v1::JobEvent HostLeftOutEvent(const std::string& host, int failures,
                              const std::vector<std::string>& workers) {
  v1::JobEvent event = EventOfType("HostLeftOut");
  v1::HostLeftOut& left_out = *event.mutable_host_left_out();
  left_out.set_host(host);
  left_out.set_failures(failures);
  for (const std::string& worker : workers) left_out.add_workers(worker);
  return event;
}

v1::JobEvent PreemptedEvent(const std::string& by, int64_t by_priority, int64_t priority) {
  v1::JobEvent event = EventOfType("Preempted");
  v1::Preempted& preempted = *event.mutable_preempted();
  preempted.set_by(by);
  preempted.set_by_priority(by_priority);
  preempted.set_priority(priority);
  return event;
}

v1::JobEvent IncidentKeptEvent(const incidents::Incident& incident, const std::string& path,
                               const std::vector<int>& odd_ranks) {
  v1::JobEvent event = EventOfType("IncidentKept");
  v1::IncidentKept& kept = *event.mutable_incident_kept();
  kept.set_epoch(incident.epoch);
  kept.set_reason(incidents::NameOf(incident.reason));
  kept.set_path(path);
  kept.mutable_odd_ranks()->Add(odd_ranks.begin(), odd_ranks.end());
  return event;
}

v1::JobEvent ExportedEvent(int64_t step, const ExportedTo& to) {
  v1::JobEvent event = EventOfType("Exported");
  v1::Exported& exported = *event.mutable_exported();
  exported.set_directory(to.directory);
  exported.set_merged_directory(to.merged_directory);
  exported.set_step(step);
  for (const std::string& replaced : to.replaced) exported.add_replaced(replaced);
  for (const Verification& verification : to.verifications) {
    *exported.add_verifications() = ToWire(verification);
  }
  return event;
}

v1::JobEvent ExportFailedEvent(const v1::Error& error) {
  v1::JobEvent event = EventOfType("ExportFailed");
  event.mutable_export_failed()->set_code(error.code());
  event.mutable_export_failed()->set_kind(FailureName(error.kind()));
  return event;
}

v1::JobEvent PushedEvent(const config::PushSpec& where, const PushedTo& to) {
  v1::JobEvent event = EventOfType("Pushed");
  v1::Pushed& pushed = *event.mutable_pushed();
  pushed.set_repository(where.repo);
  pushed.set_revision(where.revision);
  pushed.set_commit(to.commit);
  pushed.set_url(to.url);
  pushed.set_bytes(to.sent_bytes);
  return event;
}

v1::JobEvent PushFailedEvent(const config::PushSpec& where, const v1::Error& error) {
  v1::JobEvent event = EventOfType("PushFailed");
  event.mutable_push_failed()->set_repository(where.repo);
  event.mutable_push_failed()->set_code(error.code());
  return event;
}

}  // namespace coxswain::driver
