// The past of one job as curves and lists of bounded length, made from its events.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_HISTORY_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_HISTORY_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "coxswain/v1/job_event.pb.h"

namespace coxswain::status_page {

// A series of bounded length that always spans the whole run: when it is full, every second point
// goes and only every second new one is kept.

// `Point` has an int64_t `step`.
template <typename Point>
class Thinned {
 public:
  explicit Thinned(size_t capacity) : capacity_(capacity) {}

  // A step that was there before, or a lower one, takes back those from it on: a replay.
  void Add(const Point& point) {
    TakeBackFrom(point.step);
    newest_ = point;
    if (seen_++ % stride_ != 0) return;
    kept_.push_back(point);
    if (kept_.size() < capacity_) return;
    for (size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize((kept_.size() + 1) / 2);
    stride_ *= 2;
  }

  void TakeBackFrom(int64_t step) {
    while (!kept_.empty() && kept_.back().step >= step) kept_.pop_back();
    if (newest_ && newest_->step >= step) newest_.reset();
  }

  // At most capacity + 1 points, rising in step; the newest is always there.
  std::vector<Point> Points() const {
    std::vector<Point> points = kept_;
    if (newest_ && (points.empty() || points.back().step < newest_->step)) {
      points.push_back(*newest_);
    }
    return points;
  }
  int64_t stride() const { return stride_; }  // 1: every point is there

 private:
  size_t capacity_;
  std::vector<Point> kept_;
  std::optional<Point> newest_;
  int64_t seen_ = 0;
  int64_t stride_ = 1;
};

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
