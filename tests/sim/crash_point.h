// Where the controller dies: between two of its effects on the world, which are writes and
// messages. The code of a dead controller runs to the end of its task, but nothing of it arrives.
#ifndef COXSWAIN_TESTS_SIM_CRASH_POINT_H_
#define COXSWAIN_TESTS_SIM_CRASH_POINT_H_

namespace coxswain::sim {

class CrashPoint {
 public:
  // `effects` more happen; the one after them finds the controller dead.
  void Arm(int effects) { left_ = effects; }
  // Asked before every effect. False: it does not happen.
  bool Pass() {
    if (dead_ || left_ < 0) return !dead_;
    dead_ = left_-- == 0;
    return !dead_;
  }
  void Die() { dead_ = true; }
  bool dead() const { return dead_; }
  void Revive() {
    dead_ = false;
    left_ = -1;
  }

 private:
  int left_ = -1;  // -1: not armed
  bool dead_ = false;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_CRASH_POINT_H_
