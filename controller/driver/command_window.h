// Commands in flight of one epoch: sequence numbers, credits, and which ranks answered. No I/O.
#ifndef COXSWAIN_CONTROLLER_DRIVER_COMMAND_WINDOW_H_
#define COXSWAIN_CONTROLLER_DRIVER_COMMAND_WINDOW_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "controller/driver/step_script.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::driver {

struct InFlight {
  uint64_t seq = 0;
  Action action = Action::kTrain;
  int64_t step = 0;        // as StepScript::step()
  bool first_part = true;  // an evaluation, or answers, may take several commands
  bool last_part = true;
  int64_t loss_denominator = 0;  // kTrain
  int64_t tokens = 0;            // of all ranks
  int64_t sent_ns = 0;
  int64_t stalled_ns = 0;                        // Loop::stalled_ns when it was sent
  std::vector<std::vector<int64_t>> bins;        // bin ids sent, per rank
  std::vector<std::optional<v1::Done>> results;  // per rank

  int answered = 0;  // ranks in `results`

  int missing() const { return static_cast<int>(results.size()) - answered; }
};

// Ranks answer every command once and in order; the window is full while the oldest command that
// some rank has not answered is `credits` commands old.
class CommandWindow {
 public:
  enum class Receipt { kAccepted, kDuplicate, kOutOfOrder };

  CommandWindow(int world_size, int credits);

  bool full() const { return static_cast<int>(in_flight_.size()) >= credits_; }
  bool empty() const { return in_flight_.empty(); }
  int size() const { return static_cast<int>(in_flight_.size()); }
  // Takes the next number: 1, 2, ... without gaps.
  InFlight& Push(Action action, int64_t step);
  // An answer to a number already answered is kDuplicate; to one beyond the rank's next is
  // kOutOfOrder. Neither changes anything.
  Receipt Receive(int rank, uint64_t seq, const v1::Done& done);
  // The oldest command when every rank answered it. Results come out in order of seq.
  std::optional<InFlight> PopComplete();
  const InFlight* oldest() const { return in_flight_.empty() ? nullptr : &in_flight_.front(); }

 private:
  const int world_size_;
  const int credits_;
  uint64_t last_seq_ = 0;
  std::vector<uint64_t> answered_;  // per rank: highest seq answered
  std::deque<InFlight> in_flight_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_COMMAND_WINDOW_H_
