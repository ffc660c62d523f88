#include "controller/api/upload_receiver.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/status_macros.h"
#include "controller/api/arguments.h"
#include "controller/api/operations.h"
#include "controller/uploads/upload_store.h"

namespace coxswain::api {
namespace {

constexpr int64_t kDigestAtOnce = int64_t{64} << 20;  // so that other requests have the lane too

using Writer = std::shared_ptr<std::unique_ptr<uploads::UploadWriter>>;

// In a lane.
absl::Status Write(uploads::UploadStore* store, const uploads::Upload& upload,
                   const v1::UploadRequest& message, const Writer& writer) {
  if (*writer == nullptr) {
    ASSIGN_OR_RETURN(*writer, store->Begin(upload, message.offset()));
  }
  return (*writer)->Append(message.offset(), message.data());
}

// In a lane; true: there is more to digest.
absl::StatusOr<bool> DigestOrCommit(const Writer& writer) {
  ASSIGN_OR_RETURN(const bool more, (*writer)->Digest(kDigestAtOnce));
  if (!more) RETURN_IF_ERROR((*writer)->Commit());
  return more;
}

}  // namespace

absl::Status UploadReceiver::CheckOrder(const v1::UploadRequest& message) const {
  if (!begun_ && !message.has_file()) {
    return absl::InvalidArgumentError("file is missing in the first message of an upload");
  }
  if (begun_ && message.has_file()) {
    return absl::InvalidArgumentError(
        absl::StrCat("file stands in a later message of the upload of ", upload_.name));
  }
  return CheckArguments(message);
}

void UploadReceiver::Take(std::shared_ptr<const v1::UploadRequest> message,
                          std::function<void()> more) {
  if (ended()) return;
  if (const absl::Status wrong = CheckOrder(*message); !wrong.ok()) {
    Finish(wrong);
    return;
  }
  if (!begun_) {
    upload_ = UploadOf(message->file(), caller_);
    begun_ = true;
    Watch();
  }
  ++taken_;
  working_ = true;
  auto status = std::make_shared<absl::Status>();
  context_->deps.loop->Offload(
      Lane::kRequests,
      GuardedInto(status,
                  [store = context_->uploads, upload = upload_, message = std::move(message),
                   writer = writer_, status] { *status = Write(store, upload, *message, writer); }),
      [self = shared_from_this(), status, more = std::move(more)] {
        self->OnTaken(*status, more);
      });
}

void UploadReceiver::OnTaken(const absl::Status& status, const std::function<void()>& more) {
  working_ = false;
  if (ended()) {
    writer_->reset();
  } else if (!status.ok()) {
    Finish(status);
  } else {
    more();
  }
}

void UploadReceiver::End() {
  if (ended()) return;
  if (!begun_) {
    Finish(absl::InvalidArgumentError("an upload without a message"));
  } else if (!(*writer_)->whole()) {
    Finish(absl::InvalidArgumentError(absl::StrCat("the upload of ", upload_.name, " ended at ",
                                                   (*writer_)->there(), " of ", upload_.bytes,
                                                   " bytes: go on there")));
  } else {
    DigestMore();
  }
}

void UploadReceiver::DigestMore() {
  working_ = true;
  auto more = std::make_shared<absl::StatusOr<bool>>();
  context_->deps.loop->Offload(
      Lane::kRequests,
      GuardedInto(more, [writer = writer_, more] { *more = DigestOrCommit(writer); }),
      [self = shared_from_this(), more] {
        self->working_ = false;
        if (more->ok() && **more && !self->ended()) {
          self->DigestMore();
          return;
        }
        if (!more->ok()) {
          self->Finish(more->status());
          return;
        }
        v1::UploadResponse response;
        response.set_path(uploads::UploadText(self->upload_));
        self->Finish(std::move(response));
      });
}

void UploadReceiver::Drop() {
  reply_ = nullptr;
  if (!working_) writer_->reset();
}

void UploadReceiver::Finish(absl::StatusOr<v1::UploadResponse> result) {
  writer_->reset();
  const Reply<v1::UploadResponse> reply = std::exchange(reply_, nullptr);
  if (reply) reply(std::move(result));
}

void UploadReceiver::Watch() {
  context_->deps.loop->Deadline(kPatience, [weak = weak_from_this(), taken = taken_] {
    const std::shared_ptr<UploadReceiver> self = weak.lock();
    if (!self || self->ended()) return;
    if (self->working_ || self->taken_ != taken) {
      self->Watch();
      return;
    }
    self->Finish(absl::DeadlineExceededError(
        absl::StrCat("nothing came of ", self->upload_.name, " for ", kPatience.count(),
                     " s: what is there is kept, go on with it")));
  });
}

void BeginUpload(Context& context, const v1::BeginUploadRequest& request,
                 const access::Principal& caller, Reply<v1::BeginUploadResponse> reply) {
  const uploads::Upload upload = UploadOf(request, caller);
  auto there = std::make_shared<absl::StatusOr<int64_t>>();
  context.deps.loop->Offload(Lane::kRequests,
                             GuardedInto(there, [store = context.uploads, upload,
                                                 there] { *there = store->BytesThere(upload); }),
                             [there, upload, reply = std::move(reply)] {
                               if (!there->ok()) {
                                 reply(there->status());
                                 return;
                               }
                               v1::BeginUploadResponse response;
                               response.set_offset(**there);
                               response.set_path(uploads::UploadText(upload));
                               reply(std::move(response));
                             });
}

}  // namespace coxswain::api
