// Whose file a request brings.
#ifndef COXSWAIN_CONTROLLER_API_UPLOAD_OF_H_
#define COXSWAIN_CONTROLLER_API_UPLOAD_OF_H_

#include "common/access/principal.h"
#include "common/files/hash.h"
#include "controller/uploads/upload_path.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::api {

// A user's file is that user's, an operator's is operators', as jobs are.
inline uploads::Upload UploadOf(const v1::BeginUploadRequest& request,
                                const access::Principal& caller) {
  return {.owner = caller.role == access::Role::kUser ? caller.name : std::string(),
          .name = request.name(),
          .sha256 = ToHex(request.sha256()),
          .bytes = request.bytes()};
}

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_UPLOAD_OF_H_
