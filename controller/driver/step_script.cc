#include "controller/driver/step_script.h"

#include <algorithm>

namespace coxswain::driver {

StepScript::StepScript(const ScriptRules& rules, int64_t start_step)
    : rules_(rules),
      step_(start_step),
      end_(rules.total_steps),
      evaluated_(start_step > 0),
      generated_(start_step > 0),
      snapshotted_(true) {}

bool StepScript::IsBoundary() const {
  return step_ == 0 || step_ == rules_.total_steps ||
         (rules_.eval_steps > 0 && step_ % rules_.eval_steps == 0);
}

bool StepScript::EvalDue() const { return rules_.has_eval && !evaluated_ && IsBoundary(); }

bool StepScript::GenerateDue() const { return rules_.has_prompts && !generated_ && IsBoundary(); }

bool StepScript::SnapshotDue() const {
  if (snapshotted_) return false;
  if (snapshot_requested_ || step_ >= end_ || (rules_.test_save && step_ == 1)) return true;
  return SnapshotByCount() && !saving_;
}

bool StepScript::SnapshotByCount() const {
  return owed_ || (rules_.save_steps > 0 && step_ % rules_.save_steps == 0);
}

Action StepScript::next() const {
  if (cut_) return Action::kEnd;
  if (EvalDue()) return Action::kEval;
  if (GenerateDue()) return Action::kGenerate;
  if (SnapshotDue()) return Action::kSnapshot;
  return step_ >= end_ ? Action::kEnd : Action::kTrain;
}

void StepScript::Advance() {
  switch (next()) {
    case Action::kTrain:
      owed_ = !snapshotted_ && SnapshotByCount();
      ++step_;
      evaluated_ = generated_ = snapshotted_ = snapshot_requested_ = false;
      break;
    case Action::kEval:
      evaluated_ = true;
      break;
    case Action::kGenerate:
      generated_ = true;
      break;
    case Action::kSnapshot:
      snapshotted_ = true;
      owed_ = false;
      break;
    case Action::kEnd:
      break;
  }
}

void StepScript::EndAt(int64_t step) { end_ = std::min(end_, std::max(step, step_)); }

void StepScript::EndNow() { cut_ = true; }

void StepScript::RequestSnapshot() { snapshot_requested_ = true; }

}  // namespace coxswain::driver
