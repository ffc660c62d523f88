// Which preparations may run beside each other.
#ifndef COXSWAIN_CONTROLLER_DRIVER_PREPARATION_PREPARATION_GATE_H_
#define COXSWAIN_CONTROLLER_DRIVER_PREPARATION_PREPARATION_GATE_H_

#include <deque>
#include <functional>

namespace coxswain::driver {

// Loop thread only. A preparation that may have ended a controller runs alone. If it ends this one
// too, no other preparation is under way that could be blamed. All others run in the order in which
// they came.
class PreparationGate {
 public:
  // Calls `begin` now, or when the preparations before it have left.
  void Enter(bool alone, std::function<void()> begin);
  // Call it when a preparation that began has ended.
  void Leave();

 private:
  struct Waiting {
    bool alone = false;
    std::function<void()> begin;
  };
  void LetIn();

  std::deque<Waiting> waiting_;
  int running_ = 0;
  bool alone_ = false;  // the one that runs wants to be
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_PREPARATION_PREPARATION_GATE_H_
