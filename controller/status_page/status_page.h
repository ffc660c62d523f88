// The read-only status page of the controller: / and /jobs/ID as HTML, /jobs/ID.json for its
// curves.
//
// Requests come on threads of the HTTP server. What they show is copied on the loop, one task at a
// time and each of bounded work; an answer is kept for kKeep, so the loop's share does not grow
// with the number of readers. Invariant page-1.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_STATUS_PAGE_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_STATUS_PAGE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/net/http_server.h"
#include "controller/api/context.h"
#include "controller/runtime/clock.h"
#include "controller/status_page/history.h"
#include "controller/status_page/render.h"
#include "controller/status_page/snapshot.h"
#include "coxswain/v1/plan.pb.h"

namespace coxswain::status_page {

class StatusPage {
 public:
  using Task = std::function<void()>;
  using Post = std::function<void(Task)>;  // runs the task on the loop; any thread

  static constexpr std::chrono::milliseconds kKeep{1000};
  static constexpr std::chrono::milliseconds kPatience{2000};  // for the loop; then 503
  static constexpr int64_t kEventsOfATask = 100;               // read from the store
  static constexpr std::chrono::milliseconds kReading{40};     // of history, in one request
  static constexpr size_t kFollowed = 4;                       // jobs of the overview with history
  static constexpr size_t kHistories = 32;  // kept; the one not used longest goes

  // `context` is touched on the loop only and outlives this.
  StatusPage(api::Context* context, const Clock* clock, Post post);

  // Any thread. 404 for what is not there, 503 when the loop does not answer.
  HttpResponse Answer(const std::string& path);

 private:
  struct Past {
    History history;
    bool caught_up = false;
    std::string plan_hash;
    v1::Plan plan;
    int64_t used_ns = 0;
  };
  struct Kept {
    HttpResponse response;
    int64_t made_ns = 0;
  };

  template <typename T>
  absl::StatusOr<T> OnLoop(std::function<absl::StatusOr<T>(api::Context&)> read)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<HttpResponse> Make(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<HttpResponse> MakeOverview() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  enum class Form { kPage, kPoints, kPicture };
  absl::StatusOr<HttpResponse> MakeJob(const std::string& reference, Form form)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Reads on from where it stopped until caught up or `until_ns`.
  absl::Status Follow(const std::string& job, int64_t until_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ReadPlan(const std::string& hash, Past* past) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  HttpResponse Html(std::string body) const;
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  api::Context* const context_;
  const Clock* const clock_;
  const Post post_;
  const Renderer renderer_;

  Mutex mu_;                                                // held while an answer is made
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mu_);   // by path
  std::map<std::string, Past> pasts_ ABSL_GUARDED_BY(mu_);  // by job id
  // The loop did not answer: nobody waits for it until then.
  int64_t stuck_until_ns_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_STATUS_PAGE_H_
