// A job file as users name it: theirs, or the configuration of another trainer.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_JOB_FILE_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/parser/job_parser.h"
#include "controller/cli/command/cox.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/import/job_import.h"

namespace coxswain::cli {

// The job file that submit, train, validate, plan and data preview read.

// The arguments of every verb that takes a job file.
struct JobFileArgs {
  std::string path;                    // positional or -f; "-": standard input
  std::vector<std::string> overrides;  // --set
};
void AddJobFileArgs(Verb* verb, JobFileArgs* args);

struct JobFile {
  std::string shown;       // name as the user gave it, for messages
  std::string path;        // absolute, below base_dir
  std::string base_dir;    // folder against which relative paths are resolved
  std::string yaml;        // overrides applied, paths expanded; other keys keep their lines
  bool rewritten = false;  // `yaml` differs from what the user wrote
  bool imported = false;   // `yaml` was made of another trainer's configuration
  std::vector<std::string> overrides;
};

// Imports a configuration of another trainer and prints its report on standard error. NotFound
// names the file. InvalidArgument names a wrong --set, or what stands in the way of the import.
// Standard input can be read only once.
absl::StatusOr<JobFile> ReadJobFile(Cox* cox, const JobFileArgs& args);

// Sets these keys as further --set would, after those of the file.
absl::Status Override(const std::vector<std::string>& settings, JobFile* file);

// One line per error: "job.yaml:12: spec.train.seed: ...", without the line where the file was
// imported, or "--set train.seed=x: ..." for the key of an override.
std::string ErrorLines(const JobFile& file, const std::vector<config::ConfigError>& errors);

// InvalidArgument holds every error with file and line, one per line.
absl::StatusOr<config::ParsedJob> ParseJobFile(const JobFile& file,
                                               const config::ChosenResources& chosen = {});

// Adds errors that only the disk can show to a job without errors: it would overwrite files, or
// continue from checkpoints of other settings.
void AddErrorsOfDisk(config::ParsedJob* job);

// The errors of AddErrorsOfDisk as a status, in the form of ParseJobFile.
absl::Status CheckDisk(const JobFile& file, config::ParsedJob job);

// A configuration of another trainer where a job file is expected.

// The job's YAML, with the report of `cox import` on standard error. `shown`: the file as the user
// named it. InvalidArgument: something stands in the way; the message is the report's last line,
// and the others are printed.
absl::StatusOr<std::string> ImportForeignFile(Cox* cox, const std::string& shown,
                                              const job_import::ImportRequest& request);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_JOB_FILE_H_
