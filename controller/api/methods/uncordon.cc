#include "controller/api/operations.h"

namespace coxswain::api {

void Uncordon(Context& context, const v1::UncordonRequest& request,
              Reply<v1::UncordonResponse> reply) {
  if (const absl::Status status = context.jobs->Uncordon(request.target()); !status.ok()) {
    reply(status);
    return;
  }
  v1::UncordonResponse response;
  for (const std::string& worker : context.jobs->WorkersOf(request.target())) {
    response.add_workers(worker);
  }
  reply(std::move(response));
}

}  // namespace coxswain::api
