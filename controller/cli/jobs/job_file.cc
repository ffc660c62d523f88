#include "controller/cli/jobs/job_file.h"

#include <filesystem>
#include <iostream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/parser/expand_paths.h"
#include "common/config/parser/override.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"
#include "controller/checkpoint/goes_on.h"
#include "controller/cli/import/job_import.h"
#include "controller/cli/import/report_text.h"
#include "controller/folders/output_place.h"

namespace coxswain::cli {
namespace {

// The parts of "spec.datasets[0].weight" or "datasets.0.weight", dot behind each, without "spec.".
std::string Parts(const std::string& path) {
  std::string parts;
  for (const char c : path) {
    if (c == '[') parts += '.';
    if (c != '[' && c != ']') parts += c;
  }
  return (parts.compare(0, 5, "spec.") == 0 ? parts.substr(5) : parts) + ".";
}

// The last override that set the value at `path` or one around it; null: none.
const std::string* OverrideOf(const JobFile& file, const std::string& path) {
  const std::string parts = Parts(path);
  for (auto it = file.overrides.rbegin(); it != file.overrides.rend(); ++it) {
    const std::string key = Parts(it->substr(0, it->find('=')));
    if (parts.compare(0, key.size(), key) == 0) return &*it;
  }
  return nullptr;
}

// OK, or InvalidArgument with every error.
absl::Status StatusOf(const JobFile& file, const std::vector<config::ConfigError>& errors) {
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(errors.size(),
                                                 errors.size() == 1 ? " error" : " errors", " in ",
                                                 file.shown, "\n", ErrorLines(file, errors)));
}

}  // namespace

void AddJobFileArgs(Verb* verb, JobFileArgs* args) {
  verb->RequiredText(
          "job.yaml,-f,--file", &args->path,
          "Job file, or a configuration of Axolotl, LLaMA-Factory or TRL; - for standard input")
      .Texts("--set", &args->overrides, "Override a key: --set train.max_steps=40 (repeatable)");
}

absl::StatusOr<JobFile> ReadJobFile(Cox* cox, const JobFileArgs& args) {
  JobFile file;
  std::string text, name = "imported";
  std::error_code error;
  if (args.path == "-") {
    std::ostringstream all;
    all << std::cin.rdbuf();
    text = all.str();
    file.shown = "<stdin>";
    file.base_dir = std::filesystem::current_path(error).string();
    file.path = file.base_dir + "/<stdin>";
  } else {
    absl::StatusOr<std::string> content = ReadFileOrPipe(args.path);
    if (!content.ok()) return absl::NotFoundError(content.status().message());
    text = *std::move(content);
    file.shown = args.path;
    const std::filesystem::path absolute =
        std::filesystem::absolute(args.path, error).lexically_normal();
    file.path = absolute.string();
    name = absolute.stem().string();
    file.base_dir = absolute.parent_path().string();
  }
  file.yaml = std::move(text);
  if (job_import::IsForeign(file.yaml)) {
    job_import::ImportRequest request;
    request.text = std::move(file.yaml);
    request.name = std::move(name);
    request.base_dir = file.base_dir;
    ASSIGN_OR_RETURN(file.yaml, ImportForeignFile(cox, file.shown, request));
    file.imported = file.rewritten = true;
  }
  RETURN_IF_ERROR(Override(args.overrides, &file));
  return file;
}

absl::Status Override(const std::vector<std::string>& settings, JobFile* file) {
  ASSIGN_OR_RETURN(const std::string set, config::OverrideJob(file->yaml, settings));
  std::string expanded = config::ExpandPaths(set, file->base_dir);
  file->rewritten = file->rewritten || expanded != file->yaml;
  file->yaml = std::move(expanded);
  file->overrides.insert(file->overrides.end(), settings.begin(), settings.end());
  return absl::OkStatus();
}

std::string ErrorLines(const JobFile& file, const std::vector<config::ConfigError>& errors) {
  std::string text;
  for (config::ConfigError error : errors) {
    if (file.imported) error.line = 0;  // it counts in a text that nobody sees
    if (const std::string* setting = OverrideOf(file, error.path)) {
      absl::StrAppend(&text, "--set ", *setting, ": ", error.message, "\n");
    } else {
      text += config::FormatErrors({error}, file.shown);
    }
  }
  return text;
}

absl::StatusOr<config::ParsedJob> ParseJobFile(const JobFile& file,
                                               const config::ChosenResources& chosen) {
  config::ParsedJob job = config::ParseJob(file.yaml, file.base_dir, chosen);
  RETURN_IF_ERROR(StatusOf(file, job.errors));
  return job;
}

void AddErrorsOfDisk(config::ParsedJob* job) {
  DiskFiles files;
  if (job->errors.empty()) AddOutputPlaceErrors(&files, job);
  if (job->errors.empty()) checkpoint::AddGoesOnErrors(&files, job);
}

absl::Status CheckDisk(const JobFile& file, config::ParsedJob job) {
  AddErrorsOfDisk(&job);
  return StatusOf(file, job.errors);
}

absl::StatusOr<std::string> ImportForeignFile(Cox* cox, const std::string& shown,
                                              const job_import::ImportRequest& request) {
  const absl::StatusOr<job_import::Imported> imported = job_import::ImportJob(request);
  if (!imported.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, ": ", std::string(imported.status().message())));
  }
  const std::string report = job_import::ReportText(*imported, shown);
  if (!imported->in_the_way.empty()) {
    const size_t last = report.rfind('\n', report.size() - 2) + 1;
    cox->err() << report.substr(0, last);
    return absl::InvalidArgumentError(report.substr(last));
  }
  cox->err() << report;
  return imported->yaml;
}

}  // namespace coxswain::cli
