#include "controller/cli/jobs/kept_history.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/outside_text.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;
namespace json = google::protobuf::util;
constexpr const char* kFolder = "history";
constexpr int64_t kMostJobBytes = 64 << 20;

std::string JobFileIn(const std::string& directory) { return absl::StrCat(directory, "/job.json"); }
std::string EventsFileIn(const std::string& directory) {
  return absl::StrCat(directory, "/events.jsonl");
}

std::string ToText(const google::protobuf::Message& message) {
  json::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  // It fails for text that is no UTF-8 alone, which no message holds.
  static_cast<void>(json::MessageToJsonString(message, &text, options));
  return text + "\n";
}

bool Parse(const std::string& text, google::protobuf::Message* message) {
  json::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a later release
  return json::JsonStringToMessage(text, message, options).ok();
}

absl::StatusOr<v1::Job> ReadJob(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(JobFileIn(directory), kMostJobBytes));
  v1::Job job;
  if (Parse(text, &job)) return job;
  return absl::InvalidArgumentError(absl::StrCat(JobFileIn(directory), " holds no job"));
}

std::vector<v1::JobEvent> ReadEventLines(const std::string& directory) {
  std::vector<v1::JobEvent> events;
  std::ifstream in(EventsFileIn(directory));
  for (std::string line; std::getline(in, line);) {
    v1::JobEvent event;
    if (Parse(line, &event)) events.push_back(std::move(event));
  }
  return events;
}

// Folders of kept jobs: `directory` itself, or those in its history.
std::vector<std::string> KeptBelow(const std::string& directory) {
  std::error_code error;
  if (fs::exists(JobFileIn(directory), error)) return {directory};
  std::vector<std::string> found;
  for (fs::directory_iterator it(fs::path(directory) / kFolder, error), end; it != end;
       it.increment(error)) {
    if (error) break;
    if (fs::exists(JobFileIn(it->path().string()), error)) found.push_back(it->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

HistoryKeeper::HistoryKeeper(const std::string& output_dir, const std::string& job)
    : directory_(absl::StrCat(output_dir, "/", kFolder, "/", job)) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) {
    status_ = ErrnoStatus(error.value(), "make", directory_);
    return;
  }
  events_.open(EventsFileIn(directory_), std::ios::app);
  Write(EventsFileIn(directory_), static_cast<bool>(events_));
}

void HistoryKeeper::Write(const std::string& path, bool written) {
  if (status_.ok() && !written) status_ = ErrnoStatus(errno == 0 ? EIO : errno, "write", path);
}

void HistoryKeeper::Event(const v1::JobEvent& event) {
  last_event_ = event.id();
  if (!status_.ok()) return;
  events_ << ToText(event) << std::flush;
  Write(EventsFileIn(directory_), static_cast<bool>(events_));
}

void HistoryKeeper::Job(const v1::Job& job) {
  if (!status_.ok()) return;
  const std::string path = JobFileIn(directory_), fresh = path + ".new";
  std::ofstream out(fresh, std::ios::trunc);
  out << ToText(job);
  out.close();
  Write(path, out && std::rename(fresh.c_str(), path.c_str()) == 0);
}

bool NamesFolder(const std::string& typed) {
  if (typed.find('/') != std::string::npos || typed == "." || typed == "..") return true;
  std::error_code error;
  return fs::is_directory(fs::path(typed) / kFolder, error) ||
         fs::is_regular_file(JobFileIn(typed), error);
}

absl::StatusOr<KeptHistory> ReadHistory(const std::string& directory) {
  KeptHistory newest;
  for (const std::string& folder : KeptBelow(directory)) {
    ASSIGN_OR_RETURN(v1::Job job, ReadJob(folder));
    const bool newer =
        newest.directory.empty() || job.created_unix_ms() > newest.job.created_unix_ms();
    const std::string other = newer ? newest.directory : folder;
    if (!other.empty()) newest.others.push_back(other);
    if (!newer) continue;
    newest.directory = folder;
    newest.job = std::move(job);
  }
  if (newest.directory.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, " holds no history of a job: neither job.json nor ", kFolder,
                     "/JOB/job.json, as cox train keeps them in checkpoint.output_dir"));
  }
  newest.events = ReadEventLines(newest.directory);
  return newest;
}

std::string KeptLines(const KeptHistory& history) {
  std::string lines = absl::StrCat("job ", OneLine(history.job.id()), ", as cox train kept it in ",
                                   OneLine(history.directory), "\n");
  for (const std::string& other : history.others) {
    absl::StrAppend(&lines, "kept too: ", OneLine(other), "\n");
  }
  return lines;
}

}  // namespace coxswain::cli
