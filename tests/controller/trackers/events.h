// Events of a job as the driver makes them, with numbers that a test can tell.
#ifndef COXSWAIN_TESTS_CONTROLLER_TRACKERS_EVENTS_H_
#define COXSWAIN_TESTS_CONTROLLER_TRACKERS_EVENTS_H_

#include <cstdint>
#include <string>

#include "coxswain/v1/job_event.pb.h"

namespace coxswain::trackers {

inline v1::JobEvent StepEvent(int64_t id, int64_t finished, double loss) {
  v1::JobEvent event;
  event.set_id(id);
  event.set_job("run");
  event.set_time_unix_ms(1'700'000'000'000 + 1000 * id);
  event.set_type("StepDone");
  event.mutable_step_done()->set_step(finished - 1);
  event.mutable_step_done()->set_loss(loss);
  event.mutable_step_done()->set_grad_norm(0.5);
  event.mutable_step_done()->set_learning_rate(1e-4);
  event.mutable_step_done()->set_tokens(2048);
  event.mutable_step_done()->set_tokens_per_second(1000);
  return event;
}

inline v1::JobEvent EvalEvent(int64_t id, int64_t finished, double loss) {
  v1::JobEvent event = StepEvent(id, finished, loss);
  event.set_type("EvalDone");
  event.mutable_eval_done()->set_step(finished);
  event.mutable_eval_done()->set_eval_loss(loss);
  return event;
}

inline v1::JobEvent EndEvent(int64_t id, const std::string& state) {
  v1::JobEvent event;
  event.set_id(id);
  event.set_job("run");
  event.set_time_unix_ms(1'700'000'000'000 + 1000 * id);
  event.set_type("StateChanged");
  event.mutable_state_changed()->set_to(state);
  return event;
}

}  // namespace coxswain::trackers

#endif  // COXSWAIN_TESTS_CONTROLLER_TRACKERS_EVENTS_H_
