// Pure decisions about a worker: is it silent, is it started again.
#ifndef COXSWAIN_WORKER_SUPERVISOR_RESTART_POLICY_H_
#define COXSWAIN_WORKER_SUPERVISOR_RESTART_POLICY_H_

#include <chrono>
#include <optional>

namespace coxswain::supervisor {

// Decides when a worker has been silent for too long. Pure: no clock, no process.

// Judges the workers of one supervisor at every turn of its loop. A stall of the supervisor or of
// the whole machine (SIGSTOP of all, a paused container) does not count as silence of a worker:
// every worker gets the time by which a turn was too long.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;
  // The last sign of life of one process, or its start.
  struct LastSign {
    Clock::time_point at;
    bool given = false;
  };
  // A process gives no sign while its program and libraries load from a cold disk.
  static constexpr int kLoading = 10;  // multiple of the limit

  // With `limit` 0 no worker is ever silent for too long.
  Silence(std::chrono::milliseconds limit, std::chrono::milliseconds longest_turn)
      : limit_(limit), longest_turn_(longest_turn) {}

  void BeginTurn(Clock::time_point now);
  // Call it once per turn and process. `gave_sign`: the process gave a sign since the previous
  // turn. A process that never gave one is still loading, and may be silent kLoading times as long.
  bool TooLong(bool gave_sign, LastSign* last) const;
  // True when the supervisor stood still for a second or more, in this turn or within the last 5
  // seconds.
  bool JustStalled() const;

 private:
  const std::chrono::milliseconds limit_, longest_turn_;
  std::optional<Clock::time_point> turn_;
  Clock::duration stalled_{0};
  std::optional<Clock::time_point> stall_end_;  // end of the last long stall
};

// Decides when an ended worker is started again. Pure: no clock, no process.
struct RestartPolicy {
  std::chrono::milliseconds first_delay{500};
  std::chrono::milliseconds last_delay{30000};
  std::chrono::milliseconds healthy_after{60000};  // a life this long forgives earlier failures
};

// Consecutive short lives of one worker.
struct Failures {
  int count = 0;
};

// The delay before the next start of a worker that lived for `lived` and ended with waitpid's
// `wait_status`. None: do not start the worker again, after exit 0 (drained), 64 (bad
// configuration) or 77 (refused).
std::optional<std::chrono::milliseconds> NextStart(const RestartPolicy& policy, int wait_status,
                                                   std::chrono::milliseconds lived,
                                                   Failures* failures);

// Exit code, or 128 + signal.
int ExitCode(int wait_status);

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_RESTART_POLICY_H_
