// Answers to a job's questions, as its users see them: piece by piece, and whole.
#ifndef COXSWAIN_CONTROLLER_DRIVER_ANSWER_REPORT_H_
#define COXSWAIN_CONTROLLER_DRIVER_ANSWER_REPORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "controller/driver/answers.h"
#include "controller/driver/curriculum.h"
#include "controller/driver/job_record.h"

namespace coxswain::driver {

// Of one gang.
class AnswerReport {
 public:
  // `record` outlives it.
  AnswerReport(JobRecord* record, std::shared_ptr<const Curriculum> curriculum)
      : record_(record), curriculum_(std::move(curriculum)) {}

  // What has come since the last call, for who watches a job that only generates. The event waits
  // for the journal.
  void TellPieces(const Answers& answers, bool whole);
  // All of them, of `step` finished steps, after so many seconds.
  void TellWhole(int64_t step, const Answers& answers, double seconds);

 private:
  JobRecord* const record_;
  const std::shared_ptr<const Curriculum> curriculum_;
  std::vector<size_t> told_bytes_;  // of each answer
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_ANSWER_REPORT_H_
