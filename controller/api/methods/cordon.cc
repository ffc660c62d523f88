#include "controller/api/operations.h"

namespace coxswain::api {

void Cordon(Context& context, const v1::CordonRequest& request, Reply<v1::CordonResponse> reply) {
  if (const absl::Status status = context.jobs->Cordon(request.target(), request.reason());
      !status.ok()) {
    reply(status);
    return;
  }
  v1::CordonResponse response;
  for (const std::string& worker : context.jobs->WorkersOf(request.target())) {
    response.add_workers(worker);
  }
  reply(std::move(response));
}

}  // namespace coxswain::api
