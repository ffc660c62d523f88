// The state of a run in a checkpoint besides its tensors: evaluations, early stop, skipped steps,
// the trend of the loss.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_RUN_STATE_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_RUN_STATE_H_

#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/checkpoint/loss_trend.h"

namespace coxswain::checkpoint {

struct EvalPoint {
  int64_t step = 0;  // finished steps
  double loss = 0;   // mean over the targets of the evaluation set
  double seconds = 0;
  // Fraction of the targets that the model ranks first. Absent: an older release evaluated.
  std::optional<double> token_accuracy = {};
  // Of pairs, the mean reward of chosen over that of rejected; of pairs and labels, the share that
  // is right. Absent: there is none.
  std::optional<double> margin = {}, accuracy = {};
  double perplexity() const { return std::exp(loss); }
  bool operator==(const EvalPoint&) const = default;
};

// What early stopping compares: a loss is to fall, the others are to rise.
enum class EvalMetric { kLoss, kMargin, kAccuracy };

// Of spec.eval.metric.
EvalMetric MetricNamed(std::string_view name);

// NaN: the point has none.
double ValueOf(const EvalPoint& point, EvalMetric metric);

// Best evaluation and patience. What is not better than the best counts against the patience. Any
// number is better than NaN.
struct EarlyStop {
  std::optional<EvalPoint> best;
  int64_t without_improvement = 0;

  // Returns true when `point` is the new best.
  bool Add(EvalPoint point, EvalMetric metric = EvalMetric::kLoss);
  bool Exhausted(std::optional<int64_t> patience) const {
    return patience.has_value() && without_improvement >= *patience;
  }
  bool operator==(const EarlyStop&) const = default;
};

// Steps whose update was skipped for a non-finite gradient norm. See ARCHITECTURE.md, "Training
// semantics".
struct SkippedSteps {
  static constexpr int64_t kMaxInARow = 3;
  static constexpr int64_t kWindow = 1000;     // steps
  static constexpr int64_t kMaxInWindow = 10;  // 1 % of the window

  int64_t total = 0;
  int64_t in_a_row = 0;
  std::deque<int64_t> recent;  // steps skipped within the last kWindow

  void Add(int64_t step, bool skipped);
  bool TooMany() const {
    return in_a_row > kMaxInARow || static_cast<int64_t>(recent.size()) > kMaxInWindow;
  }
  bool operator==(const SkippedSteps&) const = default;
};

struct RunState {
  int64_t step = 0;  // finished steps
  int64_t applied_updates = 0;
  int64_t tokens = 0;  // trained tokens, without steps that a failure discarded
  double loss = 0;     // of the last finished step; 0 before the first
  double grad_norm = 0;
  double seconds = 0;  // of all steps and evaluations that count
  EarlyStop early_stop;
  SkippedSteps skipped;
  LossTrend loss_trend;
  std::vector<EvalPoint> evals;
  bool operator==(const RunState&) const = default;
};

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_RUN_STATE_H_
