#include "controller/cli/jobs/submit.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/config/parser/job_parser.h"
#include "common/config/yaml_tree.h"
#include "common/identity.h"
#include "common/status_macros.h"
#include "controller/sources/fetch_sources.h"

namespace coxswain::cli {

absl::StatusOr<v1::Job> SubmitJob(Cox* cox, const JobFile& file, const SubmitOptions& options) {
  RETURN_IF_ERROR(cox->Server().usable());
  // Another machine's controller cannot see this directory: relative paths are errors then.
  JobFile checked = file;
  if (!cox->Server().IsLoopback()) checked.base_dir.clear();
  ASSIGN_OR_RETURN(const config::ParsedJob job, ParseJobFile(checked));
  v1::SubmitRequest request;
  request.set_yaml(file.rewritten ? config::EmitBlockYaml(config::ParseYaml(file.yaml).root)
                                  : file.yaml);
  request.set_yaml_path(file.path);
  request.set_idempotency_key(options.idempotency_key.empty() ? NewUuid()
                                                              : options.idempotency_key);
  request.set_start_paused(options.paused);
  // The controller asks the Hub before it answers.
  const bool asks = sources::NamesSources(job.spec);
  return cox->Server().Submit(request, std::chrono::seconds(asks ? 180 : 10));
}

namespace {

bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string("_-./:=@%+,").find(c) != std::string::npos;
}

bool SetsResume(const std::string& override_text) {
  return override_text.starts_with("checkpoint.resume=") ||
         override_text.starts_with("spec.checkpoint.resume=");
}

}  // namespace

std::string ShellQuoted(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), IsPlain)) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string ResumeCommand(const JobFileArgs& file, const std::vector<std::string>& flags,
                          const std::string& checkpoint) {
  std::string command = absl::StrCat("cox train ", ShellQuoted(file.path));
  for (const std::string& flag : flags) absl::StrAppend(&command, " ", ShellQuoted(flag));
  for (const std::string& text : file.overrides) {
    if (!SetsResume(text)) absl::StrAppend(&command, " --set ", ShellQuoted(text));
  }
  absl::StrAppend(&command, " --set ", ShellQuoted("checkpoint.resume=" + checkpoint));
  return file.path == "-" ? command + " < job.yaml" : command;
}

}  // namespace coxswain::cli
