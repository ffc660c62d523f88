// The Jobs service over gRPC: every call becomes an operation on the loop.
#ifndef COXSWAIN_CONTROLLER_API_JOBS_SERVICE_H_
#define COXSWAIN_CONTROLLER_API_JOBS_SERVICE_H_

#include "controller/api/context.h"
#include "coxswain/v1/jobs_service.grpc.pb.h"

namespace coxswain::api {

class JobsService final : public v1::Jobs::CallbackService {
 public:
  // `context` outlives the server.
  explicit JobsService(Context* context) : context_(context) {}

#define COXSWAIN_UNARY(Method, Request, Response)                                                 \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* call, const v1::Request* request, \
                                   v1::Response* response) override;
#define COXSWAIN_STREAM(Method, Request, Response)                                  \
  grpc::ServerWriteReactor<v1::Response>* Method(grpc::CallbackServerContext* call, \
                                                 const v1::Request* request) override;
#include "controller/api/jobs_methods.inc"
#undef COXSWAIN_UNARY
#undef COXSWAIN_STREAM
  grpc::ServerReadReactor<v1::UploadRequest>* Upload(grpc::CallbackServerContext* call,
                                                     v1::UploadResponse* response) override;

 private:
  Context* const context_;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_JOBS_SERVICE_H_
