#include "controller/status_page/history.h"

#include <cmath>
#include <limits>

namespace coxswain::status_page {
namespace {

double NumberOf(double value) {
  return std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void History::Add(const v1::JobEvent& event) {
  cursor_ = event.id();
  if (event.type() == "StepDone") {
    if (event.has_step_done()) AddStep(event.step_done());
    return;
  }
  if (event.has_eval_done()) {
    evals_.Add({.step = event.eval_done().step(), .loss = NumberOf(event.eval_done().eval_loss())});
  }
  newest_events_.push_back(event);
  if (newest_events_.size() > kNewestEvents) newest_events_.pop_front();
}

void History::AddStep(const v1::StepDone& done) {
  const StepPoint point{.step = done.step() + 1,
                        .loss = NumberOf(done.loss()),
                        .grad_norm = NumberOf(done.grad_norm()),
                        .learning_rate = NumberOf(done.learning_rate()),
                        .tokens_per_second = NumberOf(done.tokens_per_second()),
                        .seconds = NumberOf(done.seconds()),
                        .tokens = done.tokens()};
  steps_.Add(point);
  evals_.TakeBackFrom(
      point.step);  // an evaluation follows its step: those are of before a rollback
  while (!newest_steps_.empty() && newest_steps_.back().step >= point.step) {
    newest_steps_.pop_back();
  }
  newest_steps_.push_back(point);
  if (newest_steps_.size() > kNewestSteps) newest_steps_.pop_front();
}

}  // namespace coxswain::status_page
