#include <memory>

#include "common/config/parser/job_parser.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/jobs/job_file.h"
#include "controller/cli/text/exit_code.h"
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

}  // namespace coxswain::cli
