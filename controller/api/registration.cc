#include "controller/api/registration.h"

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/status_macros.h"
#include "controller/api/arguments.h"

namespace coxswain::api {

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

absl::StatusOr<v1::RegisterResponse> Registration::Register(const v1::RegisterRequest& request) {
  RETURN_IF_ERROR(CheckArguments(request));
  RETURN_IF_ERROR(CheckBuild(request.build(), build_));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kRegistryRegister));
  if (registry_->term() == 0) return absl::UnavailableError("the controller is recovering");
  v1::RegisterResponse response;
  ASSIGN_OR_RETURN(*response.mutable_worker_id(), registry_->Register(request));
  response.set_term(registry_->TermFor(request.incarnation()));
  response.set_heartbeat_interval_ms(registry_->times().beat.count());
  *response.mutable_controller_build() = build_;
  return response;
}

absl::StatusOr<v1::HeartbeatResponse> Registration::Beats::OnBeat(
    const v1::HeartbeatRequest& request) {
  RETURN_IF_ERROR(CheckArguments(request));
  incarnation_ = request.incarnation();
  v1::HeartbeatResponse response;
  response.set_register_again(!registry_->Beat(request, number_));
  response.set_term(registry_->TermFor(request.incarnation()));
  return response;
}

}  // namespace coxswain::api
