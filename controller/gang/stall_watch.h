// Whether the ranks that were asked for something long get on with it, from what heartbeats say of
// the work that each process has done.
#ifndef COXSWAIN_CONTROLLER_GANG_STALL_WATCH_H_
#define COXSWAIN_CONTROLLER_GANG_STALL_WATCH_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/gang/gang.h"

namespace coxswain::gang {

// Loop thread only.
class StallWatch {
 public:
  static constexpr std::chrono::seconds kPeriod{1};
  static constexpr std::chrono::seconds kTold{60};

  enum class Of { kWork, kSave };  // ranks train while they save

  // The clocks of all ranks begin now. `gang` outlives it.
  StallWatch(const Deps& deps, const Gang* gang, Of of);

  // Reads the newest heartbeats; every kPeriod.
  void Look();

  // For how long `rank` has got on with nothing.
  std::chrono::milliseconds Still(int rank) const;

  // One of the ranks that are `missing` has stood still for longer than `limit`. The message of the
  // DeadlineExceeded names it, `doing` ("loads its weights"), the time and the limit.
  struct Stalled {
    int rank = 0;
    absl::Status status;
  };
  std::optional<Stalled> Find(const std::vector<bool>& missing, std::chrono::milliseconds limit,
                              const std::string& doing) const;
  // Once for a watch: a missing rank has stood still for kTold. What to tell people of it.
  std::optional<std::string> ToTell(const std::vector<bool>& missing,
                                    std::chrono::milliseconds limit, const std::string& doing);

 private:
  struct Seen {
    uint64_t done = 0;
    int64_t since_ns = 0;
  };
  uint64_t Done(const v1::HeartbeatRequest& beat) const;
  std::optional<int> Stillest(const std::vector<bool>& missing) const;
  std::string Describe(int rank, std::chrono::milliseconds limit, const std::string& doing) const;

  const Deps deps_;
  const Gang* const gang_;
  const Of of_;
  std::vector<Seen> seen_;  // by rank
  bool told_ = false;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_STALL_WATCH_H_
