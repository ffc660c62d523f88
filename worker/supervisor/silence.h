// When a worker has been silent for too long. Pure: no clock, no process.
#ifndef COXSWAIN_WORKER_SUPERVISOR_SILENCE_H_
#define COXSWAIN_WORKER_SUPERVISOR_SILENCE_H_

#include <chrono>
#include <optional>

namespace coxswain::supervisor {

// Judges the workers of one supervisor, turn by turn of its loop. A stall of the supervisor, or of
// the whole machine (SIGSTOP of all, a container that was paused), is no silence of a worker: what
// a turn took longer than it may is given to all.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;
  // Of one process: when it gave its last sign, or was started.
  struct LastSign {
    Clock::time_point at;
    bool given = false;
  };
  // Loading a program and its libraries from a cold disk gives no sign.
  static constexpr int kLoading = 10;  // times the limit

  // With `limit` 0 nobody is ever silent for too long.
  Silence(std::chrono::milliseconds limit, std::chrono::milliseconds longest_turn)
      : limit_(limit), longest_turn_(longest_turn) {}

  void BeginTurn(Clock::time_point now);
  // Called once a turn and process; `gave_sign` says whether the process gave a sign since the turn
  // before. A process that never gave one is being loaded, and has kLoading times as long.
  bool TooLong(bool gave_sign, LastSign* last) const;
  // True when the supervisor stood still for a second or more in this turn or in one of the last 5
  // seconds.
  bool JustStalled() const;

 private:
  const std::chrono::milliseconds limit_, longest_turn_;
  std::optional<Clock::time_point> turn_;
  Clock::duration stalled_{0};
  std::optional<Clock::time_point> stall_end_;  // of the last long one
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_SILENCE_H_
