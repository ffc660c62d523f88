// One call of Upload, without gRPC.
#ifndef COXSWAIN_CONTROLLER_API_UPLOAD_RECEIVER_H_
#define COXSWAIN_CONTROLLER_API_UPLOAD_RECEIVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/access/principal.h"
#include "common/files/hash.h"
#include "controller/api/context.h"
#include "controller/runtime/loop.h"
#include "controller/uploads/upload_path.h"
#include "controller/uploads/upload_store.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::api {

// Messages come one at a time: each Take calls `more` when the next may come, or ends the call by
// the reply. Loop thread only; the disk is touched in a lane.
class UploadReceiver : public std::enable_shared_from_this<UploadReceiver> {
 public:
  // A client that sends nothing for so long keeps its file from others.
  static constexpr std::chrono::seconds kPatience{60};

  UploadReceiver(Context* context, access::Principal caller, Reply<v1::UploadResponse> reply)
      : context_(context), caller_(std::move(caller)), reply_(std::move(reply)) {}

  void Take(std::shared_ptr<const v1::UploadRequest> message, std::function<void()> more);
  void End();   // the client has sent everything
  void Drop();  // the client is gone: what came is kept
  bool ended() const { return reply_ == nullptr; }

 private:
  void OnTaken(const absl::Status& status, const std::function<void()>& more);
  void DigestMore();
  void Finish(absl::StatusOr<v1::UploadResponse> result);
  void Watch();
  absl::Status CheckOrder(const v1::UploadRequest& message) const;

  Context* const context_;
  const access::Principal caller_;
  Reply<v1::UploadResponse> reply_;  // null: replied, or nobody hears it
  uploads::Upload upload_;
  std::shared_ptr<std::unique_ptr<uploads::UploadWriter>> writer_ =
      std::make_shared<std::unique_ptr<uploads::UploadWriter>>();
  bool begun_ = false;    // the first message came
  bool working_ = false;  // a lane has the writer
  uint64_t taken_ = 0;    // messages
};

// Whose file a request brings.

// A user's file is that user's, an operator's is operators', as jobs are.
inline uploads::Upload UploadOf(const v1::BeginUploadRequest& request,
                                const access::Principal& caller) {
  return {.owner = caller.role == access::Role::kUser ? caller.name : std::string(),
          .name = request.name(),
          .sha256 = ToHex(request.sha256()),
          .bytes = request.bytes()};
}

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_UPLOAD_RECEIVER_H_
