// The folders of an output directory that a job may replace or delete, and what lies there before.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_OUTPUT_FOLDERS_H_
#define COXSWAIN_CONTROLLER_FOLDERS_OUTPUT_FOLDERS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/folders/written_folder.h"
#include "controller/runtime/files.h"

namespace coxswain {

// The export of a job, and every checkpoint-N that exists. A job that only generates has none.
absl::StatusOr<std::vector<WrittenFolder>> ReplaceableFolders(Files* files,
                                                              const config::JobSpec& job);

struct OutputFindings {
  std::vector<std::string> refused;  // a path that is no job's, or was changed since, and why
  std::vector<std::string> adopted;  // folders that a job of an earlier release wrote
  std::map<std::string, std::vector<std::string>> by_job;  // names of folders

  // FailedPrecondition, naming every refused path; else OK.
  absl::Status Refusal(const std::string& output_dir) const;
  // One sentence for each folder of another job than `me` that will be replaced.
  std::vector<std::string> Warnings(const std::string& output_dir, const std::string& me) const;
};

// Looks at all folders that the job may replace. It reads at most 512 MiB of files whose time stamp
// differs from the recorded one; the code that replaces a folder checks the rest. Errors are the
// file system's.
absl::StatusOr<OutputFindings> LookAtOutput(Files* files, const config::JobSpec& job);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_OUTPUT_FOLDERS_H_
