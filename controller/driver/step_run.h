// RUNNING: one command stream per rank, a credit window, strict order, and what the answers mean.
#ifndef COXSWAIN_CONTROLLER_DRIVER_STEP_RUN_H_
#define COXSWAIN_CONTROLLER_DRIVER_STEP_RUN_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "controller/checkpoint/run_state.h"
#include "controller/driver/answer_queue.h"
#include "controller/driver/answers.h"
#include "controller/driver/collective_watch.h"
#include "controller/driver/command_window.h"
#include "controller/driver/commit_step.h"
#include "controller/driver/curriculum.h"
#include "controller/driver/deal_bins.h"
#include "controller/driver/deps.h"
#include "controller/driver/errors.h"
#include "controller/driver/gang.h"
#include "controller/driver/gang_pace.h"
#include "controller/driver/step_script.h"
#include "controller/driver/step_timing.h"

namespace coxswain::driver {

struct StepRunArgs {
  const Curriculum* curriculum = nullptr;  // outlives the run
  ScriptRules rules;
  checkpoint::RunState start;       // of the checkpoint, default: from step 0
  std::optional<int64_t> patience;  // early stopping; makes each evaluation a barrier
  int64_t end_at = 0;               // end after this many finished steps, 0: the whole job
};

// Called on the loop, in command order. After on_end or on_failed nothing more is called.
struct StepRunEvents {
  std::function<void(const StepResult&, const InFlight&)> on_step;
  std::function<void(const checkpoint::EvalPoint&, bool is_best)> on_eval;
  // Another piece of the answers at `step` finished steps has come; `seconds` since the first
  // command, `whole` with the last.
  std::function<void(int64_t step, const Answers&, double seconds, bool whole)> on_answers;
  // Every rank holds the snapshot of `step` finished steps; answer with SaveFinished. `sent_ns`:
  // when the command went out.
  std::function<void(int64_t step, int64_t sent_ns)> on_snapshot;
  // The snapshot that was due at `step` finished steps is taken later, when the checkpoint that is
  // being written is finished.
  std::function<void(int64_t step)> on_snapshot_delayed;
  std::function<void()> on_end;  // everything asked for is done; the streams are half-closed
  std::function<void(const v1::Error&)> on_failed;
};

// Lives as long as its gang may answer; destroying it cancels the streams.
class StepRun {
 public:
  StepRun(const Deps& deps, const Gang* gang, StepRunArgs args, StepRunEvents events);
  void Start();

  void Drain(bool with_snapshot);  // no new TRAIN from now on
  void SaveFinished();             // the checkpoint of the last on_snapshot is written, or given up
  // A rank is gone although its stream has not said so.
  void RankFailed(int rank, const absl::Status& status);
  // Everything still outstanding is given up (drain deadline).
  void GiveUp(const absl::Status& status);

  const checkpoint::RunState& state() const { return state_; }
  const StepTiming& timing() const { return timing_; }
  const GangPace& pace() const { return pace_; }
  // As GangPace::NewStraggler.
  std::optional<int> NewStraggler() { return pace_.NewStraggler(); }
  bool quiet() const { return window_.empty(); }                  // no command is outstanding
  bool at_end() const { return script_.next() == Action::kEnd; }  // none will be sent any more

 private:
  void Pump();
  bool MaySend(Action action) const;
  void Send(Action action);
  void Advance();  // the script
  // Of the rank with the most bins.
  int64_t MicroSteps(const InFlight& command) const;
  void SendTrain(InFlight& command);
  void SendEvalPart(InFlight& command);
  void SendQuestions(InFlight& command);
  bool LeaveOutQuestions();  // where every answer has ended before its last piece
  void SendSnapshot(InFlight& command);
  void SetSaving(bool saving);
  std::vector<BinForm> Deal(std::span<const BinSize> bins, InFlight* command) const;
  void Broadcast(InFlight& command, v1::Command shared,
                 const std::function<void(int rank, v1::Command* own)>& fill);
  void TakeAnswers();
  void Listen();
  bool OnEvent(const Answer& answer);
  void Complete(const InFlight& command);
  void CompleteTrain(const InFlight& command);
  void CompleteEval(const InFlight& command);
  void CompleteAnswers(const InFlight& command);
  void CompleteSnapshot(const InFlight& command);
  void End();
  void AddError(v1::Error error, bool first_hand = false);
  std::optional<Suspect> LookForSuspect() const;
  void Conclude();
  void CheckHang();
  std::chrono::milliseconds StallsSince(const InFlight& command) const;
  Where At(int rank) const;

  const Deps deps_;
  const Gang* const gang_;
  const StepRunArgs args_;
  const StepRunEvents events_;
  StepScript script_;
  CommandWindow window_;
  checkpoint::RunState state_;
  StepTiming timing_;
  GangPace pace_;
  int64_t pace_skips_ = StepTiming::kWarmUpSteps;  // steps still to be left out of pace_
  std::vector<std::unique_ptr<CommandStream>> streams_;

  std::vector<BinSize> eval_bins_;
  std::vector<std::span<const BinSize>> eval_parts_;  // bins of each EVAL command
  size_t next_eval_part_ = 0;
  bool eval_outstanding_ = false;
  EvalSum eval_sum_;
  int64_t eval_began_ns_ = -1;  // of the evaluation in progress, -1: none
  int64_t asked_tokens_ = 0;    // of every answer at this boundary; 0: nothing was sent yet
  Answers written_answers_;
  int64_t answers_began_ns_ = 0;
  int64_t answered_step_ = -1;             // of the newest answers that were told whole
  bool saving_ = false;                    // as the script knows
  std::vector<std::string> skipped_bins_;  // "step 7: 3, 5" of the last skipped steps

  bool ended_ = false;
  bool written_ = false;  // a command, since answers were taken
  std::vector<v1::Error> errors_;
  std::vector<bool> rank_reported_;
  int64_t last_progress_ns_ = 0;
  int64_t last_commit_ns_ = 0;
  Lifetime lifetime_;
  const std::shared_ptr<AnswerQueue> answers_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_STEP_RUN_H_
