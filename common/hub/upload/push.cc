#include "common/hub/upload/push.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/hub/api/api_answer.h"
#include "common/hub/api/retries.h"
#include "common/hub/upload/push_failure.h"
#include "common/hub/upload/push_file.h"
#include "common/hub/upload/push_plan.h"
#include "common/hub/upload/push_target.h"
#include "common/hub/upload/upload_run.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

using Json = nlohmann::json;

constexpr char kCardName[] = "README.md";
constexpr int64_t kMostSmallBytes = int64_t{64} << 20;

std::string LineOf(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// One push, which may look several times at what is there.
class Push {
 public:
  Push(const Settings& settings, const PushRequest& request, const PushHooks& hooks)
      : settings_(settings), request_(request), hooks_(hooks), retries_(settings.limits) {}

  absl::Status OpenFiles();
  absl::StatusOr<Pushed> Run();

 private:
  absl::StatusOr<std::string> Head();  // the branch's commit now
  absl::Status Upload(const PushPlan& plan);
  absl::StatusOr<std::string> CommitText(const PushPlan& plan, const std::string& parent);
  // The commit; nothing: it may be there, or another one came between, so look again after the
  // wait.
  absl::StatusOr<std::optional<std::string>> Commit(const PushPlan& plan,
                                                    const std::string& parent);
  absl::Status WaitAfter(const HttpEnd& end);
  Pushed Done(const std::string& commit, const PushPlan& plan);
  void Report();

  const Repository& repository() const { return request_.repository; }

  const Settings& settings_;
  const PushRequest& request_;
  const PushHooks& hooks_;
  std::vector<PushFile> files_;
  bool card_is_made_ = false;
  bool committed_ = false;
  Retries retries_;
  Progress progress_;
  RateMeter rate_;
  int64_t sent_ = 0;
};

absl::Status Push::OpenFiles() {
  bool has_card = false;
  for (const std::string& path : request_.files) {
    ASSIGN_OR_RETURN(PushFile file, PushFile::OnDisk(request_.folder, path));
    files_.push_back(std::move(file));
    has_card |= path == kCardName;
  }
  if (files_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(request_.folder, " holds no file to push"));
  }
  card_is_made_ = !has_card && !request_.card.empty();
  if (card_is_made_) files_.push_back(PushFile::OfText(kCardName, request_.card));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Push::Head() {
  return EnsureBranch(settings_, repository(), request_.is_private, hooks_.cancelled);
}

absl::StatusOr<Pushed> Push::Run() {
  while (true) {
    ASSIGN_OR_RETURN(const std::string parent, Head());
    ASSIGN_OR_RETURN(const PushPlan plan,
                     PlanPush(settings_, repository(), &files_,
                              card_is_made_ ? &files_.back() : nullptr, hooks_.cancelled));
    if (plan.changes.empty()) {
      // The branch may have come to have them since it was asked for its commit.
      ASSIGN_OR_RETURN(const std::string head, Head());
      return Done(head, plan);
    }
    RETURN_IF_ERROR(Upload(plan));
    ASSIGN_OR_RETURN(const std::optional<std::string> commit, Commit(plan, parent));
    if (commit) return Done(*commit, plan);
  }
}

absl::Status Push::Upload(const PushPlan& plan) {
  const PushPlace place{.settings = settings_, .repository = repository()};
  progress_ = {.files_total = static_cast<int64_t>(files_.size())};
  progress_.files = progress_.files_total - static_cast<int64_t>(plan.changes.size());
  for (const PushFile& file : files_) progress_.bytes_total += file.bytes();
  int64_t there = progress_.bytes_total;
  std::set<std::string> added;
  UploadRun run(place, hooks_.cancelled, [&](int64_t bytes) {
    progress_.bytes = there + bytes;
    rate_.Add(sent_ + run.sent_bytes(), RateMeter::Time::clock::now());
    Report();
  });
  for (const PushChange& change : plan.changes) {
    if (!change.in_lfs || !added.insert(change.digest).second) continue;
    run.Add(change.file, {.oid = change.digest, .bytes = change.file->bytes()});
    there -= change.file->bytes();
  }
  const absl::Status status = run.Run();
  sent_ += run.sent_bytes();
  return status;
}

absl::StatusOr<std::string> Push::CommitText(const PushPlan& plan, const std::string& parent) {
  int64_t small = 0;
  for (const PushChange& change : plan.changes) small += change.in_lfs ? 0 : change.file->bytes();
  if (small > kMostSmallBytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        request_.folder, " has ", FormatBytes(static_cast<uint64_t>(small)), " in files that ",
        settings_.endpoint, " takes outside Git LFS, at most ", FormatBytes(kMostSmallBytes),
        " are pushed: add their names to its .gitattributes"));
  }
  std::string text = LineOf(
      {{"key", "header"},
       {"value", {{"summary", request_.message}, {"description", ""}, {"parentCommit", parent}}}});
  for (const PushChange& change : plan.changes) {
    const std::string& path = change.file->path();
    if (change.in_lfs) {
      text += LineOf({{"key", "lfsFile"},
                      {"value",
                       {{"path", path},
                        {"algo", "sha256"},
                        {"oid", change.digest},
                        {"size", change.file->bytes()}}}});
      continue;
    }
    ASSIGN_OR_RETURN(const std::string content, change.file->Content());
    RETURN_IF_ERROR(change.file->CheckUnchanged());
    text += LineOf(
        {{"key", "file"},
         {"value",
          {{"content", absl::Base64Escape(content)}, {"path", path}, {"encoding", "base64"}}}});
    sent_ += change.file->bytes();
  }
  return text;
}

absl::StatusOr<std::optional<std::string>> Push::Commit(const PushPlan& plan,
                                                        const std::string& parent) {
  ApiPost post{.url = NewCommitUrl(settings_.endpoint, repository()),
               .type = "application/x-ndjson"};
  ASSIGN_OR_RETURN(post.text, CommitText(plan, parent));
  Settings once = settings_;
  once.limits.attempts = 1;  // a second one could make a second commit
  ASSIGN_OR_RETURN(const ApiReply reply, PostApi(once, post, hooks_.cancelled));
  committed_ |= reply.end.ok() || !reply.end.failure.empty();  // its answer may be lost
  if (!reply.end.ok()) {
    RETURN_IF_ERROR(WaitAfter(reply.end));
    return std::nullopt;
  }
  const Json answer = Json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  const auto commit = answer.is_object() ? answer.find("commitOid") : answer.end();
  if (commit != answer.end() && commit->is_string() && IsCommit(commit->get<std::string>())) {
    return commit->get<std::string>();
  }
  return absl::DataLossError(absl::StrCat(settings_.endpoint, " took a commit of ",
                                          NameOf(repository()), " and named none"));
}

// An error: looking again does not help.
absl::Status Push::WaitAfter(const HttpEnd& end) {
  const int status = end.head.status;
  const bool conflict = end.failure.empty() && (status == 409 || status == 412);
  const std::optional<std::chrono::milliseconds> delay =
      conflict ? retries_.Again() : retries_.After(end);
  if (!delay) return PushFailureOf(end, settings_, repository(), "a commit");
  if (Pause(*delay, hooks_.cancelled)) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("the push to ", NameOf(repository()), " was cancelled"));
}

Pushed Push::Done(const std::string& commit, const PushPlan& plan) {
  progress_.files_total = progress_.files = static_cast<int64_t>(files_.size());
  progress_.bytes_total = 0;
  for (const PushFile& file : files_) progress_.bytes_total += file.bytes();
  progress_.bytes = progress_.bytes_total;
  Report();
  return {.commit = commit,
          .url = CommitPageUrl(settings_.endpoint, repository(), commit),
          .committed = committed_,
          .files = progress_.files_total - static_cast<int64_t>(plan.ignored.size()),
          .sent_bytes = sent_,
          .ignored = plan.ignored};
}

void Push::Report() {
  progress_.bytes_per_second = rate_.BytesPerSecond();
  if (hooks_.progress) hooks_.progress(progress_);
}

absl::Status CheckRequest(const Settings& settings, const Repository& repository) {
  RETURN_IF_ERROR(CheckPushable(repository));
  if (settings.offline) {
    return absl::FailedPreconditionError("HF_HUB_OFFLINE is set: nothing is pushed to the Hub");
  }
  if (!settings.token.empty()) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("pushing to ", NameOf(repository), " at ", settings.endpoint,
                   " needs a token with write permission: HF_TOKEN, or `hf auth login`"));
}

}  // namespace

absl::Status CheckPushable(const Repository& repository) {
  if (repository.id.find('/') == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(repository.id, " names no owner: push to USER/",
                                                   repository.id, " or ORGANIZATION/",
                                                   repository.id));
  }
  if (IsCommit(repository.revision)) {
    return absl::InvalidArgumentError(
        absl::StrCat(repository.revision, " is a commit, which cannot change: push to a branch"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Pushed> PushFolder(const Settings& settings, const PushRequest& request,
                                  const PushHooks& hooks) {
  RETURN_IF_ERROR(CheckRequest(settings, request.repository));
  Push push(settings, request, hooks);
  RETURN_IF_ERROR(push.OpenFiles());
  return push.Run();
}

}  // namespace coxswain::hub
