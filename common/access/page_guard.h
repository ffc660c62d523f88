// Who may read the pages of a process: /metrics, and the controller's status page.
#ifndef COXSWAIN_COMMON_ACCESS_PAGE_GUARD_H_
#define COXSWAIN_COMMON_ACCESS_PAGE_GUARD_H_

#include <optional>

#include "common/access/door.h"
#include "common/net/http_server.h"

namespace coxswain::access {

// Nothing: a request from this machine, under a name of this machine, so that no page of another
// site reads it through a browser (DNS rebinding); or one with the bearer token of an operator,
// for the pages show all jobs. Else the refusal: 401, 403, or 421 for a name of another machine.
std::optional<HttpResponse> RefusePage(const Door& door, const HttpCaller& caller);

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_PAGE_GUARD_H_
