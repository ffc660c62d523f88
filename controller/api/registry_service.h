// The Registry service over gRPC: workers announce themselves and beat.
#ifndef COXSWAIN_CONTROLLER_API_REGISTRY_SERVICE_H_
#define COXSWAIN_CONTROLLER_API_REGISTRY_SERVICE_H_

#include <utility>

#include "controller/api/context.h"
#include "controller/api/registration.h"
#include "controller/runtime/loop.h"
#include "coxswain/v1/registry_service.grpc.pb.h"

namespace coxswain::api {

class RegistryService final : public v1::Registry::CallbackService {
 public:
  // `context` outlives the server.
  RegistryService(Context* context, scheduler::Registry* registry, v1::BuildInfo build)
      : context_(context), loop_(context->deps.loop), registration_(registry, std::move(build)) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* call,
                                     const v1::RegisterRequest* request,
                                     v1::RegisterResponse* response) override;
  grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>* Heartbeat(
      grpc::CallbackServerContext* call) override;

 private:
  Context* const context_;
  Loop* const loop_;
  Registration registration_;  // loop thread only
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_REGISTRY_SERVICE_H_
