// A run's state as JSON, for manifests and for the store. Numbers keep their bits. JSON has neither
// NaN nor infinity: both are read back as NaN.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_RUN_JSON_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_RUN_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "controller/checkpoint/run_state.h"

namespace coxswain::checkpoint {

nlohmann::json EvalJson(const EvalPoint& point);
EvalPoint EvalFromJson(const nlohmann::json& in);  // throws nlohmann::json::exception

nlohmann::json RunJson(const RunState& run);
nlohmann::json RunJsonWithoutEvals(const RunState& run);  // evaluations grow with the run
// Reads either form.
RunState RunFromJson(const nlohmann::json& in);  // throws nlohmann::json::exception

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_RUN_JSON_H_
