// A program that only asks: the prompts of a job that trains nothing, answered once.
#ifndef COXSWAIN_CONTROLLER_DRIVER_GENERATION_H_
#define COXSWAIN_CONTROLLER_DRIVER_GENERATION_H_

#include <memory>
#include <optional>

#include "controller/driver/asking.h"
#include "controller/driver/curriculum.h"
#include "controller/gang/program.h"

namespace coxswain::driver {

// It has no steps, saves nothing and leaves nothing to export. A drain with a checkpoint lets it
// finish: what is answered so far is nowhere kept.
class Generation final : public gang::Program {
 public:
  Generation(std::shared_ptr<const Curriculum> curriculum, Asking::Told told);

  std::optional<gang::Order> Next() override;
  std::optional<v1::Error> Take(const gang::InFlight& command) override;
  void Drain(bool with_checkpoint) override;
  bool saving() const override { return false; }
  std::optional<std::string> Position() const override { return std::nullopt; }
  bool MayGoAhead() const override { return true; }
  bool complete() const override { return !cut_; }
  bool exports() const override { return false; }
  const char* Ending() const override { return "every prompt is answered"; }

 private:
  const std::shared_ptr<const Curriculum> curriculum_;
  Asking asking_;
  bool all_asked_;
  bool cut_ = false;
  int in_flight_ = 0;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_GENERATION_H_
