#include "controller/api/registry_service.h"

#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/fault_point.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "controller/api/arguments.h"

namespace coxswain::api {
namespace {

// One heartbeat stream. Its end is the worker's end unless a newer stream took over.
class BeatStream : public grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>,
                   public std::enable_shared_from_this<BeatStream> {
 public:
  BeatStream(Loop* loop, scheduler::Registry* registry) : loop_(loop), registry_(registry) {}

  void Begin() {
    self_ = shared_from_this();
    loop_->Post([self = self_] { self->number_ = self->registry_->OpenBeatStream(); });
    StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      End(grpc::Status::OK);
      return;
    }
    loop_->Post([self = shared_from_this(), request = request_] { self->OnBeat(request); });
    MutexLock lock(mu_);
    if (!finished_) StartRead(&request_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mu_);
    responses_.pop_front();
    if (!ok || finished_) return;
    if (!responses_.empty()) StartWrite(&responses_.front());
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    loop_->Post([self = std::move(self_)] {
      self->registry_->BeatStreamEnded(self->incarnation_, self->number_);
    });
  }

 private:
  void OnBeat(const v1::HeartbeatRequest& request) {
    if (const absl::Status wrong = CheckArguments(request); !wrong.ok()) {
      End(ToGrpc(wrong));
      return;
    }
    incarnation_ = request.incarnation();
    v1::HeartbeatResponse response;
    response.set_register_again(!registry_->Beat(request, number_));
    response.set_term(registry_->term());
    MutexLock lock(mu_);
    if (finished_) return;
    responses_.push_back(std::move(response));
    if (responses_.size() == 1) StartWrite(&responses_.front());
  }
  void End(const grpc::Status& status) {
    MutexLock lock(mu_);
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }

  Loop* const loop_;
  scheduler::Registry* const registry_;
  std::shared_ptr<BeatStream> self_;
  v1::HeartbeatRequest request_;
  uint64_t number_ = 0;  // loop thread only, as the next
  std::string incarnation_;
  Mutex mu_;
  std::deque<v1::HeartbeatResponse> responses_ ABSL_GUARDED_BY(mu_);  // front: being written
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

absl::Status CheckBuild(const v1::BuildInfo& worker, const v1::BuildInfo& controller) {
  const auto differ = [](const char* what, const std::string& theirs, const std::string& ours) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker has ", what, " ", theirs, ", the controller ", ours,
                     ": start workers and controller of one build"));
  };
  if (worker.protocol() != controller.protocol()) {
    return differ("wire protocol", absl::StrCat(worker.protocol()),
                  absl::StrCat(controller.protocol()));
  }
  if (worker.version() != controller.version()) {
    return differ("version", worker.version(), controller.version());
  }
  if (worker.commit() != controller.commit()) {
    return differ("commit", worker.commit(), controller.commit());
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* RegistryService::Register(grpc::CallbackServerContext* call,
                                                    const v1::RegisterRequest* request,
                                                    v1::RegisterResponse* response) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  loop_->Post([this, reactor, request, response] {
    absl::Status status = CheckArguments(*request);
    if (status.ok()) status = CheckBuild(request->build(), build_);
    if (status.ok()) status = fault::Reach(fault::Point::kRegistryRegister);
    if (status.ok() && registry_->term() == 0) {
      status = absl::UnavailableError("the controller is recovering");
    }
    absl::StatusOr<std::string> id = status.ok() ? registry_->Register(*request) : status;
    status = id.status();
    if (status.ok()) {
      response->set_worker_id(*id);
      response->set_term(registry_->term());
      response->set_heartbeat_interval_ms(registry_->times().beat.count());
      *response->mutable_controller_build() = build_;
    }
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>* RegistryService::Heartbeat(
    grpc::CallbackServerContext* call) {
  auto stream = std::make_shared<BeatStream>(loop_, registry_);
  stream->Begin();
  return stream.get();
}

}  // namespace coxswain::api
