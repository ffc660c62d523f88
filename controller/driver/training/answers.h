// The answers to a job's questions as pieces of them come in. No I/O.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_ANSWERS_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_ANSWERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/driver/training/curriculum.h"
#include "controller/gang/command_window.h"

namespace coxswain::driver {

struct WrittenAnswer {
  std::vector<int32_t> ids;
  bool ended = false;  // nothing more will come, by an end or
  bool cut = false;    // at the length of a sequence
};

// Of one evaluation, or of a job that only generates.
class Answers {
 public:
  // `prompts` answers, nothing of them yet.
  void Begin(size_t prompts) { answers_.assign(prompts, WrittenAnswer{}); }
  // Adds what rank 0 wrote. Internal: it wrote of other prompts than it was asked.
  absl::Status Add(const gang::InFlight& command);
  bool AllEnded() const;

  const std::vector<WrittenAnswer>& all() const { return answers_; }

 private:
  std::vector<WrittenAnswer> answers_;
};

// The text of an answer so far: without a character that is cut at its end while more may come.
std::string TextSoFar(const Questions& questions, const WrittenAnswer& answer, bool whole);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_ANSWERS_H_
