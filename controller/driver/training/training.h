// The program of supervised fine-tuning: steps, evaluations, answers to sample prompts, snapshots.
// No clock, no I/O.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINING_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "controller/checkpoint/run_state.h"
#include "controller/driver/training/asking.h"
#include "controller/driver/training/batch.h"
#include "controller/driver/training/commit_step.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/kl_asking.h"
#include "controller/driver/training/proof_asking.h"
#include "controller/driver/training/reference_asking.h"
#include "controller/driver/training/step_script.h"
#include "controller/driver/training/training_position.h"
#include "controller/gang/gang.h"
#include "controller/gang/program.h"
#include "coxswain/v1/registry_service.pb.h"

namespace coxswain::driver {

struct TrainingArgs {
  std::shared_ptr<const Curriculum> curriculum = nullptr;
  ScriptRules rules = {};
  checkpoint::RunState start = {};       // of the checkpoint, default: from step 0
  std::optional<int64_t> patience = {};  // early stopping; makes each evaluation a barrier
  checkpoint::EvalMetric metric = checkpoint::EvalMetric::kLoss;  // that it compares
  int64_t end_at = 0;                     // end after this many finished steps, 0: the whole job
  std::optional<int64_t> drains_at = {};  // after so many it was drained with a checkpoint
  BinWork work = {};                      // of the plan
  int64_t micro_batch_bins = 1;           // of the plan
  // Continue at the position where an earlier controller left this gang; `start` is its `run`.
  std::optional<TrainingPosition> position = {};
  std::shared_ptr<const ReferenceSums> references = nullptr;  // kept before; null: none were
  // The commands behind `position` that ranks got from that controller. They are sent again in this
  // order.
  std::vector<v1::CommandKind> sent_before = {};
};

class Training;

// Called on the loop, in command order. `state` is the state of the run after that command.
struct TrainingEvents {
  // A returned error ends the attempt.
  std::function<std::optional<v1::Error>(const StepResult& result, const Batch& batch,
                                         const gang::InFlight& command,
                                         const checkpoint::RunState& state)>
      on_step;
  // `preference`: means, of a loss of documents.
  std::function<void(const checkpoint::EvalPoint& point,
                     const std::optional<v1::Preference>& preference, bool is_best,
                     const checkpoint::RunState& state)>
      on_eval;
  Asking::Told on_answers;
  // The sums of a job that keeps references; steps wait for ReferencesKept.
  ReferenceAsking::Told on_references;
  // Every rank holds the snapshot of the current step of `training`. The callee calls SaveFinished
  // when the checkpoint is written. `sent_ns`: when the command was sent.
  std::function<void(Training* training, int64_t sent_ns)> on_snapshot;
  // The snapshot that was due at `step` finished steps is delayed until the checkpoint that is
  // being written is finished.
  std::function<void(int64_t step)> on_snapshot_delayed;
  // When everything is done and its last checkpoint is written. Without `wanted` nothing is asked.
  ProofAsking::Events proof = {};
};

class Training final : public gang::Program {
 public:
  // `gang` outlives every call of Next.
  Training(const gang::Gang* gang, TrainingArgs args, TrainingEvents events);

  // The checkpoint of the last on_snapshot is written, or given up. Next may then have a command.
  void SaveFinished();
  // What on_references got is durable.
  void ReferencesKept() { references_.Kept(); }
  ProofAsking& proof() { return proof_; }  // of a training that is complete
  // All is trained and saved; only its proof may be left.
  bool is_done() const { return complete() && at_end() && !saving_; }
  bool at_end() const { return script_.next() == Action::kEnd; }  // no command will come any more
  const checkpoint::RunState& state() const { return state_; }
  // State of the run in the checkpoint that is being written, from on_snapshot to SaveFinished.
  const std::optional<checkpoint::RunState>& saving_run() const { return saving_run_; }

  std::optional<gang::Order> Next() override;
  std::optional<v1::Error> Take(const gang::InFlight& command) override;
  void Drain(bool with_checkpoint) override;
  int64_t Boundary() const override { return script_.step(); }
  bool saving() const override { return saving_; }
  std::optional<gang::ProgramPosition> Position() const override;
  bool MayGoAhead() const override { return !script_.LeavesSnapshot(); }
  bool complete() const override;
  bool exports() const override { return true; }
  const char* Ending() const override;

 private:
  struct Sent {
    std::optional<Action> action = Action::kTrain;  // nothing: it asks for references or a proof
    bool proves = false;
    bool saved = false;      // a snapshot whose checkpoint was finished before
    bool first_part = true;  // an evaluation may take several commands
    bool last_part = true;
    std::shared_ptr<const Batch> batch = nullptr;
    ScriptPlace before = {};  // of the script
  };

  std::optional<gang::Order> NextOrder();
  std::optional<gang::Order> AskReferences();
  bool WantsProof() const { return complete() && !stops_early_ && !proof_.ended(); }
  std::optional<gang::Order> AskProof();
  bool WantsKl() const;
  bool TakesKl() const;
  std::optional<gang::Order> AskKl();
  bool EvalTakenInPart() const;
  bool MaySend(Action action) const;
  bool SnapshotSentBefore() const;  // and not sent again
  void Advance();                   // the script
  void SetSaving(bool saving);
  gang::Order TrainOrder();
  v1::DocumentScalars EvalScalars() const;
  gang::Order EvalOrder();
  gang::Order SnapshotOrder();
  std::optional<gang::Order> AnswersOrder();
  std::shared_ptr<const Batch> Deal(std::span<const BinSize> bins) const;
  std::optional<v1::Error> TakeStep(const Batch& batch, const gang::InFlight& command);
  std::optional<v1::Error> TakeEval(const Sent& sent, const gang::InFlight& command);
  std::optional<v1::Error> CheckSkipped(const StepResult& result, const Batch& batch);

  const gang::Gang* const gang_;
  const TrainingArgs args_;
  const TrainingEvents events_;
  StepScript script_;
  checkpoint::RunState state_;
  Asking asking_;
  std::deque<Sent> in_flight_;
  std::deque<v1::CommandKind> again_;  // TrainingArgs::sent_before, still to be sent

  const std::vector<BinSize> eval_bins_;
  const std::vector<std::span<const BinSize>> eval_parts_;  // bins of each EVAL command
  ReferenceAsking references_;
  KlAsking kl_;
  ProofAsking proof_;
  size_t next_eval_part_ = 0;
  bool eval_outstanding_ = false;
  EvalSum eval_sum_;
  int64_t eval_began_ns_ = 0;  // of the evaluation in progress
  bool drains_ = false;        // with a checkpoint
  bool stops_early_ = false;   // it was told to, with or without one
  bool saving_ = false;        // as the script knows, unless it sends again
  std::optional<checkpoint::RunState> saving_run_;
  std::vector<std::string> skipped_bins_;  // "step 7: 3, 5" of the last skipped steps
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINING_H_
