#include "tests/sim/coverage_rows.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/sim/fakes/faulty_transport.h"
#include "tests/sim/faults.h"

namespace coxswain::sim {
namespace {

// As StateChanged names them.
constexpr const char* kTransitions[] = {
    "job ADMITTED -> RUNNING by Readopted",
    "job ADMITTED -> FORMING by FormingStarted",
    "job ADMITTED -> RECOVERING by HeldUp",
    "job DRAINING -> PAUSED by AttemptFailed",
    "job DRAINING -> PAUSED by Drained",
    "job DRAINING -> QUEUED by AttemptFailed",
    "job DRAINING -> QUEUED by Drained",
    "job EXPORTING -> SUCCEEDED by Exported",
    "job FORMING -> QUEUED by ControllerRestarted",
    "job FORMING -> RECOVERING by AttemptFailed",
    "job FORMING -> RECOVERING by HeldUp",
    "job FORMING -> RUNNING by Formed",
    "job PAUSED -> QUEUED by Resumed",
    "job PREPARING -> FAILED by Failed",
    "job PREPARING -> READY by Prepared",
    "job QUEUED -> PREPARING by PrepareStarted",
    "job READY -> ADMITTED by Admitted",
    "job READY -> PAUSED by PauseRequested",
    "job READY -> QUEUED by ControllerRestarted",
    "job RECOVERING -> ADMITTED by Admitted",
    "job RECOVERING -> QUEUED by ControllerRestarted",
    "job RUNNING -> DRAINING by PauseRequested",
    "job RUNNING -> DRAINING by Preempted",
    "job RUNNING -> EXPORTING by StepsFinished",
    "job RUNNING -> QUEUED by ControllerRestarted",
    "job RUNNING -> RECOVERING by AttemptFailed",
    "job RUNNING -> RECOVERING by HeldUp",
};

}  // namespace

std::vector<std::string> CoverageRows() {
  std::vector<std::string> rows(std::begin(kTransitions), std::end(kTransitions));
  rows.emplace_back("job DRAINING -> QUEUED by ControllerRestarted");
  rows.emplace_back("job preempted by another");
  for (const FaultKind& kind : FaultKinds()) rows.push_back(absl::StrCat("fault ", kind.name));
  for (int i = 0; i < kNumCalls; ++i) {
    const auto call = static_cast<Call>(i);
    rows.push_back(CallRow(call));
    if (call == Call::kEndWorker) continue;  // seldom asked for
    for (int fault = 0; fault < kNumMessageFaults; ++fault) {
      rows.push_back(MessageRow(call, static_cast<MessageFault>(fault)));
    }
  }
  return rows;
}

}  // namespace coxswain::sim
