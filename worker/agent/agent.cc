#include "worker/agent/agent.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/files/hash.h"
#include "common/files/read_file.h"
#include "common/logging.h"
#include "common/plan/checks/plan_bytes.h"
#include "common/status_macros.h"
#include "worker/agent/wire/wire.h"
#include "worker/comm/collectives.h"
#include "worker/engine/commands/work_count.h"
#include "worker/engine/device/device.h"

namespace coxswain::agent {
namespace {

absl::Status CheckPlanHash(const v1::PrepareRequest& request) {
  const std::string actual = plan::PlanHash(request.plan());
  if (actual == request.fence().plan_hash()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the plan's bytes have SHA-256 ", ToHex(actual),
                                                 ", the fence says ",
                                                 ToHex(request.fence().plan_hash())));
}

// Proves that controller and worker see the same storage.
absl::Status CheckNonce(const v1::PrepareRequest& request) {
  if (request.nonce_path().empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> found = ReadFile(request.nonce_path());
  if (found.ok() && *found == request.nonce()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("the controller's file ", request.nonce_path(),
                   found.ok() ? " holds other bytes here" : " cannot be read here",
                   ": output and model must be on storage that controller and workers share"));
}

absl::Status CheckPlace(const v1::PrepareRequest& request, const plan::Plan& plan) {
  if (plan.job != request.fence().job()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan is of job ", plan.job,
                                                   ", the fence of job ", request.fence().job()));
  }
  if (request.world_size() != plan.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat("world size ", request.world_size(),
                                                   ", the plan has ", plan.world_size(), " ranks"));
  }
  if (request.rank() < 0 || request.rank() >= request.world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", request.rank(), " of ", request.world_size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<plan::Plan> ReadPlan(const v1::PrepareRequest& request) {
  RETURN_IF_ERROR(CheckPlanHash(request));
  ASSIGN_OR_RETURN(plan::Plan plan, plan::ParsePlan(request.plan()));
  RETURN_IF_ERROR(CheckPlace(request, plan));
  RETURN_IF_ERROR(CheckNonce(request));
  return plan;
}

}  // namespace

Agent::Agent(AgentOptions options, WorkerMetrics* metrics)
    : options_(std::move(options)), metrics_(metrics), gate_(options_.incarnation) {}

Agent::~Agent() { DropEpoch("the worker is stopping"); }

void Agent::Apply(AgentEvent event) {
  const absl::StatusOr<AgentState> next = Transition(state_, event);
  if (!next.ok()) {
    log::Error("state kept", {{"error", next.status().ToString()}});
    return;
  }
  state_ = *next;
  metrics_->SetState(state_);
}

absl::Status Agent::Refused(absl::Status status) {
  metrics_->CountFenced(gate_.refused());
  return status;
}

v1::Error Agent::ErrorOf(const absl::Status& status, const Epoch& epoch,
                         const std::string& phase) const {
  v1::Error error = ToError(status, phase);
  error.set_rank(epoch.rank);
  error.set_host(options_.host);
  return error;
}

void Agent::EndIfDeviceLost(const absl::Status& status) const {
  if (status.GetPayload(engine::kDeviceLost).has_value()) {
    options_.on_device_lost(std::string(status.message()));
  }
}

void Agent::Prepare(const v1::PrepareRequest& request, Done<v1::PrepareResponse> done) {
  control_.Post([this, request, done = std::move(done)] { BeginEpoch(request, done); });
}

void Agent::BeginEpoch(const v1::PrepareRequest& request, Done<v1::PrepareResponse> done) {
  const absl::Status failed =
      fault::Reach(fault::Point::kPrepareReceived, {.rank = request.rank()});
  if (!failed.ok()) return done(failed);
  bool superseding = false;
  {
    MutexLock lock(mu_);
    const auto check = gate_.CheckOpen(request.fence());
    if (!check.ok()) return done(Refused(check.status()));
    superseding = *check;
  }
  const auto plan = ReadPlan(request);
  if (!plan.ok()) return done(plan.status());
  if (superseding) {
    EndEpoch(absl::StrCat("superseded by gang epoch ", request.fence().epoch(), " of job ",
                          request.fence().job()));
  }
  auto epoch = std::make_shared<Epoch>();
  epoch->rank = request.rank();
  epoch->world_size = request.world_size();
  epoch->shard = plan->shard;
  epoch->limits = {
      plan->model.vocab_size, plan->sequence_len, plan->max_documents_per_bin,
      plan->document_loss.documents_per_unit() + plan->policy_loss.documents_per_unit()};
  {
    MutexLock lock(mu_);
    gate_.Open(request.fence());
    if (log_job_ != request.fence().job()) {
      log_job_ = request.fence().job();
      log_before_ = log::NewestLine();
    }
    epoch_ = newest_ = epoch;
    last_step_.Clear();
    last_step_.set_last_step(-1);
    memory_ = {};
    Apply(AgentEvent::kPrepareStarted);
    metrics_->BeginEpoch(request.fence().job(), request.rank());
  }
  log::Info("preparing", {{"job", request.fence().job()},
                          {"epoch", request.fence().epoch()},
                          {"rank", request.rank()},
                          {"world_size", request.world_size()},
                          {"checkpoint", request.checkpoint_dir()}});
  executor_.Post([this, request, plan = *plan, epoch, done = std::move(done)] {
    done(BuildEngine(request, plan, epoch));
  });
}

absl::StatusOr<v1::PrepareResponse> Agent::BuildEngine(const v1::PrepareRequest& request,
                                                       const plan::Plan& plan,
                                                       const EpochPtr& epoch) {
  auto tokens = MapTokens(request.tokens());
  const absl::Status ready =
      tokens.ok() ? engine::UseGemmTable(request.gemm_table()).status() : tokens.status();
  auto built = ready.ok() ? engine::Engine::Prepare(plan, epoch->rank, request.checkpoint_dir(),
                                                    request.checkpoint_recipe())
                          : ready;
  if (built.ok()) {
    const absl::Status failed = fault::Reach(fault::Point::kPrepared, {.rank = epoch->rank});
    if (!failed.ok()) built = failed;
  }
  EndIfDeviceLost(built.status());
  MutexLock lock(mu_);
  if (epoch->ended) return absl::AbortedError("the gang epoch ended while it was being prepared");
  if (!built.ok()) {
    log::Error("prepare failed", {{"job", request.fence().job()},
                                  {"rank", epoch->rank},
                                  {"error", built.status().ToString()}});
    CloseEpoch(std::string(built.status().message()), AgentEvent::kEpochFailed);
    return built.status();
  }
  epoch->engine = std::move(*built);
  epoch->chosen_algorithms = epoch->engine->chosen_algorithms();
  epoch->tokens = *std::move(tokens);
  memory_ = epoch->engine->memory();
  metrics_->SetMemory(memory_);
  Apply(AgentEvent::kPrepared);
  v1::PrepareResponse response;
  *response.mutable_memory() = ToWire(memory_);
  response.set_fingerprint(epoch->engine->fingerprint());
  response.set_start_step(epoch->engine->start_step());
  response.set_applied_updates(epoch->engine->applied_updates());
  response.set_maps_tokens(epoch->tokens != nullptr);
  if (epoch->rank == 0) response.set_gemm_table(epoch->engine->gemm_table());
  log::Info("prepared", {{"job", request.fence().job()},
                         {"rank", epoch->rank},
                         {"start_step", epoch->engine->start_step()},
                         {"choices", epoch->chosen_algorithms}});
  return response;
}

absl::StatusOr<std::shared_ptr<RelayRendezvous>> Agent::Connect(const v1::ConnectRequest& first,
                                                                RelayRendezvous::Publish publish,
                                                                Done<Connected> finished) {
  MutexLock lock(mu_);
  if (absl::Status status = gate_.Check(first.fence()); !status.ok()) {
    return Refused(status);
  }
  if (epoch_->engine == nullptr || epoch_->relay != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("Connect: the worker is ", StateName(state_), ", expected READY"));
  }
  epoch_->relay = std::make_shared<RelayRendezvous>(std::move(publish));
  executor_.Post([this, epoch = epoch_, table = first.gemm_table(),
                  finished = std::move(finished)] { finished(FormGroup(epoch, table)); });
  return epoch_->relay;
}

absl::StatusOr<Agent::Connected> Agent::FormGroup(const EpochPtr& epoch,
                                                  const std::string& gemm_table) {
  comm::GroupConfig config;
  config.rank = epoch->rank;
  config.world_size = epoch->world_size;
  config.shard = epoch->shard;
  config.interface_address = options_.interface_address;
  config.host_id = options_.host_id;
  config.timeout = options_.collective_timeout;
  std::shared_ptr<engine::Engine> engine;
  {
    MutexLock lock(mu_);
    if (epoch->ended) return absl::AbortedError("the gang epoch ended before it was connected");
    engine = epoch->engine;
  }
  RETURN_IF_ERROR(fault::Reach(fault::Point::kConnectReceived, {.rank = epoch->rank}));
  auto group = comm::Collectives::Form(config, epoch->relay.get());
  absl::Status status = group.ok() ? engine->Connect(std::move(*group)) : group.status();
  if (status.ok() && epoch->rank != 0) status = engine::UseGemmTable(gemm_table).status();
  if (status.ok()) status = fault::Reach(fault::Point::kConnected, {.rank = epoch->rank});
  auto links = status.ok() ? engine->MeasureLinks() : status;
  if (links.ok() && options_.on_connected) options_.on_connected();
  MutexLock lock(mu_);
  if (epoch->ended) return absl::AbortedError("the gang epoch ended while it was being connected");
  if (links.ok()) {
    epoch->connected = true;
    epoch->chosen_algorithms = engine->chosen_algorithms();
    Apply(AgentEvent::kConnected);
    log::Info("connected", {{"rank", epoch->rank}, {"transport", engine->transport()}});
    return Connected{*std::move(links), engine->group_fingerprint()};
  }
  log::Error("connect failed", {{"rank", epoch->rank}, {"error", links.status().ToString()}});
  CloseEpoch(std::string(links.status().message()), AgentEvent::kEpochFailed);
  return links.status();
}

// The epoch's engine goes when its last command has left the executor, and nothing is being saved.
Agent::EpochPtr Agent::CloseEpoch(const std::string& reason, AgentEvent event) {
  EpochPtr epoch = std::move(epoch_);
  epoch_ = nullptr;
  gate_.Close(reason);
  Apply(event);
  if (epoch == nullptr) return nullptr;
  epoch->ended = true;
  if (epoch->relay != nullptr) epoch->relay->Cancel(reason);
  if (epoch->engine != nullptr) epoch->engine->CancelSave();
  executor_.Post([this, epoch] {
    (void)saver_.WaitIdle(options_.abort_deadline);
    std::shared_ptr<engine::Engine> engine;  // destroyed without mu_
    MutexLock lock(mu_);
    engine = std::move(epoch->engine);
  });
  return epoch;
}

void Agent::EndEpoch(const std::string& reason) {
  EpochPtr epoch;
  std::shared_ptr<engine::Engine> engine;
  bool connecting = false;
  {
    MutexLock lock(mu_);
    epoch = CloseEpoch(reason, AgentEvent::kEpochAborted);
    if (epoch != nullptr) {
      engine = epoch->engine;
      connecting = epoch->relay != nullptr;
      if (epoch->sink != nullptr) epoch->sink->Close(absl::AbortedError(reason));
      log::Warning("gang epoch ended", {{"rank", epoch->rank}, {"reason", reason}});
    }
  }
  // Before Connect nothing waits for another rank: a Prepare in progress ends by itself.
  if (epoch != nullptr && engine == nullptr && !connecting) return;
  if (engine != nullptr) {
    engine->Abort();
    engine = nullptr;
  }
  const bool idle =
      executor_.WaitIdle(options_.abort_deadline) && saver_.WaitIdle(std::chrono::milliseconds(0));
  if (!idle) {
    options_.on_abort_deadline(absl::StrCat("the engine did not stop within ",
                                            options_.abort_deadline.count(),
                                            " ms of an abort: ", reason));
    return;
  }
  MutexLock lock(mu_);
  if (epoch_ == nullptr) Apply(AgentEvent::kEngineStopped);
}

void Agent::Abort(const v1::AbortRequest& request, Finished finished) {
  control_.Post([this, request, finished = std::move(finished)] {
    bool current = false;
    {
      MutexLock lock(mu_);
      const auto check = gate_.CheckEnd(request.fence(), request.gang_term());
      if (!check.ok()) return finished(Refused(check.status()));
      current = *check;
    }
    if (current) EndEpoch(absl::StrCat("aborted by the controller: ", request.reason()));
    finished(absl::OkStatus());
  });
}

void Agent::DropEpoch(const std::string& reason) {
  control_.Post([this, reason] {
    {
      MutexLock lock(mu_);
      if (epoch_ == nullptr) return;
    }
    EndEpoch(reason);
  });
}

void Agent::Release(const v1::ReleaseRequest& request, Finished finished) {
  executor_.Post([this, request, finished = std::move(finished)] {
    fault::Pass(fault::Point::kReleased);
    absl::Status status;
    {
      MutexLock lock(mu_);
      const auto check = gate_.CheckEnd(request.fence());
      status = Refused(check.status());
      if (check.ok() && *check) {
        if (epoch_->sink != nullptr) epoch_->sink->Close(absl::OkStatus());
        CloseEpoch("released by the controller", AgentEvent::kReleased);
        log::Info("released", {{"job", request.fence().job()}});
      } else if (check.ok() && epoch_ == nullptr) {
        Apply(AgentEvent::kReleased);
      }
    }
    finished(status);
  });
}

std::optional<uint64_t> Agent::LogBefore(const std::string& job) const {
  MutexLock lock(mu_);
  if (log_job_ != job) return std::nullopt;
  return log_before_;
}

void Agent::SeeTerm(uint64_t term) {
  MutexLock lock(mu_);
  gate_.SeeTerm(term);
}

Agent::Progress Agent::progress() const {
  MutexLock lock(mu_);
  Progress progress;
  progress.highest_term = gate_.highest_term();
  progress.work_done = engine::WorkDone();
  progress.blocks_saved = engine::BlocksSaved();
  if (epoch_ != nullptr) {
    progress.current = *gate_.current();
    progress.last_queued_seq = epoch_->last_queued_seq;
    progress.last_done_seq = epoch_->last_done_seq;
    for (const Accepted& command : epoch_->accepted) progress.queued.push_back(command.kind);
    if (epoch_->connected) progress.collectives = epoch_->engine->collectives();
  }
  return progress;
}

}  // namespace coxswain::agent
