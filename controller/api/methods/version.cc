#include "controller/api/operations.h"

namespace coxswain::api {

void Version(Context& context, const v1::VersionRequest& request, Reply<v1::BuildInfo> reply) {
  reply(context.build);
}

}  // namespace coxswain::api
