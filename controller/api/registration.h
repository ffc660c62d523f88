// What the Registry service answers, without what carries it: workers announce themselves and beat.
#ifndef COXSWAIN_CONTROLLER_API_REGISTRATION_H_
#define COXSWAIN_CONTROLLER_API_REGISTRATION_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/scheduler/registry.h"
#include "coxswain/v1/registry_service.pb.h"

namespace coxswain::api {

// FailedPrecondition naming both values when version, commit or protocol differ.
absl::Status CheckBuild(const v1::BuildInfo& worker, const v1::BuildInfo& controller);

// Loop thread only.
class Registration {
 public:
  Registration(scheduler::Registry* registry, v1::BuildInfo build)
      : registry_(registry), build_(std::move(build)) {}

  // InvalidArgument, FailedPrecondition of CheckBuild, Unavailable until the controller has
  // recovered, or what scheduler::Registry::Register says.
  absl::StatusOr<v1::RegisterResponse> Register(const v1::RegisterRequest& request);

  // One heartbeat stream. Its end is the worker's end unless a newer stream took over.
  class Beats {
   public:
    explicit Beats(Registration* registration)
        : registry_(registration->registry_), number_(registry_->OpenBeatStream()) {}
    // InvalidArgument ends the stream.
    absl::StatusOr<v1::HeartbeatResponse> OnBeat(const v1::HeartbeatRequest& request);
    void Ended() { registry_->BeatStreamEnded(incarnation_, number_); }

   private:
    scheduler::Registry* const registry_;
    const uint64_t number_;
    std::string incarnation_;
  };

 private:
  scheduler::Registry* const registry_;
  const v1::BuildInfo build_;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_REGISTRATION_H_
