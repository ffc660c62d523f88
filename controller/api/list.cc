#include <string>

#include "controller/api/operations.h"

namespace coxswain::api {

void List(Context& context, const v1::ListRequest& request, Reply<v1::ListResponse> reply) {
  v1::ListResponse response;
  for (driver::JobDriver* job : context.jobs->NewestFirst()) {
    bool matches = true;
    for (const std::string& label : request.labels()) {
      const size_t equals = label.find('=');
      const auto it = job->job().labels().find(label.substr(0, equals));
      matches =
          matches && it != job->job().labels().end() && it->second == label.substr(equals + 1);
    }
    if (matches) *response.add_jobs() = job->job();
  }
  reply(std::move(response));
}

}  // namespace coxswain::api
