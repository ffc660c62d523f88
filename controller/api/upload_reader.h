// Upload over gRPC: a client-streaming call that reads as fast as the disk takes it.
#ifndef COXSWAIN_CONTROLLER_API_UPLOAD_READER_H_
#define COXSWAIN_CONTROLLER_API_UPLOAD_READER_H_

#include <memory>
#include <utility>

#include <grpcpp/support/server_callback.h>

#include "controller/api/admission.h"
#include "controller/api/context.h"
#include "controller/api/upload_receiver.h"

namespace coxswain::api {

class UploadReader final : public grpc::ServerReadReactor<v1::UploadRequest>,
                           public std::enable_shared_from_this<UploadReader> {
 public:
  // `call` and `response` live until OnDone.
  UploadReader(Context* context, grpc::CallbackServerContext* call, v1::UploadResponse* response)
      : context_(context),
        call_(call),
        response_(response),
        admission_(context, "Jobs.Upload", *call) {}

  // Once. gRPC lets go of the reactor in OnDone; until then it keeps itself alive.
  void Start();

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void Enter();
  void Next();
  void OnMessage(bool ok);
  void Answer(const absl::StatusOr<v1::UploadResponse>& result);

  Context* const context_;
  grpc::CallbackServerContext* const call_;
  v1::UploadResponse* const response_;
  Admission admission_;
  // Of the loop but for what gRPC reads into `message_`.
  std::shared_ptr<v1::UploadRequest> message_;
  std::shared_ptr<UploadReceiver> receiver_;
  bool finished_ = false;
  std::shared_ptr<UploadReader> self_;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_UPLOAD_READER_H_
