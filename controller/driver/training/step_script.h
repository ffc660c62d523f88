// The order of a job's commands: train, evaluate, generate, snapshot, end. No clock, no I/O.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_STEP_SCRIPT_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_STEP_SCRIPT_H_

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

// Where a script stands.
struct ScriptPlace {
  int64_t step = 0;         // to train next = steps issued
  int64_t end = 0;          // no step from here on
  bool evaluated = false;   // at this boundary
  bool generated = false;   // at this boundary
  bool snapshotted = true;  // at this boundary
  bool requested = false;   // a snapshot at this boundary
  bool owed = false;        // a snapshot of an earlier boundary
};

// At a boundary (n steps issued) the order is: evaluation if due, answers if due, snapshot if due,
// then the step or the end. A checkpoint of step n therefore always includes the evaluation at n.
class StepScript {
 public:
  // `start_step` > 0: a checkpoint of that step is loaded, its evaluation and snapshot are done.
  StepScript(const ScriptRules& rules, int64_t start_step);
  // Goes on from the place of another one with these rules.
  StepScript(const ScriptRules& rules, const ScriptPlace& place) : rules_(rules), at_(place) {}

  Action next() const;
  // kTrain: 0-based step to train. Others: number of finished steps it belongs to.
  int64_t step() const { return at_.step; }
  const ScriptPlace& place() const { return at_; }
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
  bool owes_snapshot() const { return at_.owed; }
  // next() is a step that leaves a snapshot behind, which is owed from then on.
  bool LeavesSnapshot() const;

 private:
  bool IsBoundary() const;  // an evaluation is due here
  bool EvalDue() const;
  bool GenerateDue() const;
  bool SnapshotDue() const;
  bool SnapshotByCount() const;  // due by save_steps, here or at an earlier boundary

  ScriptRules rules_;
  ScriptPlace at_;
  bool saving_ = false;
  bool cut_ = false;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_STEP_SCRIPT_H_
