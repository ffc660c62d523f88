// How evenly the ranks of a gang work and how long they wait for commands, over the newest steps.
#ifndef COXSWAIN_CONTROLLER_GANG_GANG_PACE_H_
#define COXSWAIN_CONTROLLER_GANG_GANG_PACE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "controller/gang/command_window.h"

namespace coxswain::gang {

// Compute is what a rank does before it waits for others: forward and backward.
class GangPace {
 public:
  static constexpr int64_t kWindowSteps = 10;
  static constexpr size_t kWindows = 5;      // kept, and in a row until a straggler is reported
  static constexpr double kStraggler = 1.5;  // times the median of the other ranks

  struct Rank {
    double compute_seconds = 0;  // per step
    double idle_seconds = 0;     // per step: the engine waited for a command
  };
  struct Summary {
    int64_t steps = 0;  // 0: nothing is measured yet
    std::vector<Rank> ranks;
    int slowest = -1;                // rank with the most compute; -1: the gang has one rank
    double peer_median_seconds = 0;  // compute per step, median of the other ranks
    double control_idle_ratio = 0;   // median over ranks: idle / (idle + command)
    // Compute of the slowest over that of its peers; 1 with one rank.
    double slowest_ratio() const;
  };

  explicit GangPace(int world_size);

  // A committed TRAIN command. The first step, in which caches fill, should be left out.
  void Add(const InFlight& command);
  Summary summary() const;
  // Once per rank: the slowest, after it was kStraggler times slower than its peers in each of
  // kWindows windows in a row.
  std::optional<int> NewStraggler();

 private:
  struct Window {
    int64_t steps = 0;
    std::vector<double> compute, idle, busy;  // seconds, by rank
  };
  // Whether `rank` was slow in this window.
  static bool IsSlow(const Window& window, int rank);

  const int world_size_;
  std::deque<Window> windows_;  // the newest is being filled
  std::vector<bool> reported_;  // by rank
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_GANG_PACE_H_
