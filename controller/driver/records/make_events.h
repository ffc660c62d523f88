// Entries of a job's history as the driver makes them: type and `detail`, which agree. Job, time,
// state and message are JobRecord's.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_MAKE_EVENTS_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_MAKE_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/checkpoint/run_state.h"
#include "controller/driver/preparation/lane_work.h"
#include "controller/driver/training/commit_step.h"
#include "controller/gang/command_window.h"
#include "controller/gang/gang.h"
#include "controller/gang/gang_pace.h"
#include "controller/incidents/incident.h"
#include "controller/sources/pin_sources.h"
#include "controller/state/job_state.h"
#include "controller/state/recovery_state.h"
#include "coxswain/v1/job_event.pb.h"

namespace coxswain::driver {

// Where a gang went on under the next controller.
struct Readopted {
  int64_t step = 0;     // finished ones that were recorded
  uint64_t taken = 0;   // newest command whose answers were
  uint64_t queued = 0;  // newest command that a rank had
};

v1::JobEvent WarningEvent();  // its message tells all
v1::JobEvent AdviceEvent();   // its message tells all
v1::JobEvent NotComparedWarning(const std::string& fingerprint);
v1::JobEvent DroppedWarning(int64_t events, int64_t steps);

v1::JobEvent ResourcesChosenEvent(const std::string& device, int32_t workers);
// `reserved`: ids of the workers that admission took, else empty.
v1::JobEvent StateChangedEvent(v1::JobState from, const state::JobStatus& to, state::JobEvent event,
                               const std::vector<std::string>& reserved);
v1::JobEvent SourceResolvedEvent(const sources::PinnedSource& source);
v1::JobEvent SourceFetchedEvent(const sources::FetchedSource& fetched);
v1::JobEvent DataPreparedEvent(const v1::DatasetSummary& data, int64_t total_steps);
// `extended_steps`: of the recipe that the checkpoint is of, 0: it is the job's.
v1::JobEvent ResumingEvent(int64_t step, const std::string& directory, int64_t extended_steps);
v1::JobEvent GangFormedEvent(const gang::Gang& gang, const GangPlan& plan);

v1::JobEvent GangReadoptedEvent(const gang::Gang& gang, const Readopted& readopted);
v1::JobEvent ReadoptionFailedEvent(uint64_t epoch, const std::string& reason);

// Facts about a committed step beside its StepResult.
struct StepPace {
  int64_t total_steps = 0;
  uint64_t epoch = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;
  double seconds = 0;
  int64_t pass = 0;
};
v1::JobEvent StepDoneEvent(const StepResult& result, const Batch& batch,
                           const gang::InFlight& command, const StepPace& pace);
v1::JobEvent StepSkippedEvent(const StepResult& result, const Batch& batch,
                              const gang::InFlight& command);
v1::JobEvent StragglerEvent(int rank, const gang::Gang& gang, const gang::GangPace::Summary& pace);
v1::JobEvent ReplayDivergenceEvent(int64_t step, uint64_t epoch, uint64_t before);
v1::JobEvent EvalDoneEvent(const checkpoint::EvalPoint& point,
                           const std::optional<v1::Preference>& preference, bool is_best);
v1::JobEvent AnswerWrittenEvent(int32_t prompt, const std::string& piece);
v1::JobEvent PromptAnsweredEvent(v1::PromptAnswered answer);
v1::JobEvent EarlyStoppedEvent(int64_t step, const checkpoint::EvalPoint& best);

v1::JobEvent CheckpointCommittedEvent(const v1::CheckpointInfo& info, double seconds);
v1::JobEvent CheckpointDeletedEvent(int64_t step, const std::string& directory);
v1::JobEvent CheckpointFailedEvent(int64_t step, const v1::Error& error);
v1::JobEvent AttemptFailedEvent(uint64_t epoch, const v1::Error& error);
// `limit_seconds` 0: without limit.
v1::JobEvent RecoveryStageEvent(state::RecoveryStage stage, uint64_t epoch, double limit_seconds);
v1::JobEvent PreemptedEvent(const std::string& by, int64_t by_priority, int64_t priority);
// `workers`: ids of the host's living workers.
v1::JobEvent HostLeftOutEvent(const std::string& host, int failures,
                              const std::vector<std::string>& workers);
v1::JobEvent IncidentKeptEvent(const incidents::Incident& incident, const std::string& path,
                               const std::vector<int>& odd_ranks);
v1::JobEvent ExportedEvent(int64_t step, const ExportedTo& to);
v1::JobEvent ExportFailedEvent(const v1::Error& error);
v1::JobEvent PushedEvent(const config::PushSpec& where, const PushedTo& to);
v1::JobEvent PushFailedEvent(const config::PushSpec& where, const v1::Error& error);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_MAKE_EVENTS_H_
