// An event as a row of table events holds it.
#ifndef COXSWAIN_CONTROLLER_STORE_EVENT_ROW_H_
#define COXSWAIN_CONTROLLER_STORE_EVENT_ROW_H_

#include <cstdint>
#include <string>

#include "coxswain/v1/job_event.pb.h"

namespace coxswain::store {

// The event of a row with its `detail`, whichever release wrote it. For a row that cannot be read:
// an event of type Unreadable that names the row and the file `path` (invariant store-6).
v1::JobEvent ReadEvent(int64_t id, const std::string& proto, const std::string& job,
                       const std::string& path);

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_EVENT_ROW_H_
