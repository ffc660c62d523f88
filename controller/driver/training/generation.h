// The program of a job that trains nothing: it asks the job's prompts once.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_GENERATION_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_GENERATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/driver/training/asking.h"
#include "controller/driver/training/curriculum.h"
#include "controller/gang/program.h"

namespace coxswain::driver {

// It has no steps, saves nothing and exports nothing. A drain with a checkpoint lets it finish,
// because only its ranks keep the answers so far.
class Generation final : public gang::Program {
 public:
  // Describes how much of the answers was reported after `asked` pieces, in a form that another
  // controller can parse (ParseTold).
  using ToldSoFar = std::function<std::string(int64_t asked)>;

  // Asks for at most `pieces` of the answers: all that was asked for when they were told whole.
  Generation(std::shared_ptr<const Curriculum> curriculum, Asking::Told told, ToldSoFar told_so_far,
             int64_t pieces);

  std::optional<gang::Order> Next() override;
  std::optional<v1::Error> Take(const gang::InFlight& command) override;
  void Drain(bool with_checkpoint) override;
  bool saving() const override { return false; }
  int64_t Boundary() const override { return 0; }
  // Another controller asks again from the first command on; ranks answer from what they kept.
  std::optional<gang::ProgramPosition> Position() const override {
    return gang::ProgramPosition{.state = told_so_far_(asked_), .from_first = true};
  }
  bool MayGoAhead() const override { return true; }
  bool complete() const override { return !cut_; }
  bool exports() const override { return false; }
  const char* Ending() const override { return "every prompt is answered"; }

 private:
  const std::shared_ptr<const Curriculum> curriculum_;
  Asking asking_;
  const ToldSoFar told_so_far_;
  const int64_t pieces_;
  int64_t asked_ = 0;  // of these
  bool all_asked_;
  bool cut_ = false;
  int in_flight_ = 0;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_GENERATION_H_
