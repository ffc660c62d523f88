#include <memory>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/host.h"
#include "common/identity.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/connect/cluster.h"
#include "controller/cli/jobs/job_file.h"
#include "controller/cli/jobs/kept_history.h"
#include "controller/cli/jobs/stop_training.h"
#include "controller/cli/jobs/submit.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/machine/local_resources.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"
#include "controller/sources/pin_url.h"

namespace coxswain::cli {
namespace {

struct TrainArgs {
  JobFileArgs file;
  int64_t workers = 0;  // 0: as many as the job asks for
  int64_t threads = 0;  // 0: those that the job began with, else every core, shared
  std::string progress = "auto";
  std::string output = "table";
};

// A controller of its own has no uploads.
absl::Status CheckNoUploads(const config::JobSpec& job) {
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      if (!sources::IsUpload(dataset.url)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(dataset.url,
                       " lies at a controller that runs already, and cox train starts its own; "
                       "give the file's path, or use cox submit"));
    }
  }
  return absl::OkStatus();
}

// The job, with auto resources as this machine has them: from then on as if the file gave them.
absl::StatusOr<config::ParsedJob> ParseHere(Cox* cox, const std::string& directory,
                                            const TrainArgs& args, JobFile* file) {
  ASSIGN_OR_RETURN(config::ParsedJob job, ParseJobFile(*file));
  RETURN_IF_ERROR(CheckNoUploads(job.spec));
  if (config::HasChosenResources(job.spec)) return job;
  if (job.spec.workers == 0) job.spec.workers = args.workers;
  ASSIGN_OR_RETURN(const LocalResources local, ChooseLocally(job.spec, ListGpus(directory)));
  if (!local.line.empty()) cox->err() << local.line << "\n";
  const config::ChosenResources chosen{.device = local.chosen.device.value_or(job.spec.device),
                                       .workers = local.chosen.workers.value_or(job.spec.workers)};
  RETURN_IF_ERROR(Override({absl::StrCat("resources.device=", config::DeviceName(*chosen.device)),
                            absl::StrCat("resources.workers=", *chosen.workers)},
                           file));
  return ParseJobFile(*file, chosen);
}

// Of each CPU worker.
int64_t ThreadsOf(Cox* cox, const TrainArgs& args, const config::JobSpec& job, int64_t workers) {
  if (args.threads > 0) return args.threads;
  DiskFiles files;
  const int64_t before = ThreadsOfCheckpoint(&files, job);
  if (before == 0) return SharedThreads(workers);
  cox->err() << "threads: " << before
             << " of each worker, as in the checkpoint that it goes on from\n";
  return before;
}

// As many workers as the job asks for, of its device.
absl::StatusOr<ClusterArgs> WantedCluster(Cox* cox, const TrainArgs& args, JobFile* file) {
  ClusterArgs wanted;
  wanted.directory = absl::StrCat(StateDir(), "/train-", RandomHex(8));
  ASSIGN_OR_RETURN(const config::ParsedJob job, ParseHere(cox, wanted.directory, args, file));
  RETURN_IF_ERROR(CheckDisk(*file, job));
  const int64_t needed = job.spec.workers;
  const int64_t workers = args.workers == 0 ? needed : args.workers;
  if (workers < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers ", workers, " is below spec.resources.workers ", needed));
  }
  const bool cuda = job.spec.device == config::Device::kCuda;
  (cuda ? wanted.gpus : wanted.workers) = static_cast<int>(workers);
  if (cuda) wanted.workers = 0;
  wanted.threads = static_cast<int>(cuda ? 1 : ThreadsOf(cox, args, job.spec, workers));
  wanted.die_with_parent = true;
  return wanted;
}

// How the job is gone on with, as the user gave it.
std::string Resume(const TrainArgs& args, const std::string& checkpoint) {
  std::vector<std::string> flags;
  if (args.workers > 0) flags.insert(flags.end(), {"--workers", absl::StrCat(args.workers)});
  if (args.threads > 0) flags.insert(flags.end(), {"--threads", absl::StrCat(args.threads)});
  return ResumeCommand(args.file, flags, checkpoint);
}

void PrintEnd(Cox* cox, const TrainArgs& args, const Cluster& cluster, const v1::Job& job) {
  if (IsStructured(args.output)) {
    PrintStructured(MessageJson(job), args.output, cox->out());
    return;
  }
  cox->out() << Summary(job);
  if (!job.checkpoints().empty()) {
    const std::string& directory = job.checkpoints().rbegin()->directory();
    cox->out() << "resume:      " << OneLine(Resume(args, directory)) << "\n";
  }
  cox->out() << "inspect:     cox up " << (cluster.gpus > 0 ? "--gpus " : "--workers ")
             << job.workers() << " && cox submit " << ShellQuoted(args.file.path)
             << " && cox inspect " << OneLine(job.name()) << " -w\n";
}

// The event, and the job behind it. The steps between come with the next one.
void Keep(Cox* cox, const v1::JobEvent& event, HistoryKeeper* history) {
  history->Event(event);
  if (event.type() == "StepDone" || event.type() == "AnswerWritten") return;
  const auto job = cox->Server().Get(event.job());
  if (job.ok()) history->Job(*job);
}

// The job as it ended, before its controller does, and the events that nobody followed.
void KeepEnd(Cox* cox, const std::string& id, HistoryKeeper* history) {
  v1::WatchRequest request;
  request.set_job(id);
  request.set_after_event_id(history->last_event());
  const auto take = [history](const v1::JobEvent& event) {
    history->Event(event);
    return true;
  };
  cox->Server().Watch(request, take).IgnoreError();  // what came is kept
  const auto job = cox->Server().Get(id);
  if (job.ok()) history->Job(*job);
  if (history->status().ok()) {
    cox->err() << "history: cox describe " << OneLine(history->directory()) << " (or events)\n";
  } else {
    cox->err() << "cox: warning: the history of " << OneLine(id)
               << " is incomplete: " << OneLine(std::string(history->status().message())) << "\n";
  }
}

// `hurried`: the user waits for nothing any more.
int SubmitAndFollow(Cox* cox, const TrainArgs& args, const JobFile& file, const Cluster& cluster,
                    bool* hurried) {
  const auto submitted = SubmitJob(cox, file, {});
  if (!submitted.ok()) return cox->Fail(submitted.status());
  // It was parsed before it was submitted.
  HistoryKeeper history(ParseJobFile(file)->spec.output_dir, submitted->id());
  history.Job(*submitted);
  FollowOptions options;
  options.progress = ParseProgressMode(args.progress, cox->terminal.err_tty);
  options.check = [&cluster] { return CheckProcesses(cluster); };
  options.on_event = [&](const v1::JobEvent& event) {
    Keep(cox, event, &history);
    return true;
  };
  const auto job = FollowJob(cox, submitted->id(), options);
  if (InterruptSignal() != 0) {
    *hurried = StopTraining(cox, submitted->id(), [&args](const std::string& checkpoint) {
      return Resume(args, checkpoint);
    });
    KeepEnd(cox, submitted->id(), &history);
    return kInterrupted;
  }
  KeepEnd(cox, submitted->id(), &history);
  if (!job.ok()) return cox->Fail(job.status());
  PrintEnd(cox, args, cluster, *job);
  return ExitOf(job->state());
}

int RunTrain(Cox* cox, const TrainArgs& args) {
  auto file = ReadJobFile(cox, args.file);  // once: standard input cannot be read again
  if (!file.ok()) return cox->Fail(file.status());
  const auto wanted = WantedCluster(cox, args, &*file);
  if (!wanted.ok()) return cox->Fail(wanted.status());
  const int workers = wanted->workers + wanted->gpus;
  cox->err() << "starting a controller and " << workers
             << (workers == 1 ? " worker\n" : " workers\n");
  const auto cluster = StartCluster(*wanted);
  if (!cluster.ok() && InterruptSignal() != 0) {
    cox->err() << "\ninterrupted: no job was submitted\n";
    return kInterrupted;
  }
  if (!cluster.ok()) return cox->Fail(cluster.status());
  cox->UseOwn(cluster->endpoint.grpc);
  cox->err() << "metrics: http://" << cluster->endpoint.metrics << "/metrics\n";
  bool hurried = false;
  const int code = SubmitAndFollow(cox, args, *file, *cluster, &hurried);
  ClearInterrupt();
  const bool ended = StopCluster(*cluster, hurried ? std::chrono::milliseconds(0) : kStopGrace,
                                 Patience::kUntilInterrupted);
  const bool clean = ended || hurried || InterruptSignal() != 0;
  cox->err() << (clean ? "controller and workers stopped\n" : "cox: a process had to be killed\n");
  if (code == kOk || code == kInterrupted) {
    std::error_code error;
    std::filesystem::remove_all(wanted->directory, error);
  } else {
    cox->err() << "logs: " << wanted->directory << "\n";
  }
  return code == kOk && !clean ? kFailed : code;
}

}  // namespace

void AddTrain(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<TrainArgs>();
  Verb verb(app, "train", "Run one job on this machine: up, submit, watch, down");
  AddJobFileArgs(&verb, &args->file);
  verb.Integer("--workers", &args->workers, 1, 1024, "Number of workers (default: the job's)")
      .Integer("--threads", &args->threads, 1, 1024,
               "CPU threads of each worker (default: those that the job began with, else every "
               "core, shared by the workers)")
      .Progress(&args->progress)
      .Output(&args->output, {"table", "json", "yaml"})
      .Footer(
          "Ctrl-C and SIGTERM save a checkpoint within 30 s, say how to continue, and stop the "
          "processes; a second Ctrl-C does not wait. Use up, submit and watch to detach instead.")
      .Run(cox, [cox, args] { return RunTrain(cox, *args); });
}

}  // namespace coxswain::cli
