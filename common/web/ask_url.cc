#include "common/web/ask_url.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/retries.h"
#include "common/hub/api/url.h"
#include "common/status_macros.h"
#include "common/web/url_failure.h"

namespace coxswain::web {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{100};  // how long a cancellation may wait

// One call until it ended well, or for good.
struct Question {
  Question(std::string asked, const hub::Limits& limits) : url(std::move(asked)), retries(limits) {}

  std::string url;
  hub::Retries retries;
  bool done = false;
  std::optional<hub::HttpHead> head;  // of an answer 2xx
  std::optional<hub::HttpEnd> end;    // of the newest attempt
};

// Runs `start` for what is not done, until all is; `settle` says of a question that ended whether
// it is done.
absl::Status RunAll(const hub::Settings& settings, std::vector<Question>* questions,
                    const std::function<hub::HttpCall(Question*)>& call_of,
                    const std::function<absl::StatusOr<bool>(Question*)>& settle,
                    const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(const auto calls, hub::HttpCalls::Make(settings, hub::Reach::kForeign));
  const absl::Status stopped = absl::CancelledError(
      absl::StrCat("asking for ", hub::PublicUrl(questions->front().url), " was cancelled"));
  while (true) {
    milliseconds delay{0};
    std::vector<Question*> open;
    for (Question& question : *questions) {
      if (!question.done) open.push_back(&question);
    }
    if (open.empty()) return absl::OkStatus();
    for (size_t next = 0; next < open.size() || calls->running() > 0;) {
      if (cancelled && cancelled()) return stopped;
      for (; next < open.size() && calls->running() < settings.limits.connections; ++next) {
        open[next]->head.reset();
        open[next]->end.reset();
        hub::HttpCall call = call_of(open[next]);
        call.on_end = [question = open[next]](const hub::HttpEnd& end) { question->end = end; };
        calls->Start(std::move(call));
      }
      RETURN_IF_ERROR(calls->Wait(kPatience));
    }
    for (Question* question : open) {
      ASSIGN_OR_RETURN(question->done, settle(question));
      if (question->done) continue;
      const std::optional<milliseconds> pause = question->retries.After(*question->end);
      if (!pause) return FailureOf(*question->end, question->url);
      delay = std::max(delay, *pause);
    }
    if (!hub::Pause(delay, cancelled)) return stopped;
  }
}

// The whole size that an answer tells; -1: none.
int64_t SizeOf(const hub::HttpHead& head) {
  const std::string range = head.Header("content-range");
  const std::string text =
      head.status == 200 ? head.Header("content-length") : range.substr(range.find('/') + 1);
  int64_t bytes = -1;
  return absl::SimpleAtoi(text, &bytes) && bytes >= 0 ? bytes : -1;
}

hub::HttpCall FirstByteOf(Question* question) {
  return {.url = question->url, .begin = 0, .end = 1, .on_head = [question](const auto& head) {
            question->head = head;
            // A server without ranges would send everything.
            return head.status == 206 ? absl::OkStatus() : absl::AbortedError("enough is known");
          }};
}

bool IsAbsent(int status) {
  return status == 401 || status == 403 || status == 404 || status == 410;
}

// An empty file has no first byte.
bool IsEmptyFile(const hub::HttpEnd& end) {
  return end.head.status == 416 && absl::EndsWith(end.head.Header("content-range"), "/0");
}

absl::StatusOr<UrlFacts> FactsOf(const Question& question) {
  const hub::HttpHead& head = question.head ? *question.head : question.end->head;
  if (!question.head && !IsEmptyFile(*question.end)) {
    return UrlFacts{.there = FailureOf(*question.end, question.url), .identity = {}};
  }
  UrlFacts facts{.there = absl::OkStatus(), .identity = IdentityOf(head), .bytes = SizeOf(head)};
  const std::string name = hub::PublicUrl(question.url);
  if (facts.bytes < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server of ", name, " tells no size, so nobody would see an end that is missing: ",
        "download the file and write its path"));
  }
  if (facts.identity.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server of ", name, " tells neither ETag nor Last-Modified, so nobody would see a ",
        "change: download the file and write its path"));
  }
  return facts;
}

}  // namespace

absl::StatusOr<std::vector<UrlFacts>> AskFacts(const hub::Settings& settings,
                                               const std::vector<std::string>& urls,
                                               const std::function<bool()>& cancelled) {
  std::vector<Question> questions;
  for (const std::string& url : urls) questions.emplace_back(url, settings.limits);
  const auto settle = [](Question* question) -> absl::StatusOr<bool> {
    return question->head.has_value() || IsEmptyFile(*question->end) ||
           (question->end->failure.empty() && IsAbsent(question->end->head.status));
  };
  RETURN_IF_ERROR(RunAll(settings, &questions, FirstByteOf, settle, cancelled));
  std::vector<UrlFacts> facts;
  for (const Question& question : questions) {
    ASSIGN_OR_RETURN(UrlFacts one, FactsOf(question));
    facts.push_back(std::move(one));
  }
  return facts;
}

absl::StatusOr<std::string> AskText(const hub::Settings& settings, const std::string& url,
                                    const UrlFile& file, int64_t most,
                                    const std::function<bool()>& cancelled) {
  if (file.bytes > most) {
    return absl::FailedPreconditionError(
        absl::StrCat(hub::PublicUrl(url), " has ", file.bytes, " bytes, allowed: ", most));
  }
  std::vector<Question> questions;
  questions.emplace_back(url, settings.limits);
  std::string text;
  const auto call_of = [&](Question* question) {
    text.clear();
    return hub::HttpCall{
        .url = question->url,
        .on_head = [&](const auto& head) { return CheckUnchanged(head, url, file); },
        .on_bytes =
            [&](std::string_view bytes) {
              text.append(bytes);
              return static_cast<int64_t>(text.size()) <= file.bytes
                         ? absl::OkStatus()
                         : Changed(hub::PublicUrl(url), "it became longer");
            }};
  };
  const auto settle = [&](Question* question) -> absl::StatusOr<bool> {
    if (!question->end->ok()) return false;
    if (static_cast<int64_t>(text.size()) == file.bytes) return true;
    question->end->failure = "the answer ended early";
    return false;
  };
  RETURN_IF_ERROR(RunAll(settings, &questions, call_of, settle, cancelled));
  return text;
}

}  // namespace coxswain::web
