// Questions to a gang's model and their answers, a few tokens of every answer per command.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_ASKING_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_ASKING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "controller/driver/training/answers.h"
#include "controller/driver/training/curriculum.h"
#include "controller/gang/program.h"

namespace coxswain::driver {

// All questions of a job at one step. Questions of the next step begin when these were all asked.
class Asking {
 public:
  // Another piece of the answers at `step` finished steps has come. `seconds` counts from the first
  // command. `whole` is true for the last piece.
  using Told =
      std::function<void(int64_t step, const Answers& answers, double seconds, bool whole)>;

  // `questions` outlive it.
  Asking(const Questions* questions, Told told) : questions_(questions), told_(std::move(told)) {}

  // The order for the next pieces of the answers at `step`. Nothing when every answer has already
  // ended, unless `asked_before`: then the ranks have this order from another controller.
  std::optional<gang::Order> Ask(int64_t step, bool asked_before = false);
  bool Waits() const { return !pieces_.empty(); }  // for answers to orders
  // Nothing more is to be asked at this step.
  bool AllAsked() const { return asked_tokens_ == 0; }
  // Some pieces of the answers at this step have been taken, and not all that were asked for.
  bool TakenInPart() const { return pieces_.empty() ? asked_tokens_ != 0 : !pieces_.front().first; }
  // Every rank has answered the oldest order that was not taken yet.
  std::optional<v1::Error> Take(const gang::InFlight& command);

 private:
  struct Piece {
    bool first = false;
    bool last = false;
  };

  const Questions* const questions_;
  const Told told_;
  std::deque<Piece> pieces_;    // in flight
  int64_t asked_tokens_ = 0;    // of every answer at this step; 0: none, or all of them
  int64_t answered_step_ = -1;  // of the newest answers that were told whole
  int64_t began_ns_ = 0;        // of the answers that come in
  Answers answers_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_ASKING_H_
