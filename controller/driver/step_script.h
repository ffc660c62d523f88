// The order of a job's commands: train, evaluate, generate, snapshot, end. No clock, no I/O.
#ifndef COXSWAIN_CONTROLLER_DRIVER_STEP_SCRIPT_H_
#define COXSWAIN_CONTROLLER_DRIVER_STEP_SCRIPT_H_

#include <cstdint>

namespace coxswain::driver {

enum class Action { kTrain, kEval, kGenerate, kSnapshot, kEnd };

struct ScriptRules {
  int64_t total_steps = 0;
  int64_t eval_steps = 0;  // 0: only at step 0 and the end
  int64_t save_steps = 0;  // 0: only at the end
  bool test_save = false;  // a snapshot after the first step too
  bool has_eval = false;
  bool has_prompts = false;  // answered where an evaluation is due
};

// At a boundary (n steps issued) the order is: evaluation if due, answers if due, snapshot if due,
// then the step or the end. A checkpoint of step n therefore always includes the evaluation at n.
class StepScript {
 public:
  // `start_step` > 0: a checkpoint of that step is loaded, its evaluation and snapshot are done.
  StepScript(const ScriptRules& rules, int64_t start_step);

  Action next() const;
  // kTrain: 0-based step to train. Others: number of finished steps it belongs to.
  int64_t step() const { return step_; }
  void Advance();  // past next(), which must not be kEnd

  // Ends at boundary `step`, or at the current one when that is later. An earlier end stays.
  void EndAt(int64_t step);
  // Ends here without a snapshot (cancel).
  void EndNow();
  // A snapshot at the current boundary although none is due.
  void RequestSnapshot();
  // While a checkpoint is being written the one that is due only because so many steps have passed
  // is owed instead: it is taken at the boundary where the other is finished. All others wait.
  void SetSaving(bool saving) { saving_ = saving; }
  bool owes_snapshot() const { return owed_; }
  int64_t end_step() const { return end_; }

 private:
  bool IsBoundary() const;  // an evaluation is due here
  bool EvalDue() const;
  bool GenerateDue() const;
  bool SnapshotDue() const;
  bool SnapshotByCount() const;  // due by save_steps, here or at an earlier boundary

  ScriptRules rules_;
  int64_t step_;
  int64_t end_;
  bool evaluated_;    // at this boundary
  bool generated_;    // at this boundary
  bool snapshotted_;  // at this boundary
  bool snapshot_requested_ = false;
  bool saving_ = false;
  bool owed_ = false;
  bool cut_ = false;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_STEP_SCRIPT_H_
