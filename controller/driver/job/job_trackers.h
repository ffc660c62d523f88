// Keeps the tracker files of a job (controller/trackers) up with its history, beside the job: no
// failure of theirs touches it.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_TRACKERS_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_TRACKERS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "controller/driver/records/job_context.h"
#include "controller/trackers/report.h"

namespace coxswain::driver {

// Loop thread only. The files are written in lane kTrackers, by one write at a time, so a folder
// that does not answer holds up nothing but them.
class JobTrackers {
 public:
  static constexpr std::chrono::milliseconds kPeriod{1000};
  static constexpr std::chrono::milliseconds kRetry{30000};  // after a failure
  // What a job has told may not be in the store yet, which may take no writes for a while.
  static constexpr int kLooksAfterChange = 10;
  // A job that ended so long ago is left alone after a start of the controller.
  static constexpr std::chrono::milliseconds kEndedLately{600000};

  explicit JobTrackers(const JobContext& job) : job_(job) {}

  // Nothing where the job reports to none. JobHooks::reschedule is called when the files of an
  // ended job are whole, or given up.
  void Start();
  void Hurry();         // looks now, not within kPeriod
  bool AtRest() const;  // nothing of an ended job is to be written

 private:
  void LookAfter(std::chrono::milliseconds delay);
  void Look();
  void Write();
  void OnWritten(const absl::Status& written);
  void Finish();

  const JobContext& job_;
  std::shared_ptr<std::optional<trackers::Report>> report_;  // null: not started, or finished
  bool writing_ = false;
  bool told_ = false;        // of a failure
  int64_t version_ = 0;      // of the job, when it was looked at
  int unchanged_looks_ = 0;  // one after another
  int looks_after_end_ = 0;  // which found its history without an end
  Loop::TimerId timer_ = 0;  // of the next look
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_TRACKERS_H_
