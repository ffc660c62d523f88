// How one call is let in: who makes it, may they, and on which of the jobs.
#ifndef COXSWAIN_CONTROLLER_API_ADMISSION_H_
#define COXSWAIN_CONTROLLER_API_ADMISSION_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/access/door.h"
#include "common/access/method_table.h"
#include "common/status_macros.h"
#include "controller/access/audit_log.h"
#include "controller/api/arguments.h"
#include "controller/api/context.h"

namespace coxswain::api {

// The job, worker or token that a request is about; empty where it is about none.
template <typename Request>
std::string ObjectOf(const Request& request) {
  if constexpr (requires { request.job(); }) return request.job();
  if constexpr (requires { request.target(); }) return request.target();
  if constexpr (requires { request.user(); }) return request.user();
  if constexpr (requires { request.id(); }) return request.id();
  return {};
}

// Made on gRPC's thread, from what the call brings along; used there, then on the loop.
class Admission {
 public:
  Admission(Context* context, std::string method, const grpc::ServerContextBase& call)
      : context_(context), method_(std::move(method)), call_(access::ReadCallCredentials(call)) {}

  // Unauthenticated or PermissionDenied, which is then in the audit log with `object`.
  absl::Status Enter(const std::string& object) {
    absl::StatusOr<access::Principal> caller = context_->door->Identify(call_);
    absl::Status status = caller.status();
    if (caller.ok()) {
      principal_ = *std::move(caller);
      status = context_->door->Check(*principal_, method_);
    }
    entered_ = status.ok();
    if (!entered_) Record(object, status);
    return status;
  }

  // Enters. The request as its operation may take it: as it came, or, of a user, about the one of
  // that user's own jobs that it names. Errors as Enter and CheckArguments; NotFound for a job of
  // another as for one that is not there.
  template <typename Request>
  absl::StatusOr<std::shared_ptr<const Request>> Admit(
      const std::shared_ptr<const Request>& request) {
    RETURN_IF_ERROR(Enter(ObjectOf(*request)));
    ASSIGN_OR_RETURN(const std::shared_ptr<const Request> own, Own(request));
    RETURN_IF_ERROR(CheckArguments(*own));
    return own;
  }

  bool entered() const { return entered_; }
  // Once it has entered.
  const access::Principal& principal() const { return *principal_; }

  // Of a stream that is open: whether its caller would still be let in.
  absl::Status Again() const { return context_->door->Admit(call_, method_).status(); }

  // What came of a call; of one that did not enter, and of reading, nothing is recorded.
  void Done(const std::string& object, const absl::Status& result) const {
    if (entered_ && access::FindMethod(method_)->mutates) Record(object, result);
  }

 private:
  template <typename Request>
  absl::StatusOr<std::shared_ptr<const Request>> Own(
      const std::shared_ptr<const Request>& request) {
    if constexpr (requires { request->job(); }) {
      const bool any_job = !access::FindMethod(method_)->own_job;
      if (any_job || principal_->role != access::Role::kUser) return request;
      ASSIGN_OR_RETURN(const driver::JobDriver* job,
                       context_->jobs->Find(request->job(), principal_->name));
      auto own = std::make_shared<Request>(*request);
      own->set_job(job->job().id());
      return own;
    }
    return request;
  }

  void Record(const std::string& object, const absl::Status& result) const {
    if (context_->audit == nullptr) return;
    context_->audit->Add({.time_unix_ms = context_->deps.loop->clock().UnixMs(),
                          .principal = principal_,
                          .peer = call_.peer,
                          .method = method_,
                          .object = object,
                          .result = result});
  }

  Context* const context_;
  const std::string method_;
  const access::CallCredentials call_;
  std::optional<access::Principal> principal_;  // once it is known
  bool entered_ = false;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_ADMISSION_H_
