// One gang, from reserved workers to its end: how it forms, its commands and their answers, and
// how it is noticed that something is wrong. It does not know what its ranks train.
#ifndef COXSWAIN_CONTROLLER_GANG_GANG_SESSION_H_
#define COXSWAIN_CONTROLLER_GANG_GANG_SESSION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/failure/errors.h"
#include "controller/gang/answer_queue.h"
#include "controller/gang/collective_watch.h"
#include "controller/gang/command_window.h"
#include "controller/gang/formation.h"
#include "controller/gang/gang.h"
#include "controller/gang/gang_pace.h"
#include "controller/gang/program.h"
#include "controller/gang/rank_errors.h"
#include "controller/gang/stall_watch.h"
#include "controller/gang/step_timing.h"

namespace coxswain::gang {

// Called on the loop. After `ended` or `failed` nothing more is called.
struct SessionEvents {
  std::function<void()> formed;      // the ranks are connected: Run may begin
  std::function<void()> taken = {};  // the program has taken the answers of a command
  std::function<void()> stepped;     // these were a step's
  // A rank failed so; `failed` says what the cause is as soon as that is known, or Conclude is
  // called.
  std::function<void(const v1::Error&)> suspected;
  std::function<void(const v1::Error&)> failed;
  std::function<void()> ended;  // the program has ended, STOP is on its way
  std::function<void(const std::string& message)> told =
      {};  // what people should know; may be empty
};

// Loop thread only. Destroying a session cuts its streams and callbacks and tells its ranks
// nothing, as when the controller stops; an attempt ends by Abort or Release.
class GangSession {
 public:
  // `gang` has its job, term and ranks.
  GangSession(const Deps& deps, Gang gang, SessionEvents events);

  const Gang& gang() const { return gang_; }
  const GangPace& pace() const { return pace_; }
  RankView View(int rank) const;
  // As GangPace::NewStraggler.
  std::optional<int> NewStraggler() { return pace_.NewStraggler(); }

  // Its number and what it is to compute. Both must be durable before Form.
  void Number(uint64_t epoch, std::string plan_hash, std::string plan_bytes, int64_t start_step);
  void Form(FormArgs args);
  // In place of these two, where another controller formed `gang`, whose number, plan and
  // fingerprint it has: answers up to `taken` are no longer needed, and the commands up to `sent`,
  // which some ranks have, are sent again. Run may begin at once.
  void Readopt(uint64_t taken, uint64_t sent);
  // After `formed`, or Readopt. The program lives until the session is gone.
  void Run(std::shared_ptr<Program> program);

  uint64_t taken() const { return taken_; }  // the newest command that was, 0: none
  // Some rank has the next command already, from the controller before.
  bool sends_again() const { return window_.sends_again(); }
  void GoOn();                       // ask the program for a command again
  void Drain(bool with_checkpoint);  // what is outstanding has its time to finish
  // A worker is gone although its streams have not said so; ignored where it is none of its own.
  void WorkerLost(const std::string& incarnation, const std::string& reason);
  // Decides now, by the errors that are known. Does nothing when there is none.
  void Conclude();

  // Ends the gang at once. Every rank is told to abort, and is free when it has confirmed. An epoch
  // that no message has carried is only given back.
  static void Abort(std::shared_ptr<GangSession> session, const std::string& reason);
  // Ends the gang in good order. The session lives until every rank has answered, because ranks
  // would take cancelled streams for a failure.
  static void Release(std::shared_ptr<GangSession> session);

 private:
  static constexpr int kMostCredits = 8;

  void OnFormed(std::optional<v1::Error> error);
  int Credits() const;  // commands that may be in flight now
  void Pump();
  void Send(Order order);
  void Broadcast(const InFlight& command, Order order);
  void TakeAnswers();
  bool OnAnswer(const Answer& answer);
  void Complete(InFlight command);
  void RankFailed(int rank, const absl::Status& status);
  void GiveUp(v1::Error error);
  void Noticed(const v1::Error& error);
  void CheckHang();
  std::optional<Suspect> LookForSuspect() const;
  absl::Status Silence() const;
  std::chrono::milliseconds Still() const;
  std::chrono::milliseconds StallsSince(const InFlight& command) const;
  failure::Where At(int rank) const;
  void Change(state::GangEvent event);

  const Deps deps_;
  Gang gang_;
  const SessionEvents events_;
  std::unique_ptr<Formation> formation_;
  std::shared_ptr<Program> program_;
  std::vector<std::unique_ptr<CommandStream>> streams_;
  CommandWindow window_;
  RankErrors errors_;
  StepTiming timing_;
  std::optional<StallWatch> watch_;  // while it runs
  GangPace pace_;
  int64_t pace_skips_ = StepTiming::kWarmUpSteps;  // steps still to be left out of pace_
  uint64_t taken_ = 0;
  bool over_ = false;     // ended or failed
  bool written_ = false;  // a command, since answers were taken
  int64_t last_progress_ns_ = 0;
  int64_t last_done_ns_ = 0;       // of what takes its turn
  std::vector<int64_t> heard_ns_;  // of each rank: its newest answer, or when the gang began to run
  Loop::TimerId drain_timer_ = 0;
  Lifetime lifetime_;
  std::shared_ptr<AnswerQueue> answers_;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_GANG_SESSION_H_
