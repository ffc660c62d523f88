#include "controller/trackers/report.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/trackers/event_file.h"

namespace coxswain::trackers {
namespace {

constexpr int64_t kEventsPerPage = 512;

bool Has(const ReportArgs& args, config::Tracker tracker) {
  return std::find(args.report_to.begin(), args.report_to.end(), tracker) != args.report_to.end();
}

// 2026-11-29 03:13:37 UTC as "20261129_031337".
std::string DigitsOf(int64_t unix_ms) {
  const time_t seconds = unix_ms / 1000;
  tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32];
  return std::string(text, strftime(text, sizeof text, "%Y%m%d_%H%M%S", &utc));
}

std::string LinesPath(const ReportArgs& args) {
  return absl::StrCat(args.directory, "/jsonl/", args.run.id, ".jsonl");
}
std::string EventsPath(const ReportArgs& args) {
  return absl::StrCat(args.directory, "/tensorboard/", args.run.id, "/events.out.tfevents.",
                      args.run.created_unix_ms / 1000, ".coxswain");
}
std::string RunPath(const ReportArgs& args) {
  return absl::StrCat(args.directory, "/wandb/offline-run-", DigitsOf(args.run.created_unix_ms),
                      "-", args.run.id, "/run-", args.run.id, ".wandb");
}

std::string LineOf(const Point& point) {
  std::string line =
      absl::StrCat("{\"step\":", point.place.step, ",\"time_unix_ms\":", point.unix_ms);
  for (const auto& [name, value] : point.values) {
    absl::StrAppend(&line, ",\"", std::string(name), "\":", JsonNumber(value));
  }
  return line + "}\n";
}

}  // namespace

Report::Report(ReportArgs args) : args_(std::move(args)) {
  if (Has(args_, config::Tracker::kJsonLines)) lines_.emplace(LinesPath(args_));
  if (Has(args_, config::Tracker::kTensorBoard)) {
    events_.emplace(EventsPath(args_));
    events_->Append(FirstEntry(args_.run.created_unix_ms));
  }
  if (Has(args_, config::Tracker::kWandb)) {
    run_.emplace(RunPath(args_));
    run_->Append(RunFileIdent());
    run_->Append(records_.Begin(args_.run, args_.config_json, run_->end()));
  }
}

void Report::Add(const v1::JobEvent& event) {
  cursor_ = event.id();
  const std::optional<Point> point = PointOf(event);
  if (point) {
    TakeBackFrom(point->place, point->unix_ms);
    if (point->place.of_evaluation || point->place.step % args_.every == 0) AddPoint(*point);
  }
  if (!event.has_state_changed()) return;
  const std::string& to = event.state_changed().to();
  const bool succeeded = to == "SUCCEEDED";
  if (succeeded || to == "FAILED" || to == "CANCELLED") End(succeeded, event.time_unix_ms());
}

// Nothing of later places stays. TensorBoard takes back by steps, whose evaluation may stay.
void Report::TakeBackFrom(Place place, int64_t unix_ms) {
  const auto first = std::find_if(marks_.rbegin(), marks_.rend(), [&](const Mark& m) {
                       return m.place < place;
                     }).base();
  if (first == marks_.end()) return;
  if (lines_) lines_->CutTo(first->lines_end);
  if (run_) run_->CutTo(first->run_end);
  records_ = first->records;
  if (events_) events_->Append(TakenBackEntry(place.step + (place.of_evaluation ? 1 : 0), unix_ms));
  marks_.erase(first, marks_.end());
}

void Report::AddPoint(const Point& point) {
  marks_.push_back({.place = point.place,
                    .lines_end = lines_ ? lines_->end() : 0,
                    .run_end = run_ ? run_->end() : 0,
                    .records = records_});
  for (const auto& [name, value] : point.values) last_[name] = value;
  if (lines_) lines_->Append(LineOf(point));
  if (events_) events_->Append(PointEntry(point));
  if (run_) run_->Append(records_.Add(point, run_->end()));
}

void Report::End(bool succeeded, int64_t unix_ms) {
  if (std::exchange(ended_, true)) return;
  if (run_) run_->Append(records_.End(args_.run, succeeded, unix_ms, last_, run_->end()));
}

// Each file is tried: a folder that is full takes no other along.
absl::Status Report::Write(Files* files, bool whole) {
  absl::Status status;
  for (std::optional<FileTail>* file : {&lines_, &events_, &run_}) {
    if (*file) status.Update((*file)->Write(files, whole));
  }
  return status;
}

absl::Status Follow(store::History* history, Files* files, std::optional<Report>* report) {
  absl::Status status = (*report)->Write(files, /*whole=*/false);  // what could not be before
  for (bool whole = false; status.ok() && !whole;) {
    ASSIGN_OR_RETURN(
        const std::vector<v1::JobEvent> events,
        history->EventsAfter((*report)->args().run.id, (*report)->cursor(), kEventsPerPage));
    for (const v1::JobEvent& event : events) (*report)->Add(event);
    whole = static_cast<int64_t>(events.size()) < kEventsPerPage;
    status = (*report)->Write(files, whole);
  }
  if (absl::IsDataLoss(status)) report->emplace(ReportArgs((*report)->args()));
  return status;
}

}  // namespace coxswain::trackers
