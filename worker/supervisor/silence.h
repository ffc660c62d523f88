// Decides when a worker has been silent for too long. Pure: no clock, no process.
#ifndef COXSWAIN_WORKER_SUPERVISOR_SILENCE_H_
#define COXSWAIN_WORKER_SUPERVISOR_SILENCE_H_

#include <chrono>
#include <optional>

namespace coxswain::supervisor {

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

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_SILENCE_H_
