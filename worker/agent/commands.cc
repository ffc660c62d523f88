// Agent: the Run stream's commands, in order, on the executor thread.
#include "worker/agent/commands.h"

#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/kept_answers.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "worker/agent/agent.h"
#include "worker/agent/wire/command_identity.h"
#include "worker/agent/wire/wire.h"

namespace coxswain::agent {
namespace {

int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

// A command that does not decode is the controller's mistake, not the user's.
absl::StatusOr<Agent::Work> Agent::Decode(const v1::Command& command, const BinLimits& limits,
                                          const MappedTokens* tokens) const {
  absl::Status status = absl::InvalidArgumentError("the command has no kind");
  if (command.has_train()) {
    auto step =
        DecodeTrain(command.train(), limits, tokens != nullptr ? tokens->train.get() : nullptr);
    if (step.ok()) return Work{std::move(*step)};
    status = step.status();
  } else if (command.has_forward_backward()) {
    auto batch = DecodeBatch(command.forward_backward(), limits,
                             tokens != nullptr ? tokens->train.get() : nullptr);
    if (batch.ok()) return Work{std::move(*batch)};
    status = batch.status();
  } else if (command.has_update()) {
    auto update = DecodeUpdate(command.update());
    if (update.ok()) return Work{*update};
    status = update.status();
  } else if (command.has_eval()) {
    auto bins =
        DecodeBins(command.eval().bins(), limits, tokens != nullptr ? tokens->eval.get() : nullptr);
    auto documents = DecodeScalars(command.eval().documents());
    if (bins.ok() && documents.ok()) return Work{Work::Eval{std::move(*bins), *documents}};
    status = bins.ok() ? documents.status() : bins.status();
  } else if (command.has_log_probs()) {
    const v1::LogProbs& asked = command.log_probs();
    const data::TokenStore* store = nullptr;
    if (tokens != nullptr) store = asked.held_out() ? tokens->eval.get() : tokens->train.get();
    auto bins = DecodeBins(asked.bins(), limits, store);
    if (bins.ok()) return Work{Work::LogProbs{std::move(*bins), asked.without_adapters()}};
    status = bins.status();
  } else if (command.has_generate()) {
    return Work{FromWire(command.generate())};
  } else if (command.has_load()) {
    return Work{FromWire(command.load())};
  } else if (command.has_snapshot()) {
    return Work{Work::Snapshot{command.snapshot().step()}};
  } else if (command.has_stop()) {
    return Work{Work::Stop{}};
  }
  if (absl::IsOutOfRange(status)) return status;
  return absl::InternalError(
      absl::StrCat("malformed command ", command.seq(), ": ", status.message()));
}

absl::Status Agent::Submit(const std::shared_ptr<EventSink>& sink, const v1::Command& command) {
  BinLimits limits;
  int rank = 0;
  std::shared_ptr<const MappedTokens> tokens;
  {
    MutexLock lock(mu_);
    if (absl::Status status = gate_.Check(command.fence()); !status.ok()) return Refused(status);
    limits = epoch_->limits;
    rank = epoch_->rank;
    tokens = epoch_->tokens;
  }
  if (command.has_train()) {
    RETURN_IF_ERROR(
        fault::Reach(fault::Point::kTrainReceived, {.step = command.train().step(), .rank = rank}));
  }
  auto work = Decode(command, limits, tokens.get());  // while the step before runs

  MutexLock lock(mu_);
  if (absl::Status status = gate_.Check(command.fence()); !status.ok()) return Refused(status);
  Epoch& epoch = *epoch_;
  const bool connected =
      epoch.world_size == 1 || state_ == AgentState::kConnected || state_ == AgentState::kRunning;
  if (epoch.engine == nullptr || !connected) {
    return absl::FailedPreconditionError(
        absl::StrCat("Run: the worker is ", StateName(state_), ", expected ",
                     epoch.world_size == 1 ? "READY or CONNECTED" : "CONNECTED"));
  }
  const uint64_t seq = command.seq();
  if (seq == 0 || seq > epoch.last_queued_seq + 1) {
    return absl::AbortedError(
        absl::StrCat("command sequence number ", seq, ", expected ", epoch.last_queued_seq + 1));
  }
  if (seq <= sink->last_seq) {
    return absl::AbortedError(
        absl::StrCat("command ", seq, " came twice on one stream, expected ", sink->last_seq + 1));
  }
  if (epoch.sink != sink) {
    if (epoch.sink != nullptr) {
      epoch.sink->Close(
          absl::AbortedError("replaced by a newer Run stream of the same gang epoch"));
    }
    epoch.sink = sink;
  }
  if (sink->first_seq == 0) sink->first_seq = seq;
  sink->last_seq = seq;
  if (seq <= epoch.last_queued_seq) RETURN_IF_ERROR(CheckSame(epoch, command));
  if (seq <= epoch.last_done_seq) {
    Resend(epoch, seq, sink.get());
    return absl::OkStatus();
  }
  if (seq <= epoch.last_queued_seq) return absl::OkStatus();  // its event comes when it is done
  epoch.last_queued_seq = seq;
  epoch.waiting.push_back({.seq = seq, .summary = Summary(command), .queued_unix_ms = UnixMs()});
  epoch.accepted.push_back({seq, KindOf(command), IdentityOf(command), Summary(command)});
  while (epoch.accepted.front().seq + kKeptAnswers <= epoch.last_done_seq) {
    epoch.accepted.pop_front();
  }
  Apply(AgentEvent::kCommandQueued);
  executor_.Post([this, epoch = epoch_, seq, work = std::move(work), phase = PhaseOf(command),
                  summary = Summary(command)] { Execute(epoch, seq, work, phase, summary); });
  return absl::OkStatus();
}

// Another controller sends again what it believes that this worker was sent.
absl::Status Agent::CheckSame(const Epoch& epoch, const v1::Command& command) {
  for (const Accepted& before : epoch.accepted) {
    if (before.seq != command.seq() || before.identity == IdentityOf(command)) continue;
    return absl::AbortedError(absl::StrCat("command ", command.seq(), " was ", before.summary,
                                           " and comes again as ", Summary(command)));
  }
  return absl::OkStatus();
}

void Agent::Resend(const Epoch& epoch, uint64_t seq, EventSink* sink) {
  for (const Record& record : epoch.records) {
    if (record.seq != seq) continue;
    v1::Event event = record.event;
    *event.mutable_fence() = *gate_.current();
    sink->Send(event);
    return;
  }
  sink->Close(absl::AbortedError(absl::StrCat("the result of command ", seq,
                                              " is no longer kept, the oldest kept is ",
                                              epoch.records.front().seq)));
}

void Agent::EndOfCommands(const std::shared_ptr<EventSink>& sink) {
  MutexLock lock(mu_);
  sink->half_closed = true;
  const bool waiting = epoch_ != nullptr && epoch_->sink == sink && sink->first_seq != 0 &&
                       epoch_->last_done_seq < sink->last_seq;
  if (!waiting) sink->Close(absl::OkStatus());
}

void Agent::Execute(const EpochPtr& epoch, uint64_t seq, const absl::StatusOr<Work>& work,
                    const std::string& phase, const std::string& summary) {
  std::shared_ptr<engine::Engine> engine;
  {
    MutexLock lock(mu_);
    if (epoch->ended) return;
    engine = epoch->engine;
    epoch->waiting.front().begun_unix_ms = UnixMs();
  }
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> idle = start - epoch->worked_until.value_or(start);
  auto done = work.ok() ? RunOn(*engine, *work) : work.status();
  EndIfDeviceLost(done.status());
  engine = nullptr;
  epoch->worked_until = std::chrono::steady_clock::now();
  const std::chrono::duration<double> took = *epoch->worked_until - start;

  MutexLock lock(mu_);
  if (epoch->ended) return;
  v1::Event event;
  *event.mutable_fence() = *gate_.current();
  event.set_seq(seq);
  if (done.ok()) {
    *event.mutable_done() = std::move(*done);
    event.mutable_done()->set_idle_seconds(idle.count());
    metrics_->CountIdle(idle.count());
  } else {
    *event.mutable_failed() = ErrorOf(done.status(), *epoch, phase);
  }
  epoch->last_done_seq = seq;
  Record& record = epoch->records.emplace_back(std::move(epoch->waiting.front()));
  epoch->waiting.pop_front();
  record.seconds = took.count();
  record.event = event;
  if (epoch->records.size() > kKeptAnswers) epoch->records.pop_front();
  Report(*epoch, event);
  if (done.ok()) {
    const auto* step = std::get_if<engine::TrainStep>(&work->what);
    lock.Unlock();
    if (step != nullptr) {
      fault::Pass(fault::Point::kTrainAnswered, {.step = step->step, .rank = epoch->rank});
    }
    return;
  }
  log::Error("command failed", {{"job", event.fence().job()},
                                {"rank", epoch->rank},
                                {"command", summary},
                                {"error", done.status().ToString()}});
  if (epoch->sink != nullptr) epoch->sink->Close(absl::OkStatus());
  CloseEpoch(absl::StrCat(summary, " failed: ", std::string(done.status().message())),
             AgentEvent::kEpochFailed);
}

// To the newest stream, if the command came on it.
void Agent::Report(const Epoch& epoch, const v1::Event& event) {
  EventSink* sink = epoch.sink.get();
  if (sink == nullptr || event.seq() < sink->first_seq || event.seq() > sink->last_seq) return;
  sink->Send(event);
  if (sink->half_closed && event.seq() == sink->last_seq) sink->Close(absl::OkStatus());
}

void Agent::SaveShard(const v1::SaveShardRequest& request, Done<v1::SaveShardResponse> done) {
  MutexLock lock(mu_);
  if (absl::Status status = gate_.Check(request.fence()); !status.ok()) {
    return done(Refused(status));
  }
  saver_.Post([this, request, epoch = epoch_, done = std::move(done)] {
    std::shared_ptr<engine::Engine> engine;
    {
      MutexLock lock(mu_);
      if (epoch->ended) return done(absl::AbortedError("the gang epoch ended before SaveShard"));
      engine = epoch->engine;
    }
    if (engine == nullptr) return done(absl::FailedPreconditionError("SaveShard: not prepared"));
    const fault::Where where{.step = request.step(), .rank = epoch->rank};
    absl::Status failed = fault::Reach(fault::Point::kShardBegin, where);
    if (!failed.ok()) return done(failed);
    auto files = engine->SaveShard(request.directory(), request.step());
    engine = nullptr;
    EndIfDeviceLost(files.status());
    if (absl::IsCancelled(files.status())) {
      files = absl::AbortedError("the gang epoch ended during SaveShard");
    }
    if (!files.ok()) return done(files.status());
    failed = fault::Reach(fault::Point::kShardWritten, where);
    if (!failed.ok()) return done(failed);
    v1::SaveShardResponse response;
    for (const engine::ShardFile& file : *files) {
      v1::ShardFile* out = response.add_files();
      out->set_name(file.name);
      out->set_bytes(file.blocks.bytes);
      out->set_block_digests(file.blocks.digests);
    }
    done(response);
  });
}

}  // namespace coxswain::agent
