#include "common/config/job_parser.h"
#include "controller/api/operations.h"

namespace coxswain::api {

void Validate(Context& context, const v1::ValidateRequest& request,
              Reply<v1::ValidateResponse> reply) {
  const config::ParsedJob parsed =
      config::ParseJob(request.yaml(), BaseDirectory(request.yaml_path()));
  v1::ValidateResponse response;
  for (const config::ConfigError& error : parsed.errors) {
    v1::ConfigError* out = response.add_errors();
    out->set_path(error.path);
    out->set_line(error.line);
    out->set_message(error.message);
  }
  reply(std::move(response));
}

}  // namespace coxswain::api
