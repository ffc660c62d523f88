// The job file that submit, train, validate, plan and data preview read.
#ifndef COXSWAIN_CONTROLLER_CLI_JOB_FILE_H_
#define COXSWAIN_CONTROLLER_CLI_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_parser.h"
#include "controller/cli/verb.h"

namespace coxswain::cli {

// The arguments of every verb that takes a job file.
struct JobFileArgs {
  std::string path;                    // positional or -f; "-": standard input
  std::vector<std::string> overrides;  // --set
};
void AddJobFileArgs(Verb* verb, JobFileArgs* args);

struct JobFile {
  std::string shown;       // as the user named it, for messages
  std::string path;        // absolute, below base_dir
  std::string base_dir;    // of relative paths
  std::string yaml;        // overrides applied, paths expanded, every other key on its line
  bool rewritten = false;  // `yaml` is not as the user wrote it
  std::vector<std::string> overrides;
};

// NotFound names the file; InvalidArgument a wrong --set. Standard input is empty at the next call.
absl::StatusOr<JobFile> ReadJobFile(const JobFileArgs& args);

// Sets these keys too, as --set behind the file's own would.
absl::Status Override(const std::vector<std::string>& settings, JobFile* file);

// "job.yaml:12: spec.train.seed: ..." per error; for a key of an override "--set train.seed=x:
// ...".
std::string ErrorLines(const JobFile& file, const std::vector<config::ConfigError>& errors);

// InvalidArgument holds every error with file and line, one per line.
absl::StatusOr<config::ParsedJob> ParseJobFile(const JobFile& file,
                                               const config::ChosenResources& chosen = {});

// What only the disk tells of a job without errors, as further errors of it: that it would write
// over files, or go on from checkpoints of other settings.
void AddErrorsOfDisk(config::ParsedJob* job);

// AddErrorsOfDisk as a status, in the form of ParseJobFile.
absl::Status CheckDisk(const JobFile& file, config::ParsedJob job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOB_FILE_H_
