#include "controller/store/event_row.h"

#include "absl/strings/str_cat.h"

namespace coxswain::store {

v1::JobEvent ReadEvent(int64_t id, const std::string& proto, const std::string& job,
                       const std::string& path) {
  v1::JobEvent event;
  if (!event.ParseFromString(proto)) {
    event.Clear();
    event.set_job(job);
    event.set_type("Unreadable");
    event.set_message(absl::StrCat("event ", id, " cannot be read: its row in ", path,
                                   " holds no valid record of an event"));
    event.set_data_json("{}");
  }
  event.set_id(id);
  return event;
}

}  // namespace coxswain::store
