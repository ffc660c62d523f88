#include "worker/agent/registry_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/logging.h"
#include "common/net/grpc_status.h"
#include "common/status_macros.h"
#include "coxswain/v1/registry_service.grpc.pb.h"
#include "worker/agent/wire/wire.h"

namespace coxswain::agent {
namespace {

constexpr std::chrono::milliseconds kFirstBackoff{200};
constexpr std::chrono::milliseconds kLastBackoff{5000};
constexpr std::chrono::seconds kRegisterDeadline{5};

bool Refused(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace

RegistryClient::RegistryClient(RegistryClientOptions options, Agent* agent)
    : options_(std::move(options)), agent_(agent), thread_([this] { Loop(); }) {}

RegistryClient::~RegistryClient() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    if (call_ != nullptr) call_->TryCancel();
    changed_.NotifyAll();
  }
  thread_.join();
}

void RegistryClient::SetDraining() {
  MutexLock lock(mu_);
  draining_ = true;
  changed_.NotifyAll();
}

bool RegistryClient::registered() const {
  MutexLock lock(mu_);
  return registered_;
}

bool RegistryClient::drain_known() const {
  MutexLock lock(mu_);
  return drain_known_;
}

void RegistryClient::SetRegistered(bool registered) {
  {
    MutexLock lock(mu_);
    if (registered_ == registered) return;
    registered_ = registered;
  }
  options_.on_registered(registered);
}

bool RegistryClient::Sleep(std::chrono::milliseconds time, bool wake_on_drain) {
  MutexLock lock(mu_);
  changed_.WaitFor(lock, time, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || (wake_on_drain && draining_ && !draining_told_);
  });
  return !stopping_;
}

// Is it the slot or the join token, and has it been for long enough?
bool RegistryClient::Taken(const absl::Status& status,
                           std::optional<Clock::time_point>* since) const {
  if (!absl::IsAlreadyExists(status) && !absl::IsUnauthenticated(status) &&
      !absl::IsPermissionDenied(status)) {
    since->reset();
    return false;
  }
  if (!*since) *since = Clock::now();
  return Clock::now() - **since >= options_.slot_grace;
}

void RegistryClient::Loop() {
  std::optional<Clock::time_point> lost_since, taken_since;
  std::chrono::milliseconds backoff = kFirstBackoff;
  absl::StatusCode logged = absl::StatusCode::kOk;  // what it waits for, as the log says
  while (true) {
    const absl::Status status = Register();
    if (status.ok()) {
      SetRegistered(true);
      lost_since.reset();
      taken_since.reset();
      backoff = kFirstBackoff;
      logged = absl::StatusCode::kOk;
      Beat();
      SetRegistered(false);
      lost_since = Clock::now();
    } else if (Refused(status) || Taken(status, &taken_since)) {
      log::Error("the controller refuses this worker", {{"error", status.ToString()}});
      options_.on_refused(status);
      return;
    } else if (logged != status.code()) {
      logged = status.code();
      log::Warning("waiting for the controller", {{"error", status.ToString()}});
    }
    if (!Sleep(status.ok() ? std::chrono::milliseconds(0) : backoff, false)) return;
    if (!status.ok()) backoff = std::min(backoff * 2, kLastBackoff);
    if (lost_since && Clock::now() - *lost_since >= options_.controller_grace) {
      lost_since.reset();
      agent_->DropEpoch(
          absl::StrCat("no controller for ", options_.controller_grace.count() / 1000.0, " s"));
    }
  }
}

absl::Status RegistryClient::Register() {
  RETURN_IF_ERROR(fault::Reach(fault::Point::kWorkerRegister));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kRegisterDeadline);
  if (options_.sign) options_.sign(&context);
  {
    MutexLock lock(mu_);
    if (stopping_) return absl::CancelledError("stopping");
    call_ = &context;
  }
  v1::RegisterRequest request = options_.hello;
  const Agent::Progress progress = agent_->progress();
  if (progress.current.epoch() != 0) *request.mutable_current() = progress.current;
  request.set_last_queued_seq(progress.last_queued_seq);
  request.set_last_done_seq(progress.last_done_seq);
  for (const v1::CommandKind kind : progress.queued) request.add_queued(kind);
  request.set_highest_term(progress.highest_term);
  v1::RegisterResponse response;
  const auto stub = v1::Registry::NewStub(options_.channel);
  absl::Status status = FromGrpc(stub->Register(&context, request, &response));
  MutexLock lock(mu_);
  call_ = nullptr;
  if (!status.ok()) return status;
  agent_->SeeTerm(response.term());
  interval_ = std::chrono::milliseconds(std::max<int64_t>(response.heartbeat_interval_ms(), 1));
  log::Info("registered", {{"worker", response.worker_id()},
                           {"term", response.term()},
                           {"address", request.address()}});
  return fault::Reach(fault::Point::kWorkerRegistered);
}

void RegistryClient::Beat() {
  grpc::ClientContext context;
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    call_ = &context;
  }
  if (options_.sign) options_.sign(&context);
  const auto stub = v1::Registry::NewStub(options_.channel);
  auto stream = stub->Heartbeat(&context);
  std::chrono::milliseconds interval;
  do {
    if (!fault::Reach(fault::Point::kWorkerBeat).ok()) {
      context.TryCancel();
      break;
    }
    v1::HeartbeatRequest beat;
    beat.set_incarnation(options_.hello.incarnation());
    const Agent::Progress progress = agent_->progress();
    if (progress.current.epoch() != 0) *beat.mutable_current() = progress.current;
    beat.set_last_queued_seq(progress.last_queued_seq);
    beat.set_last_done_seq(progress.last_done_seq);
    beat.set_work_done(progress.work_done);
    beat.set_blocks_saved(progress.blocks_saved);
    if (progress.current.epoch() == 0 && options_.memory_now) {
      const uint64_t now = options_.memory_now();
      if (now > options_.hello.memory_bytes()) beat.set_memory_bytes(now);
    }
    if (progress.collectives.started > 0)
      *beat.mutable_collectives() = ToWire(progress.collectives);
    {
      MutexLock lock(mu_);
      beat.set_draining(draining_);
      draining_told_ = draining_;
      interval = interval_;
    }
    v1::HeartbeatResponse response;
    if (!stream->Write(beat) || !stream->Read(&response)) break;
    agent_->SeeTerm(response.term());
    if (beat.draining()) {
      MutexLock lock(mu_);
      drain_known_ = true;
    }
    if (response.register_again()) {
      context.TryCancel();
      break;
    }
  } while (Sleep(interval, true));
  {
    MutexLock lock(mu_);
    if (stopping_) context.TryCancel();
  }
  const grpc::Status status = stream->Finish();
  MutexLock lock(mu_);
  call_ = nullptr;
  draining_told_ = false;
  if (!stopping_) log::Warning("heartbeat ended", {{"error", FromGrpc(status).ToString()}});
}

}  // namespace coxswain::agent
