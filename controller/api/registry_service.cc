#include "controller/api/registry_service.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/net/grpc_status.h"
#include "controller/api/admission.h"

namespace coxswain::api {
namespace {

// One heartbeat stream. Its end is the worker's end unless a newer stream took over.
class BeatStream : public grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>,
                   public std::enable_shared_from_this<BeatStream> {
 public:
  BeatStream(Context* context, Registration* registration, const grpc::ServerContextBase& call)
      : loop_(context->deps.loop),
        registration_(registration),
        admission_(context, "Registry.Heartbeat", call) {}

  void Begin() {
    self_ = shared_from_this();
    if (const absl::Status entered = admission_.Enter(""); !entered.ok()) {
      End(ToGrpc(entered));
      return;
    }
    loop_->Post([self = self_] { self->beats_.emplace(self->registration_); });
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
      if (self->beats_) self->beats_->Ended();
    });
  }

 private:
  void OnBeat(const v1::HeartbeatRequest& request) {
    absl::StatusOr<v1::HeartbeatResponse> response = beats_->OnBeat(request);
    if (!response.ok()) {
      End(ToGrpc(response.status()));
      return;
    }
    MutexLock lock(mu_);
    if (finished_) return;
    responses_.push_back(*std::move(response));
    if (responses_.size() == 1) StartWrite(&responses_.front());
  }
  void End(const grpc::Status& status) {
    MutexLock lock(mu_);
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }

  Loop* const loop_;
  Registration* const registration_;
  Admission admission_;
  std::shared_ptr<BeatStream> self_;
  v1::HeartbeatRequest request_;
  std::optional<Registration::Beats> beats_;  // loop thread only
  Mutex mu_;
  std::deque<v1::HeartbeatResponse> responses_ ABSL_GUARDED_BY(mu_);  // front: being written
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

grpc::ServerUnaryReactor* RegistryService::Register(grpc::CallbackServerContext* call,
                                                    const v1::RegisterRequest* request,
                                                    v1::RegisterResponse* response) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  const auto admission = std::make_shared<Admission>(context_, "Registry.Register", *call);
  loop_->Post([this, admission, reactor, request, response] {
    const std::string worker = absl::StrCat(request->host(), "/", request->slot());
    const absl::Status entered = admission->Enter(worker);
    absl::StatusOr<v1::RegisterResponse> answer =
        entered.ok() ? registration_.Register(*request) : entered;
    admission->Done(worker, answer.status());
    const absl::Status status = answer.status();
    if (status.ok()) *response = *std::move(answer);
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>* RegistryService::Heartbeat(
    grpc::CallbackServerContext* call) {
  auto stream = std::make_shared<BeatStream>(context_, &registration_, *call);
  stream->Begin();
  return stream.get();
}

}  // namespace coxswain::api
