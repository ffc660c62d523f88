#include "controller/api/jobs_service.h"

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>

#include "common/grpc_status.h"
#include "common/guarded.h"
#include "controller/api/arguments.h"
#include "controller/api/operations.h"
#include "controller/api/queued_writer.h"

namespace coxswain::api {
namespace {

// `call`, `request` and `response` live until the reactor is finished.
template <typename Request, typename Response, typename Operation>
grpc::ServerUnaryReactor* OnLoop(Context* context, grpc::CallbackServerContext* call,
                                 const char* method, const Request* request, Response* response,
                                 Operation operation) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  const auto began = std::chrono::steady_clock::now();
  Loop* loop = context->deps.loop;
  loop->Post([=] {
    if (!context->jobs->recovered()) {
      reactor->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the controller is recovering"));
      return;
    }
    const auto answered = std::make_shared<bool>(false);
    const Reply<Response> reply = [=](absl::StatusOr<Response> result) {
      *answered = true;
      const grpc::Status status = ToGrpc(result.status());
      if (result.ok()) *response = *std::move(result);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      context->deps.metrics->Rpc(
          method, absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code())),
          took.count());
      reactor->Finish(status);
    };
    if (const absl::Status wrong = CheckArguments(*request); !wrong.ok()) {
      reply(wrong);
      return;
    }
    const absl::Status thrown = Guarded([&] {
      if constexpr (std::is_invocable_v<Operation, Context&, const Request&, Gone,
                                        Reply<Response>>) {
        operation(
            *context, *request, [call] { return call->IsCancelled(); }, reply);
      } else {
        operation(*context, *request, reply);
      }
      return absl::OkStatus();
    });
    if (!thrown.ok() && !*answered) reply(thrown);
  });
  return reactor;
}

template <typename Request, typename Response>
grpc::ServerWriteReactor<Response>* StreamOnLoop(
    Context* context, const Request* request,
    void (*operation)(Context&, const Request&, std::shared_ptr<Sink<Response>>)) {
  Loop* loop = context->deps.loop;
  auto writer = std::make_shared<QueuedWriter<Response>>(loop);
  writer->KeepAlive();
  loop->Post([context, request = *request, writer, operation] {
    if (!context->jobs->recovered()) {
      writer->Finish(absl::UnavailableError("the controller is recovering"));
      return;
    }
    if (const absl::Status wrong = CheckArguments(request); !wrong.ok()) {
      writer->Finish(wrong);
      return;
    }
    const absl::Status thrown = Guarded([&] {
      operation(*context, request, writer);
      return absl::OkStatus();
    });
    if (!thrown.ok()) writer->Finish(thrown);
  });
  return writer.get();
}

}  // namespace

#define COXSWAIN_UNARY(Method, Request, Response)                                              \
  grpc::ServerUnaryReactor* JobsService::Method(                                               \
      grpc::CallbackServerContext* call, const v1::Request* request, v1::Response* response) { \
    return OnLoop(context_, call, #Method, request, response, &api::Method);                   \
  }
#define COXSWAIN_STREAM(Method, Request, Response)                                               \
  grpc::ServerWriteReactor<v1::Response>* JobsService::Method(grpc::CallbackServerContext* call, \
                                                              const v1::Request* request) {      \
    return StreamOnLoop<v1::Request, v1::Response>(context_, request, &api::Method);             \
  }
#include "controller/api/jobs_methods.inc"
#undef COXSWAIN_UNARY
#undef COXSWAIN_STREAM

}  // namespace coxswain::api
