#include "controller/cli/jobs/resume_command.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace coxswain::cli {
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
