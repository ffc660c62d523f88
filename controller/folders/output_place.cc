#include "controller/folders/output_place.h"

#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/glob.h"
#include "common/status_macros.h"
#include "controller/folders/output_folders.h"

namespace coxswain {
namespace {

// A path that the job reads, and the key that names it.
struct Input {
  std::string key;
  std::string path;
};

std::vector<Input> InputsOf(const config::JobSpec& job) {
  std::vector<Input> inputs = {{"base_model", job.model_path}};
  for (const config::DatasetSpec& data : job.datasets) {
    inputs.push_back({"datasets", GlobBase(data.path)});
  }
  for (const config::DatasetSpec& data : job.test_datasets) {
    inputs.push_back({"test_datasets", GlobBase(data.path)});
  }
  // What comes from the Hub has no path before the job is accepted.
  std::erase_if(inputs, [](const Input& input) { return input.path.empty(); });
  return inputs;
}

absl::StatusOr<std::vector<std::string>> Replaced(Files* files, const config::JobSpec& job) {
  std::vector<std::string> directories = {job.output_dir + "/.staging"};
  ASSIGN_OR_RETURN(const std::vector<WrittenFolder> folders, ReplaceableFolders(files, job));
  for (const WrittenFolder& folder : folders) directories.push_back(folder.path);
  return directories;
}

// Identities of `path` and of all that a removal of it would remove.
absl::Status Collect(Files* files, const std::string& path, std::set<std::string>* out) {
  ASSIGN_OR_RETURN(const std::string self, files->Identity(path));
  out->insert(self);
  const absl::StatusOr<std::vector<FileEntry>> entries = files->List(path);
  if (!entries.ok()) return absl::OkStatus();  // a file, or not there
  for (const FileEntry& entry : *entries) {
    if (entry.link) continue;  // what it leads to stays
    const std::string below = absl::StrCat(path, "/", entry.name);
    if (entry.directory) {
      RETURN_IF_ERROR(Collect(files, below, out));
    } else {
      ASSIGN_OR_RETURN(std::string identity, files->Identity(below));
      out->insert(std::move(identity));
    }
  }
  return absl::OkStatus();
}

bool IsIn(const std::string& path, const std::string& directory) {
  return path == directory || path.starts_with(directory + "/");
}

std::string Plain(const std::string& path) {
  const std::string text = std::filesystem::path(path).lexically_normal().string();
  return text.size() > 1 && text.ends_with('/') ? text.substr(0, text.size() - 1) : text;
}

// The input that removing `directory` would take away, or the link by which the job finds it; an
// empty key: none.
absl::StatusOr<Input> Endangered(Files* files, const config::JobSpec& job,
                                 const std::string& directory) {
  std::set<std::string> removed;
  RETURN_IF_ERROR(Collect(files, directory, &removed));
  for (Input& input : InputsOf(job)) {
    ASSIGN_OR_RETURN(const std::string identity, files->Identity(input.path));
    bool in = IsIn(Plain(input.path), Plain(directory));
    for (const std::string& one : removed) in = in || IsIn(identity, one);
    if (in) return std::move(input);
  }
  return Input{};
}

// Whether `path`, or the directory in which it will be made, is `directory` or below it.
absl::StatusOr<bool> LiesIn(Files* files, std::string path, const std::string& directory) {
  if (directory.empty() || !files->Exists(directory)) return false;
  while (!files->Exists(path + "/..")) {  // not made yet, or a file stands in its way
    path = std::filesystem::path(path).parent_path().string();
  }
  ASSIGN_OR_RETURN(const std::string sought, files->Identity(directory));
  ASSIGN_OR_RETURN(std::string at, files->Identity(path));
  while (at != sought) {
    path += "/..";  // the parent on disk, whatever links the path came through
    ASSIGN_OR_RETURN(std::string above, files->Identity(path));
    if (above == at) return false;  // the root
    at = std::move(above);
  }
  return true;
}

absl::Status CheckOutside(Files* files, const config::JobSpec& job, const std::string& key,
                          const std::string& path) {
  ASSIGN_OR_RETURN(const bool inside, LiesIn(files, path, job.model_path));
  if (!inside) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, " ", path, " is or lies in base_model ", job.model_path,
                   ": a job writes outside the model that it reads. Give another ", key));
}

std::string Danger(const config::JobSpec& job, const Input& input, const std::string& directory) {
  return absl::StrCat("the job replaces ", directory, " in its checkpoint.output_dir ",
                      job.output_dir, ", and ", input.key, " ", input.path,
                      " lies there: it would be deleted. Give another checkpoint.output_dir, or "
                      "move ",
                      input.key, " away");
}

}  // namespace

absl::Status CheckOutputPlace(Files* files, const config::JobSpec& job) {
  RETURN_IF_ERROR(CheckOutside(files, job, "checkpoint.output_dir", job.output_dir));
  if (!job.report_to.empty()) {
    RETURN_IF_ERROR(CheckOutside(files, job, "logging.dir", job.logging_dir));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> directories, Replaced(files, job));
  for (const std::string& directory : directories) {
    ASSIGN_OR_RETURN(const Input input, Endangered(files, job, directory));
    if (!input.key.empty()) return absl::InvalidArgumentError(Danger(job, input, directory));
  }
  ASSIGN_OR_RETURN(const OutputFindings there, LookAtOutput(files, job));
  const absl::Status refusal = there.Refusal(job.output_dir);
  return refusal.ok() ? refusal : absl::InvalidArgumentError(refusal.message());
}

void AddOutputPlaceErrors(Files* files, config::ParsedJob* job) {
  const absl::Status place = CheckOutputPlace(files, job->spec);
  if (!absl::IsInvalidArgument(place)) return;
  const std::string key = "spec.checkpoint.output_dir";
  const auto line = job->lines.find(key);
  job->errors.push_back(
      {key, line == job->lines.end() ? 0 : line->second, std::string(place.message())});
}

absl::Status CheckReplaceable(Files* files, const config::JobSpec& job,
                              const std::string& directory) {
  ASSIGN_OR_RETURN(const Input input, Endangered(files, job, directory));
  if (input.key.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(Danger(job, input, directory));
}

absl::Status CheckReplaceable(Files* files, const config::JobSpec& job) {
  ASSIGN_OR_RETURN(const std::vector<std::string> directories, Replaced(files, job));
  for (const std::string& directory : directories) {
    RETURN_IF_ERROR(CheckReplaceable(files, job, directory));
  }
  return absl::OkStatus();
}

}  // namespace coxswain
