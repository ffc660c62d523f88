// How far a training has come, so that another controller can continue it with the same gang.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINING_POSITION_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINING_POSITION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/checkpoint/run_state.h"
#include "controller/driver/training/step_script.h"

namespace coxswain::driver {

// Behind the commands whose answers were taken. The ranks know which commands came behind it.
struct TrainingPosition {
  checkpoint::RunState run;
  ScriptPlace script;
  std::optional<checkpoint::RunState> saving;  // of the checkpoint that is being written
};

// Of such a position, as store::PositionRow holds it; the evaluations are rows of their own.
std::string PositionJson(const checkpoint::RunState& run, const ScriptPlace& script,
                         const checkpoint::RunState* saving);
// `evals`: all that were made, by step. DataLoss says what cannot be read.
absl::StatusOr<TrainingPosition> ParsePosition(const std::string& text,
                                               const std::vector<checkpoint::EvalPoint>& evals);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINING_POSITION_H_
