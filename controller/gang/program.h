// Decides which commands a gang gets and what its answers mean. The gang's session knows neither.
#ifndef COXSWAIN_CONTROLLER_GANG_PROGRAM_H_
#define COXSWAIN_CONTROLLER_GANG_PROGRAM_H_

#include <functional>
#include <optional>
#include <string>

#include "controller/gang/command_window.h"
#include "coxswain/v1/common.pb.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::gang {

// One command to every rank.
struct Order {
  v1::Command command = {};  // what all ranks get of it; fence and number are the session's
  // Adds what one rank alone gets; empty: nothing. Called on several threads at once, before the
  // program is asked for another order.
  std::function<void(int rank, v1::Command* own)> fill = {};
  Turn turn = Turn::kStep;
  const char* phase = "run";  // a literal: what it is, as v1::Error names it
  int64_t step = 0;           // that it belongs to, for people
};

// The last order of a program.
inline Order StopOrder(int64_t step) {
  Order order{.turn = Turn::kBetween, .phase = "stop", .step = step};
  order.command.mutable_stop();
  return order;
}

// The position from which a program of another controller continues the same gang.
struct ProgramPosition {
  std::string state;  // as the program reads it
  // Every command is sent again, from the first one on; else those behind the ones taken.
  bool from_first = false;
};

// Loop thread only. Training (controller/driver/training/training.h) and Generation.
class Program {
 public:
  virtual ~Program() = default;

  // The next command, which goes out now. Nothing: it waits for answers, or for a checkpoint.
  // After STOP it is not asked again.
  virtual std::optional<Order> Next() = 0;
  // Every rank has answered the oldest command that was not taken yet. What comes back ends the
  // attempt.
  virtual std::optional<v1::Error> Take(const InFlight& command) = 0;
  // No new step from now on; with a checkpoint of what is done, where it has such. One that stops
  // already with a checkpoint goes on doing so.
  virtual void Drain(bool with_checkpoint) = 0;
  // The finished steps after which Drain with a checkpoint stops.
  virtual int64_t Boundary() const = 0;
  // Ranks are at a checkpoint, which may keep one from the next command.
  virtual bool saving() const = 0;

  // Nothing: none can go on from this place, but from the one before.
  virtual std::optional<ProgramPosition> Position() const = 0;
  // Whether Next may be asked early, for more than keeps ranks busy: false where what comes next
  // still depends on what happens meanwhile.
  virtual bool MayGoAhead() const = 0;

  // All that its job asks is done; else it was drained, or only so many steps were asked for.
  virtual bool complete() const = 0;
  // Done, it leaves a checkpoint to export from.
  virtual bool exports() const = 0;
  // Why it has ended, for people: "all steps are done".
  virtual const char* Ending() const = 0;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_PROGRAM_H_
