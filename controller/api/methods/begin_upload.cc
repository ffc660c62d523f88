#include <memory>
#include <utility>

#include "common/guarded.h"
#include "controller/api/operations.h"
#include "controller/api/upload_of.h"
#include "controller/uploads/upload_store.h"

namespace coxswain::api {

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
