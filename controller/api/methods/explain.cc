#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/faults/failure_kind.h"
#include "common/format.h"
#include "controller/api/operations.h"
#include "controller/driver/preparation/choose_resources.h"
#include "controller/failure/errors.h"
#include "controller/incidents/incident_files.h"

namespace coxswain::api {
namespace {

std::string Count(int64_t n, const std::string& noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

// "2 registered: host/0 is free, host/1 runs job x".
std::string DescribeWorkers(Context& context, const std::string& device) {
  std::vector<std::string> parts;
  int64_t living = 0;
  for (const scheduler::Worker& worker : context.deps.registry->All()) {
    if (worker.hello.build().device() != device) continue;
    const bool lost = worker.status.phase == state::WorkerPhase::kLost;
    living += !lost;
    std::string part = worker.target.id;
    if (lost) {
      absl::StrAppend(&part, worker.status.draining ? " left" : " is lost");
    } else if (!worker.job.empty()) {
      absl::StrAppend(&part, " works for job ", worker.job);
    } else if (worker.status.draining) {
      absl::StrAppend(&part, " is leaving");
    } else if (!worker.cordoned.empty()) {
      absl::StrAppend(&part, " is cordoned (", worker.cordoned, ")");
    } else if (worker.status.suspect) {
      absl::StrAppend(&part, " is late with its heartbeat");
    } else if (const driver::JobDriver* job = context.jobs->KeptFor(worker);
               job != nullptr && worker.status.phase == state::WorkerPhase::kReady) {
      absl::StrAppend(&part, " is kept for job ", job->job().id(), ", which recovers");
    } else if (worker.status.phase == state::WorkerPhase::kReady) {
      absl::StrAppend(&part, " is free");
    } else {
      absl::StrAppend(&part, " is ", std::string(state::PhaseName(worker.status.phase)));
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return "none is registered";
  return absl::StrCat(
      living, living == 1 ? " is registered: " : " are registered: ", absl::StrJoin(parts, ", "));
}

// "; the one before failed (storage): ...", or nothing.
std::string Setback(const v1::Job& job) {
  if (!job.has_setback()) return "";
  return absl::StrCat("; the one before failed (", FailureSubject(job.setback().kind()),
                      "): ", failure::Describe(job.setback()));
}

std::string ExplainPreparing(Context& context, const driver::JobDriver& job) {
  const v1::Progress& progress = job.job().progress();
  if (progress.has_fetching()) {
    const v1::Fetching& fetching = progress.fetching();
    return absl::StrCat("downloads ", fetching.source(), ": ",
                        FormatBytes(static_cast<uint64_t>(fetching.bytes())), " of ",
                        FormatBytes(static_cast<uint64_t>(fetching.bytes_total())),
                        fetching.waits() ? "; another process downloads the rest" : "");
  }
  if (!job.WaitsForChoice()) {
    return absl::StrFormat("prepares its data: %.0f %% done", progress.prepare_fraction() * 100);
  }
  const auto choice = driver::ChooseResources(job.spec(), context.deps.registry->All());
  if (choice.has_value()) {
    return absl::StrCat(
        "has its data and waits until no worker has registered for ",
        context.deps.settings.settle.count() / 1000,
        " s, so that it chooses among all of them; with the present ones: ", choice->Text());
  }
  if (job.spec().device == config::Device::kAuto) {
    return "has its data and waits for a first worker: its resources.device is auto (cuda if a GPU "
           "worker is registered, else cpu), and no worker is registered";
  }
  const char* device = config::DeviceName(job.spec().device);
  return absl::StrCat("has its data and waits for a first worker of device ", device,
                      ": its resources.workers is auto, as many as live; ",
                      DescribeWorkers(context, device));
}

std::string ExplainWaiting(Context& context, const driver::JobDriver& job) {
  const std::string device = config::DeviceName(job.spec().device);
  const int64_t wait_ns = job.not_before_ns() - context.deps.loop->clock().NowNs();
  if (wait_ns > 0) {
    return absl::StrFormat("waits %.1f s before its next attempt%s",
                           static_cast<double>(wait_ns) * 1e-9, Setback(job.job()));
  }
  if (const driver::JobDriver* holder = context.jobs->OutputHeldBy(job)) {
    return absl::StrCat("waits until job ", holder->job().id(),
                        " has ended: it writes to the same ", "checkpoint.output_dir ",
                        job.spec().output_dir);
  }
  const int64_t need = job.spec().workers;
  std::string text = absl::StrCat("needs ", Count(need, "worker"), " of device ", device);
  if (!job.job().resources_reason().empty()) {
    absl::StrAppend(&text, " (", job.job().resources_reason(), " when it was chosen)");
  }
  absl::StrAppend(&text, "; ", DescribeWorkers(context, device), ".");
  if (context.deps.registry->Living(device) < need) {
    const bool cordoned = !context.deps.registry->cordons().All().empty();
    absl::StrAppend(&text, " Start more workers, ",
                    cordoned ? "put cordoned ones back (cox workers uncordon), " : "",
                    "or lower resources.workers");
    return text;
  }
  std::vector<std::string> ahead;
  for (const scheduler::QueueEntry& entry : context.jobs->Queue()) {
    if (entry.job == job.job().id()) break;
    if (entry.device == device) ahead.push_back(entry.job);
  }
  if (!ahead.empty()) {
    absl::StrAppend(&text, " Ahead of it in the queue: ", absl::StrJoin(ahead, ", "));
  }
  return text;
}

std::string Why(Context& context, const driver::JobDriver& job) {
  const v1::Job& info = job.job();
  const v1::Progress& progress = info.progress();
  switch (info.state()) {
    case v1::JOB_STATE_QUEUED:
      return "is about to prepare its data";
    case v1::JOB_STATE_PREPARING:
      return ExplainPreparing(context, job);
    case v1::JOB_STATE_READY:
    case v1::JOB_STATE_RECOVERING:
      return ExplainWaiting(context, job);
    case v1::JOB_STATE_ADMITTED:
      return "has its workers and is being planned";
    case v1::JOB_STATE_FORMING:
      return absl::StrCat("forms gang ", info.epoch(), ": ranks load weights and connect");
    case v1::JOB_STATE_RUNNING:
      return absl::StrFormat("runs: step %d of %d, %.0f tokens/s, about %.0f s to go",
                             progress.step(), progress.total_steps(), progress.tokens_per_second(),
                             progress.eta_seconds());
    case v1::JOB_STATE_DRAINING:
      return absl::StrCat(
          "finishes its outstanding steps before it stops",
          job.yields_to().empty()
              ? ""
              : absl::StrCat(": job ", job.yields_to(), ", of higher priority, gets its workers"));
    case v1::JOB_STATE_PAUSED:
      return absl::StrCat("was paused at step ", progress.step(), "; cox resume ", info.id(),
                          " lets it go on");
    case v1::JOB_STATE_EXPORTING:
      if (!info.artifact_dir().empty()) {
        return absl::StrCat("has written its artifacts to ", info.artifact_dir(),
                            " and pushes them to ", job.spec().push_to_hub.repo, " on the Hub",
                            Setback(info));
      }
      return absl::StrCat("has trained all its steps and writes its artifacts", Setback(info));
    case v1::JOB_STATE_SUCCEEDED:
      return absl::StrCat("has succeeded; its artifacts are in ", info.artifact_dir());
    case v1::JOB_STATE_CANCELLED:
      return "was cancelled by a user";
    case v1::JOB_STATE_FAILED:
      return absl::StrCat("failed (", FailureSubject(info.error().kind()),
                          "): ", failure::Describe(info.error()));
    default:
      return "is in an unknown state";
  }
}

// What the newest dump shows, on lines of its own; nothing where none is kept.
std::string NewestIncident(const incidents::IncidentFiles& files, const std::string& job) {
  const auto newest = files.Newest(job);
  if (!newest.ok()) return "";
  const auto document = nlohmann::json::parse(newest->document, nullptr, false);
  const auto text = document.find("explanation"), time = document.find("time_unix_ms");
  if (text == document.end() || !text->is_string() || time == document.end() ||
      !time->is_number_integer()) {
    return absl::StrCat("\n\n", newest->path, " is no dump of this release\n");
  }
  return absl::StrCat("\n\n", text->get<std::string>(), "  Taken ",
                      FormatTime(time->get<int64_t>()), ", kept in ", newest->path, "; cox dump ",
                      job, " takes another\n");
}

}  // namespace

std::string ExplainState(Context& context, const driver::JobDriver& job) {
  return absl::StrCat("Job ", job.job().id(), " is ", std::string(state::PhaseName(job.phase())),
                      ": it ", Why(context, job));
}

void Explain(Context& context, const v1::ExplainRequest& request,
             Reply<v1::ExplainResponse> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  auto response = std::make_shared<v1::ExplainResponse>();
  response->set_text(ExplainState(context, **job));
  context.deps.loop->Offload(
      Lane::kRequests,
      [response, id = (*job)->job().id(),
       files = incidents::IncidentFiles(context.deps.files, context.deps.incidents_dir)] {
        absl::StrAppend(response->mutable_text(), NewestIncident(files, id));
      },
      [response, reply] { reply(std::move(*response)); });
}

}  // namespace coxswain::api
