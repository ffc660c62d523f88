#include "controller/status_page/status_page.h"

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/status_page/picture.h"
#include "controller/status_page/views.h"

namespace coxswain::status_page {
namespace {

constexpr char kJobs[] = "/jobs/";
constexpr std::string_view kJson = ".json", kSvg = ".svg";

int64_t Ns(std::chrono::nanoseconds duration) { return duration.count(); }

HttpResponse Refusal(const absl::Status& status) {
  const bool found = status.code() != absl::StatusCode::kNotFound &&
                     status.code() != absl::StatusCode::kInvalidArgument;
  return {.status = found ? 503 : 404, .body = absl::StrCat(std::string(status.message()), "\n")};
}

}  // namespace

StatusPage::StatusPage(api::Context* context, const Clock* clock, Post post)
    : context_(context), clock_(clock), post_(std::move(post)) {}

HttpResponse StatusPage::Answer(const std::string& path) {
  MutexLock lock(mu_);
  Forget();
  const auto kept = kept_.find(path);
  if (kept != kept_.end()) return kept->second.response;
  absl::StatusOr<HttpResponse> made = Make(path);
  HttpResponse response = made.ok() ? *std::move(made) : Refusal(made.status());
  response.headers.emplace_back("Cache-Control", "no-store");
  if (response.status != 503) kept_[path] = {.response = response, .made_ns = clock_->NowNs()};
  return response;
}

void StatusPage::Forget() {
  const int64_t now = clock_->NowNs();
  std::erase_if(kept_, [&](const auto& entry) { return now - entry.second.made_ns >= Ns(kKeep); });
  while (pasts_.size() > kHistories) {
    pasts_.erase(std::min_element(pasts_.begin(), pasts_.end(), [](const auto& a, const auto& b) {
      return a.second.used_ns < b.second.used_ns;
    }));
  }
}

absl::StatusOr<HttpResponse> StatusPage::Make(const std::string& path) {
  if (path == "/") return MakeOverview();
  if (!path.starts_with(kJobs) || path == kJobs) {
    return absl::NotFoundError(
        "no such page; there are /, /jobs/ID, /jobs/ID.json, /jobs/ID.svg and /metrics");
  }
  const std::string reference = path.substr(sizeof(kJobs) - 1);
  const auto without = [&](std::string_view end) {
    return reference.substr(0, reference.size() - end.size());
  };
  if (reference.ends_with(kJson)) return MakeJob(without(kJson), Form::kPoints);
  if (reference.ends_with(kSvg)) return MakeJob(without(kSvg), Form::kPicture);
  return MakeJob(reference, Form::kPage);
}

template <typename T>
absl::StatusOr<T> StatusPage::OnLoop(std::function<absl::StatusOr<T>(api::Context&)> read) {
  const auto result = std::make_shared<std::promise<absl::StatusOr<T>>>();
  std::future<absl::StatusOr<T>> future = result->get_future();
  if (clock_->NowNs() >= stuck_until_ns_) {
    post_([result, read = std::move(read), context = context_] {
      result->set_value(read(*context));
    });
    if (future.wait_for(kPatience) == std::future_status::ready) return future.get();
    stuck_until_ns_ = clock_->NowNs() + Ns(kPatience);
  }
  return absl::UnavailableError(absl::StrCat("the controller's event loop did not answer within ",
                                             kPatience.count(), " ms; see its log"));
}

absl::StatusOr<HttpResponse> StatusPage::MakeOverview() {
  ASSIGN_OR_RETURN(const Overview page, OnLoop<Overview>([](api::Context& context) {
                     return absl::StatusOr<Overview>(TakeOverview(context));
                   }));
  const int64_t until_ns = clock_->NowNs() + Ns(kReading);
  std::map<std::string, const History*> histories;
  for (size_t i = 0; i < std::min(page.jobs.size(), kFollowed); ++i) {
    const std::string& id = page.jobs[i].job.id();
    RETURN_IF_ERROR(Follow(id, until_ns));
    histories[id] = &pasts_[id].history;
  }
  return Html(renderer_.Render("overview", OverviewFields(page, histories)));
}

absl::StatusOr<HttpResponse> StatusPage::MakeJob(const std::string& reference, Form form) {
  ASSIGN_OR_RETURN(const JobDetail detail, OnLoop<JobDetail>([reference](api::Context& context) {
                     return TakeJob(context, reference);
                   }));
  const v1::Job& job = detail.row.job;
  RETURN_IF_ERROR(Follow(job.id(), clock_->NowNs() + Ns(kReading)));
  Past& past = pasts_[job.id()];
  if (form == Form::kPicture) {
    return HttpResponse{.body = PictureSvg({{.label = job.id(), .history = &past.history}}),
                        .content_type = "image/svg+xml",
                        .headers = {{"Content-Security-Policy", "default-src 'none'"}}};
  }
  if (form == Form::kPoints) {
    return HttpResponse{.body = PointsJson(job.id(), past.history).dump(),
                        .content_type = "application/json"};
  }
  if (!job.plan_hash().empty()) RETURN_IF_ERROR(ReadPlan(job.plan_hash(), &past));
  return Html(renderer_.Render(
      "job",
      JobFields({.detail = detail,
                 .history = past.history,
                 .catching_up = !past.caught_up,
                 .plan = past.plan_hash == job.plan_hash() && !past.plan_hash.empty() ? &past.plan
                                                                                      : nullptr})));
}

absl::Status StatusPage::Follow(const std::string& job, int64_t until_ns) {
  using Events = std::vector<v1::JobEvent>;
  Past& past = pasts_[job];
  past.used_ns = clock_->NowNs();
  do {
    ASSIGN_OR_RETURN(const Events events,
                     OnLoop<Events>([job, cursor = past.history.cursor()](api::Context& context) {
                       return context.deps.journal->store()->Events(job, cursor, kEventsOfATask);
                     }));
    for (const v1::JobEvent& event : events) past.history.Add(event);
    past.caught_up = static_cast<int64_t>(events.size()) < kEventsOfATask;
  } while (!past.caught_up && clock_->NowNs() < until_ns);
  return absl::OkStatus();
}

absl::Status StatusPage::ReadPlan(const std::string& hash, Past* past) {
  if (past->plan_hash == hash) return absl::OkStatus();
  const absl::StatusOr<std::string> bytes = OnLoop<std::string>(
      [hash](api::Context& context) { return context.deps.journal->store()->PlanBytes(hash); });
  if (absl::IsNotFound(bytes.status())) return absl::OkStatus();  // not committed yet
  if (!bytes.ok()) return bytes.status();
  if (past->plan.ParseFromString(*bytes)) past->plan_hash = hash;
  return absl::OkStatus();
}

HttpResponse StatusPage::Html(std::string body) const {
  return {.body = std::move(body),
          .content_type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy", renderer_.content_security_policy()},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}}};
}

}  // namespace coxswain::status_page
