// Commands in flight of one epoch: sequence numbers, credits, and which ranks answered. No I/O.
#ifndef COXSWAIN_CONTROLLER_GANG_COMMAND_WINDOW_H_
#define COXSWAIN_CONTROLLER_GANG_COMMAND_WINDOW_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::gang {

// How the time of a command is judged.
enum class Turn {
  kStep,     // one of many alike: their median says when one hangs
  kBetween,  // takes its time between steps
  kBeside,   // its time counts for the command behind it
};

struct InFlight {
  uint64_t seq = 0;
  Turn turn = Turn::kStep;
  const char* phase = "run";  // what it is, as v1::Error names it
  int64_t step = 0;           // that it belongs to
  int64_t sent_ns = 0;
  int64_t began_ns = 0;    // sent, and what went before it done; once every rank has answered
  int64_t done_ns = 0;     // when every rank had answered
  int64_t stalled_ns = 0;  // Loop::stalled_ns when it was sent
  std::vector<std::optional<v1::Done>> results = {};  // per rank

  // An earlier controller sent it. Its times mean nothing, because ranks may have kept the answers.
  bool again = false;
  int answered = 0;  // ranks in `results`

  int missing() const { return static_cast<int>(results.size()) - answered; }
  double seconds() const { return static_cast<double>(done_ns - began_ns) * 1e-9; }
};

// Ranks answer every command once and in order.
class CommandWindow {
 public:
  enum class Receipt { kAccepted, kDuplicate, kOutOfOrder };

  explicit CommandWindow(int world_size);

  // Call it before the first Push. Every rank has answered the numbers up to `answered`. Numbers up
  // to `sent` will be sent again.
  void GoOnBehind(uint64_t answered, uint64_t sent);

  // True when the oldest command that some rank has not answered is `credits` commands old. Never
  // true before every command that ranks already had was sent again.
  bool full(int credits) const { return size() >= credits && !sends_again(); }
  // The next number is one that some rank has already.
  bool sends_again() const { return last_seq_ < again_until_; }
  bool empty() const { return in_flight_.empty(); }
  int size() const { return static_cast<int>(in_flight_.size()); }
  // Takes the next number: 1, 2, ... without gaps.
  InFlight& Push(Turn turn, const char* phase, int64_t step);
  // An answer to a number already answered is kDuplicate; to one beyond the rank's next is
  // kOutOfOrder. Neither changes anything.
  Receipt Receive(int rank, uint64_t seq, const v1::Done& done);
  // The oldest command when every rank answered it. Results come out in order of seq.
  std::optional<InFlight> PopComplete();
  uint64_t answered(int rank) const { return answered_[rank]; }  // newest number, 0: none
  const InFlight* oldest() const { return in_flight_.empty() ? nullptr : &in_flight_.front(); }

 private:
  const int world_size_;
  uint64_t last_seq_ = 0;
  uint64_t again_until_ = 0;
  std::vector<uint64_t> answered_;  // per rank: highest seq answered
  std::deque<InFlight> in_flight_;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_COMMAND_WINDOW_H_
