// The values of the two pages, for their templates (views.h).
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_VIEWS_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_VIEWS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "controller/status_page/history.h"
#include "controller/status_page/snapshot.h"
#include "coxswain/v1/plan.pb.h"

namespace coxswain::status_page {

// `histories` by job id; jobs of the overview that have not ended and are there get curves.
nlohmann::json OverviewFields(const Overview& page,
                              const std::map<std::string, const History*>& histories);

struct JobPage {
  const JobDetail& detail;
  const History& history;
  bool catching_up = false;        // the store has older events that `history` lacks
  const v1::Plan* plan = nullptr;  // of the newest gang; null before the first
};
nlohmann::json JobFields(const JobPage& page);
// /jobs/ID.json: the points of the curves as arrays of equal length, null for what is not finite.
nlohmann::json PointsJson(const std::string& job, const History& history);

// What both pages say of a job: id, state, progress.
nlohmann::json JobSummaryFields(const JobRow& row, int64_t now_unix_ms);
nlohmann::json EventFields(const v1::JobEvent& event, int64_t now_unix_ms);
// Heartbeat, device, and the link to /metrics.
nlohmann::json WorkerFields(const v1::WorkerInfo& worker);
nlohmann::json LossCurveFields(const std::string& job, const History& history, size_t max_points);
nlohmann::json RateCurveFields(const std::string& job, const History& history, size_t max_points);

// Values of a page as JSON that templates are filled with: text; true shows a section; an object or
// each object of a list shows one with these values; a key ">x" includes template x. What an object
// lacks is looked up in those around it: an optional key has a name of its own on the whole page.

// A number as people read it, with the exact value beside it: <data value="EXACT">TEXT</data>.
inline nlohmann::json Number(const std::string& exact, const std::string& text) {
  return {{"EXACT", exact}, {"TEXT", text}};
}
nlohmann::json Real(double value, int digits);  // digits after the point
nlohmann::json Scientific(double value);        // "1.34e-04"
nlohmann::json Count(int64_t value);            // "1,234"
nlohmann::json Whole(double value);             // rounded, "1,234"
nlohmann::json Bytes(uint64_t value);           // "1.50 MiB"
// A moment: {"ISO", "CLOCK" (UTC, with the date when it is not today), "AGO"}.
nlohmann::json Moment(int64_t unix_ms, int64_t now_unix_ms);
// At most `bytes` bytes once escaped, cut between characters, an ellipsis for what is missing.
std::string Shortened(const std::string& text, size_t bytes);

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_VIEWS_H_
