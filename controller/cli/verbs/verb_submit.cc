// A job file checked, and submitted.
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/config/parser/job_parser.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/jobs/job_file.h"
#include "controller/cli/jobs/submit.h"
#include "controller/cli/machine/state_dir.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ValidateArgs {
  JobFileArgs file;
  std::string output = "table";
};

Json ReportJson(const JobFile& file, const config::ParsedJob& job) {
  Json errors = Json::array();
  for (const config::ConfigError& error : job.errors) {
    const int line = file.imported ? 0 : error.line;  // 0: nowhere in the user's file
    errors.push_back({{"path", error.path}, {"line", line}, {"message", error.message}});
  }
  const Json effective = job.errors.empty() ? Json::parse(job.effective_json) : Json(nullptr);
  return {{"file", file.path},
          {"valid", job.errors.empty()},
          {"errors", errors},
          {"effective", effective}};
}

int RunValidate(Cox* cox, const ValidateArgs& args) {
  const absl::StatusOr<JobFile> file = ReadJobFile(cox, args.file);
  if (!file.ok()) return cox->Fail(file.status());
  config::ParsedJob job = config::ParseJob(file->yaml, file->base_dir);
  AddErrorsOfDisk(&job);
  if (IsStructured(args.output)) {
    PrintStructured(ReportJson(*file, job), args.output, cox->out());
  } else if (job.errors.empty()) {
    cox->out() << file->shown << ": schema valid; cox plan also checks model and data\n";
  } else {
    cox->err() << ErrorLines(*file, job.errors);
  }
  return job.errors.empty() ? kOk : kUsage;
}

}  // namespace

void AddValidate(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ValidateArgs>();
  Verb verb(app, "validate", "Check a job file; needs no controller");
  AddJobFileArgs(&verb, &args->file);
  verb.Output(&args->output, {"table", "json", "yaml"}, "json and yaml have every default")
      .Run(cox, [cox, args] { return RunValidate(cox, *args); });
}

namespace {

struct SubmitArgs {
  JobFileArgs file;
  SubmitOptions submit;
  bool wait = false;
  bool follow = false;
  double timeout_seconds = 0;
  std::string output = "table";
};

int Wait(Cox* cox, const SubmitArgs& args, const v1::Job& submitted) {
  FollowOptions options;
  options.progress =
      args.follow ? ParseProgressMode("auto", cox->terminal.err_tty) : ProgressMode::kNone;
  options.timeout_ms = static_cast<int64_t>(args.timeout_seconds * 1000);
  const absl::StatusOr<v1::Job> job = FollowJob(cox, submitted.id(), options);
  if (absl::IsCancelled(job.status())) {
    cox->err() << "detached; " << OneLine(submitted.id()) << " goes on. Cancel it with: cox cancel "
               << submitted.id() << "\n";
    return kInterrupted;
  }
  if (!job.ok()) return cox->Fail(job.status());
  if (IsStructured(args.output)) {
    PrintStructured(MessageJson(*job), args.output, cox->out());
  } else if (args.output == "table") {
    cox->out() << Summary(*job);
  }
  return ExitOf(job->state());
}

int RunSubmit(Cox* cox, const SubmitArgs& args) {
  const absl::StatusOr<JobFile> file = ReadJobFile(cox, args.file);
  if (!file.ok()) return cox->Fail(file.status());
  const absl::StatusOr<v1::Job> job = SubmitJob(cox, *file, args.submit);
  if (!job.ok()) return cox->Fail(job.status());
  const bool wait = args.wait || args.follow;
  if (args.output == "name") {
    cox->out() << OneLine(job->id()) << "\n" << std::flush;
  } else if (!IsStructured(args.output)) {
    cox->out() << "job " << OneLine(job->id()) << " submitted (" << StateName(job->state()) << ")\n"
               << std::flush;
    cox->err() << ResourcesLine(*job);
    if (!wait) cox->err() << "watch it with: cox watch " << OneLine(job->id()) << "\n";
  } else if (!wait) {
    PrintStructured(MessageJson(*job), args.output, cox->out());
  }
  return wait ? Wait(cox, args, *job) : kOk;
}

}  // namespace

void AddSubmit(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<SubmitArgs>();
  Verb verb(app, "submit", "Queue a job");
  AddJobFileArgs(&verb, &args->file);
  verb.Flag("--paused", &args->submit.paused, "Queue it paused, for cox step")
      .Text("--idempotency-key", &args->submit.idempotency_key,
            "The same key and file return the same job (default: random)")
      .Flag("--wait", &args->wait, "Wait for the end; the exit code is the job's")
      .Flag("--follow", &args->follow, "Wait and show progress")
      .Number("--timeout", &args->timeout_seconds, "Seconds to wait at most; then exit code 124")
      .Output(&args->output, {"table", "name", "json", "yaml"})
      .Run(cox, [cox, args] { return RunSubmit(cox, *args); });
}

}  // namespace coxswain::cli
