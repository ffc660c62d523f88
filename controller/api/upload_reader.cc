#include "controller/api/upload_reader.h"

#include "common/net/grpc_status.h"

namespace coxswain::api {

void UploadReader::Start() {
  self_ = shared_from_this();
  context_->deps.loop->Post([self = self_] { self->Enter(); });
}

void UploadReader::Enter() {
  if (!context_->jobs->recovered()) {
    Answer(absl::UnavailableError("the controller is recovering"));
  } else if (const absl::Status status = admission_.Enter(""); !status.ok()) {
    Answer(status);
  } else {
    receiver_ = std::make_shared<UploadReceiver>(
        context_, admission_.principal(),
        [weak = weak_from_this()](const absl::StatusOr<v1::UploadResponse>& result) {
          if (const auto self = weak.lock()) self->Answer(result);
        });
    Next();
  }
}

void UploadReader::Next() {
  if (finished_) return;
  message_ = std::make_shared<v1::UploadRequest>();
  StartRead(message_.get());
}

void UploadReader::OnReadDone(bool ok) {
  context_->deps.loop->Post([self = shared_from_this(), ok] { self->OnMessage(ok); });
}

void UploadReader::OnMessage(bool ok) {
  if (finished_) return;
  if (!ok && call_->IsCancelled()) {
    receiver_->Drop();
    Answer(absl::CancelledError("the client is gone"));
  } else if (!ok) {
    receiver_->End();
  } else if (const absl::Status status = admission_.Again(); !status.ok()) {
    receiver_->Drop();
    Answer(status);
  } else {
    receiver_->Take(message_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Next();
    });
  }
}

void UploadReader::OnCancel() {
  context_->deps.loop->Post([self = shared_from_this()] {
    if (self->finished_) return;
    if (self->receiver_) self->receiver_->Drop();
    self->Answer(absl::CancelledError("the client is gone"));
  });
}

void UploadReader::Answer(const absl::StatusOr<v1::UploadResponse>& result) {
  if (finished_) return;
  finished_ = true;
  admission_.Done(result.ok() ? result->path() : "", result.status());
  if (result.ok()) *response_ = *result;
  Finish(ToGrpc(result.status()));
}

void UploadReader::OnDone() {
  // What the receiver holds belongs to the loop.
  context_->deps.loop->Post([self = std::move(self_)] {});
}

}  // namespace coxswain::api
