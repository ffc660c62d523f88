#include "controller/api/jobs_service.h"

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/net/grpc_status.h"
#include "controller/api/admission.h"
#include "controller/api/admitted_sink.h"
#include "controller/api/hidden_jobs.h"
#include "controller/api/operations.h"
#include "controller/api/queued_writer.h"
#include "controller/api/upload_reader.h"

namespace coxswain::api {
namespace {

// `request` as a pointer that does not own it: it lives until the reactor is finished.
template <typename Request>
std::shared_ptr<const Request> Borrowed(const Request* request) {
  return {std::shared_ptr<void>(), request};
}

// A job is told with its page. Other answers stay as they are.
template <typename Response>
void NamePage(const Context& context, Response* response) {
  if constexpr (std::is_same_v<Response, v1::Job>) {
    if (context.pages.empty()) return;
    response->set_status_page(absl::StrCat("http://", context.pages, "/jobs/", response->id()));
  }
}

// Runs `operation` with what it takes of a call.
template <typename Request, typename Response, typename Operation>
void Operate(Context& context, const Request& request, const access::Principal& caller,
             grpc::CallbackServerContext* call, const Reply<Response>& reply, Operation operation) {
  if constexpr (std::is_invocable_v<Operation, Context&, const Request&, const access::Principal&,
                                    Gone, Reply<Response>>) {
    operation(
        context, request, caller, [call] { return call->IsCancelled(); }, reply);
  } else if constexpr (std::is_invocable_v<Operation, Context&, const Request&,
                                           const access::Principal&, Reply<Response>>) {
    operation(context, request, caller, reply);
  } else {
    operation(context, request, reply);
  }
}

// A job that was made is the object of its call.
template <typename Request, typename Response>
std::string ObjectOfCall(const Request& request, const Response& response) {
  if constexpr (std::is_same_v<Request, v1::SubmitRequest>) return response.id();
  return ObjectOf(request);
}

// `call`, `request` and `response` live until the reactor is finished.
template <typename Request, typename Response, typename Operation>
grpc::ServerUnaryReactor* OnLoop(Context* context, grpc::CallbackServerContext* call,
                                 const char* method, const Request* request, Response* response,
                                 Operation operation) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  const auto began = std::chrono::steady_clock::now();
  const auto admission = std::make_shared<Admission>(context, absl::StrCat("Jobs.", method), *call);
  Loop* loop = context->deps.loop;
  loop->Post([=] {
    if (!context->jobs->recovered()) {
      reactor->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the controller is recovering"));
      return;
    }
    const auto answered = std::make_shared<bool>(false);
    const auto asked = std::make_shared<std::shared_ptr<const Request>>(Borrowed(request));
    const Reply<Response> reply = [=](absl::StatusOr<Response> result) {
      *answered = true;
      if (admission->entered()) {
        if (result.ok()) {
          HideJobsOf(*context, admission->principal(), &*result);
        } else {
          result = HideJobs(*context, admission->principal(), result.status());
        }
      }
      const Response& made = result.ok() ? *result : Response::default_instance();
      admission->Done(ObjectOfCall(**asked, made), result.status());
      const grpc::Status status = ToGrpc(result.status());
      if (result.ok()) {
        *response = *std::move(result);
        NamePage(*context, response);
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      context->deps.metrics->Rpc(
          method, absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code())),
          took.count());
      reactor->Finish(status);
    };
    absl::StatusOr<std::shared_ptr<const Request>> admitted = admission->Admit(*asked);
    if (!admitted.ok()) {
      reply(admitted.status());
      return;
    }
    *asked = *std::move(admitted);
    const absl::Status thrown = Guarded([&] {
      Operate<Request, Response>(*context, **asked, admission->principal(), call, reply, operation);
      return absl::OkStatus();
    });
    if (!thrown.ok() && !*answered) reply(thrown);
  });
  return reactor;
}

template <typename Request, typename Response>
grpc::ServerWriteReactor<Response>* StreamOnLoop(
    Context* context, grpc::CallbackServerContext* call, const char* method, const Request* request,
    void (*operation)(Context&, const Request&, std::shared_ptr<Sink<Response>>)) {
  const auto admission = std::make_shared<Admission>(context, absl::StrCat("Jobs.", method), *call);
  Loop* loop = context->deps.loop;
  auto writer = std::make_shared<QueuedWriter<Response>>(loop);
  writer->KeepAlive();
  const auto asked = std::make_shared<const Request>(*request);
  loop->Post([context, admission, asked, writer, operation] {
    if (!context->jobs->recovered()) {
      writer->Finish(absl::UnavailableError("the controller is recovering"));
      return;
    }
    const absl::StatusOr<std::shared_ptr<const Request>> admitted = admission->Admit(asked);
    if (!admitted.ok()) {
      writer->Finish(admitted.status());
      return;
    }
    const auto sink = std::make_shared<AdmittedSink<Response>>(context, admission, writer);
    sink->Check();
    const absl::Status thrown = Guarded([&] {
      operation(*context, **admitted, sink);
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
    return StreamOnLoop<v1::Request, v1::Response>(context_, call, #Method, request,             \
                                                   &api::Method);                                \
  }
#include "controller/api/jobs_methods.inc"
#undef COXSWAIN_UNARY
#undef COXSWAIN_STREAM

grpc::ServerReadReactor<v1::UploadRequest>* JobsService::Upload(grpc::CallbackServerContext* call,
                                                                v1::UploadResponse* response) {
  const auto reader = std::make_shared<UploadReader>(context_, call, response);
  reader->Start();
  return reader.get();
}

}  // namespace coxswain::api
