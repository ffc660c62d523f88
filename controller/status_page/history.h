// The past of one job as curves and lists of bounded length, made from its events.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_HISTORY_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_HISTORY_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "controller/status_page/thinned.h"
#include "coxswain/v1/job_event.pb.h"

namespace coxswain::status_page {

struct StepPoint {
  int64_t step = 0;  // finished steps, from 1
  double loss = 0;   // nats per target; not a number when it was not finite
  double grad_norm = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;
  double seconds = 0;
  int64_t tokens = 0;
};

struct EvalPoint {
  int64_t step = 0;  // finished steps, from 0
  double loss = 0;
};

class History {
 public:
  static constexpr size_t kCurvePoints = 400;
  static constexpr size_t kNewestSteps = 12;
  static constexpr size_t kNewestEvents = 20;

  // In the order of their ids.
  void Add(const v1::JobEvent& event);

  int64_t cursor() const { return cursor_; }  // id of the newest event added
  std::vector<StepPoint> steps() const { return steps_.Points(); }
  int64_t stride() const { return steps_.stride(); }  // of `steps`
  std::vector<EvalPoint> evals() const { return evals_.Points(); }
  const std::deque<StepPoint>& newest_steps() const { return newest_steps_; }  // oldest first
  // Without StepDone, oldest first.
  const std::deque<v1::JobEvent>& newest_events() const { return newest_events_; }

 private:
  void AddStep(const v1::StepDone& done);

  int64_t cursor_ = 0;
  Thinned<StepPoint> steps_{kCurvePoints};
  Thinned<EvalPoint> evals_{kCurvePoints};
  std::deque<StepPoint> newest_steps_;
  std::deque<v1::JobEvent> newest_events_;
};

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_HISTORY_H_
