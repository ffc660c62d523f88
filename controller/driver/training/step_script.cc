#include "controller/driver/training/step_script.h"

#include <algorithm>

namespace coxswain::driver {

StepScript::StepScript(const ScriptRules& rules, int64_t start_step)
    : rules_(rules),
      at_{.step = start_step,
          .end = rules.total_steps,
          .evaluated = start_step > 0,
          .generated = start_step > 0} {}

bool StepScript::IsBoundary() const {
  return at_.step == 0 || at_.step == rules_.total_steps ||
         (rules_.eval_steps > 0 && at_.step % rules_.eval_steps == 0);
}

bool StepScript::EvalDue() const { return rules_.has_eval && !at_.evaluated && IsBoundary(); }

bool StepScript::GenerateDue() const {
  return rules_.has_prompts && !at_.generated && IsBoundary();
}

bool StepScript::SnapshotDue() const {
  if (at_.snapshotted) return false;
  if (at_.requested || at_.step >= at_.end || (rules_.test_save && at_.step == 1)) return true;
  return SnapshotByCount() && !saving_;
}

bool StepScript::SnapshotByCount() const {
  return at_.owed || (rules_.save_steps > 0 && at_.step % rules_.save_steps == 0);
}

bool StepScript::LeavesSnapshot() const {
  return next() == Action::kTrain && !at_.owed && !at_.snapshotted && SnapshotByCount();
}

Action StepScript::next() const {
  if (cut_) return Action::kEnd;
  if (EvalDue()) return Action::kEval;
  if (GenerateDue()) return Action::kGenerate;
  if (SnapshotDue()) return Action::kSnapshot;
  return at_.step >= at_.end ? Action::kEnd : Action::kTrain;
}

void StepScript::Advance() {
  switch (next()) {
    case Action::kTrain:
      at_.owed = !at_.snapshotted && SnapshotByCount();
      ++at_.step;
      at_.evaluated = at_.generated = at_.snapshotted = at_.requested = false;
      break;
    case Action::kEval:
      at_.evaluated = true;
      break;
    case Action::kGenerate:
      at_.generated = true;
      break;
    case Action::kSnapshot:
      at_.snapshotted = true;
      at_.owed = false;
      break;
    case Action::kEnd:
      break;
  }
}

void StepScript::EndAt(int64_t step) { at_.end = std::min(at_.end, std::max(step, at_.step)); }

void StepScript::EndNow() { cut_ = true; }

void StepScript::RequestSnapshot() { at_.requested = true; }

}  // namespace coxswain::driver
