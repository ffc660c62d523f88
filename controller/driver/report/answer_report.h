// Answers to a job's questions, as its users see them: piece by piece, and whole.
#ifndef COXSWAIN_CONTROLLER_DRIVER_REPORT_ANSWER_REPORT_H_
#define COXSWAIN_CONTROLLER_DRIVER_REPORT_ANSWER_REPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/driver/records/job_record.h"
#include "controller/driver/training/answers.h"
#include "controller/driver/training/curriculum.h"
#include "controller/gang/program.h"

namespace coxswain::driver {

// How much of a gang's answers is in the job's history.
struct ToldAnswers {
  std::vector<size_t> bytes;  // of each answer's text
  bool whole = false;         // all answers, to their ends
  int64_t asked = 0;          // number of pieces that were asked for
};
std::string ToldJson(const ToldAnswers& told);
absl::StatusOr<ToldAnswers> ParseTold(const std::string& text);  // DataLoss names the fault

// Reports the answers of one gang.
class AnswerReport {
 public:
  // `record` outlives it. `told`: what an earlier controller reported of this gang.
  AnswerReport(JobRecord* record, std::shared_ptr<const Curriculum> curriculum,
               ToldAnswers told = {})
      : record_(record), curriculum_(std::move(curriculum)), told_(std::move(told)) {}

  const ToldAnswers& told() const { return told_; }

  // Reports the text since the last call to users who watch a job that only generates. The event
  // waits for the journal.
  void TellPieces(const Answers& answers, bool whole);
  // Reports all answers at `step` finished steps. `seconds`: how long they took.
  void TellWhole(int64_t step, const Answers& answers, double seconds);

 private:
  JobRecord* const record_;
  const std::shared_ptr<const Curriculum> curriculum_;
  ToldAnswers told_;
};

// The program of a job that only generates. It continues behind `told`. It calls `make_durable`
// after each report and before the next command.
std::shared_ptr<gang::Program> MakeGeneration(JobRecord* record,
                                              std::shared_ptr<const Curriculum> curriculum,
                                              ToldAnswers told, std::function<void()> make_durable);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_REPORT_ANSWER_REPORT_H_
