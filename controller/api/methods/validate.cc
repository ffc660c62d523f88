#include <memory>
#include <utility>

#include "common/config/parser/job_parser.h"
#include "controller/api/operations.h"
#include "controller/checkpoint/goes_on.h"
#include "controller/folders/output_place.h"

namespace coxswain::api {
namespace {

v1::ValidateResponse ResponseOf(const config::ParsedJob& parsed) {
  v1::ValidateResponse response;
  for (const config::ConfigError& error : parsed.errors) {
    v1::ConfigError* out = response.add_errors();
    out->set_path(error.path);
    out->set_line(error.line);
    out->set_message(error.message);
  }
  return response;
}

}  // namespace

void Validate(Context& context, const v1::ValidateRequest& request,
              Reply<v1::ValidateResponse> reply) {
  auto parsed = std::make_shared<config::ParsedJob>(
      config::ParseJob(request.yaml(), BaseDirectory(request.yaml_path())));
  if (!parsed->errors.empty()) {
    reply(ResponseOf(*parsed));
    return;
  }
  context.deps.loop->Offload(
      Lane::kRequests,
      [files = context.deps.files, parsed] {
        AddOutputPlaceErrors(files, parsed.get());
        if (parsed->errors.empty()) checkpoint::AddGoesOnErrors(files, parsed.get());
      },
      [reply, parsed] { reply(ResponseOf(*parsed)); });
}

}  // namespace coxswain::api
