// A point of the curves of a job, made from an event: what every tracker writes.
#ifndef COXSWAIN_CONTROLLER_TRACKERS_POINT_H_
#define COXSWAIN_CONTROLLER_TRACKERS_POINT_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coxswain/v1/job_event.pb.h"

namespace coxswain::trackers {

// The job as trackers know it.
struct Run {
  std::string id;  // of the job: letters, digits, "-" and "_"
  std::string name;
  int64_t created_unix_ms = 0;
};

// The order of points in a file. An evaluation follows the step after which it was made.
struct Place {
  int64_t step = 0;  // finished steps; of an evaluation from 0 on
  bool of_evaluation = false;
  auto operator<=>(const Place&) const = default;
};

struct Point {
  Place place;
  int64_t unix_ms = 0;  // of the event
  // Names as transformers' Trainer gives them to trackers.
  std::vector<std::pair<std::string_view, double>> values = {};
};

// Of a StepDone or EvalDone; nothing of other events. A value may be not finite.
std::optional<Point> PointOf(const v1::JobEvent& event);

// Every name that a point may have.
const std::vector<std::string_view>& PointNames();

// A value as JSON: shortest text that reads back the same double. JSON has no number for what is
// not finite: "NaN", "Infinity" and "-Infinity" are strings, as the files of Weights & Biases have
// them.
std::string JsonNumber(double value);

}  // namespace coxswain::trackers

#endif  // COXSWAIN_CONTROLLER_TRACKERS_POINT_H_
