// Downloads what a job reads of the Hub, before its data is prepared.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_FETCH_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_FETCH_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/driver/records/job_context.h"
#include "controller/sources/fetch_sources.h"

namespace coxswain::driver {

// Loop thread only. A lane of its own downloads. Bytes that are there stay when a call fails or is
// stopped: the next one goes on.
class JobFetch {
 public:
  // All files are there, or `failed` says why not.
  using Done = std::function<void(const std::optional<v1::Error>& failed)>;

  explicit JobFetch(const JobContext& job) : job_(job) {}
  ~JobFetch() { Stop(); }

  // Leads to `done`; at once where the job names nothing to fetch.
  void Start(Done done);
  void Stop();  // `done` is not called after this

 private:
  using Result = absl::StatusOr<std::vector<sources::FetchedSource>>;

  sources::FetchHooks Hooks();
  void Show(const std::string& source, const hub::Progress& progress);
  void OnFetched(const Result& result, const Done& done);

  const JobContext& job_;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // as the lane reads it; null: it never began
  bool told_ = false;                             // events of these sources are in the history
  Lifetime lifetime_;                             // cut by Stop
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_FETCH_H_
