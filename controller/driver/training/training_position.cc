#include "controller/driver/training/training_position.h"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "controller/checkpoint/run_json.h"

namespace coxswain::driver {
namespace {

using nlohmann::json;

json ScriptJson(const ScriptPlace& place) {
  return {{"step", place.step},
          {"end", place.end},
          {"evaluated", place.evaluated},
          {"generated", place.generated},
          {"snapshotted", place.snapshotted},
          {"requested", place.requested},
          {"owed", place.owed}};
}

ScriptPlace ScriptFromJson(const json& in) {
  return {.step = in.at("step"),
          .end = in.at("end"),
          .evaluated = in.at("evaluated"),
          .generated = in.at("generated"),
          .snapshotted = in.at("snapshotted"),
          .requested = in.at("requested"),
          .owed = in.at("owed")};
}

TrainingPosition FromJson(const json& in) {
  TrainingPosition position;
  position.run = checkpoint::RunFromJson(in.at("run"));
  position.script = ScriptFromJson(in.at("script"));
  if (in.contains("saving")) position.saving = checkpoint::RunFromJson(in.at("saving"));
  return position;
}

}  // namespace

std::string PositionJson(const checkpoint::RunState& run, const ScriptPlace& script,
                         const checkpoint::RunState* saving) {
  json out = {{"run", checkpoint::RunJsonWithoutEvals(run)}, {"script", ScriptJson(script)}};
  if (saving != nullptr) out["saving"] = checkpoint::RunJsonWithoutEvals(*saving);
  return out.dump();
}

absl::StatusOr<TrainingPosition> ParsePosition(const std::string& text,
                                               const std::vector<checkpoint::EvalPoint>& evals) {
  TrainingPosition position;
  try {
    position = FromJson(json::parse(text));
  } catch (const json::exception& error) {
    return absl::DataLossError(
        absl::StrCat("the position of a training cannot be read: ", error.what()));
  }
  position.run.evals = evals;
  if (position.saving) {
    std::copy_if(evals.begin(), evals.end(), std::back_inserter(position.saving->evals),
                 [&](const auto& point) { return point.step <= position.saving->step; });
  }
  return position;
}

}  // namespace coxswain::driver
