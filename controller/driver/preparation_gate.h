// Which preparations may run beside each other.
#ifndef COXSWAIN_CONTROLLER_DRIVER_PREPARATION_GATE_H_
#define COXSWAIN_CONTROLLER_DRIVER_PREPARATION_GATE_H_

#include <deque>
#include <functional>

namespace coxswain::driver {

// Loop thread only. One that may have ended a controller runs alone: should it end this one too,
// no other is under way that would be taken for the cause. Otherwise in the order in which they
// came.
class PreparationGate {
 public:
  // Calls `begin` now, or when those before it have left.
  void Enter(bool alone, std::function<void()> begin);
  // One that began is over.
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

#endif  // COXSWAIN_CONTROLLER_DRIVER_PREPARATION_GATE_H_
