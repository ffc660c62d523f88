#include "controller/driver/report/tell_pace.h"

#include "absl/strings/str_format.h"
#include "controller/driver/records/make_events.h"

namespace coxswain::driver {

void TellPace(Metrics* metrics, JobRecord* record, gang::GangSession* session) {
  const gang::GangPace::Summary pace = session->pace().summary();
  if (pace.steps == 0) return;
  metrics->Pace(record->id(), {.control_idle_ratio = pace.control_idle_ratio,
                               .slowest_rank = pace.slowest,
                               .slowest_ratio = pace.slowest_ratio()});
  const std::optional<int> rank = session->NewStraggler();
  if (!rank) return;
  const double seconds = pace.ranks[static_cast<size_t>(*rank)].compute_seconds;
  const std::string& host = session->gang().ranks[static_cast<size_t>(*rank)].host;
  record->AddEvent(
      StragglerEvent(*rank, session->gang(), pace),
      absl::StrFormat("rank %d on %s computes %.2f times as long as the median of the other ranks "
                      "(%.4f s against %.4f s a step, over %d steps): look at its clocks, its "
                      "temperature and what else runs there. The job goes on at its pace",
                      *rank, host, pace.slowest_ratio(), seconds, pace.peer_median_seconds,
                      pace.steps));
}

}  // namespace coxswain::driver
