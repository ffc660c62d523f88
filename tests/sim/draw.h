// The numbers of one fault or schedule, from a seed.
#ifndef COXSWAIN_TESTS_SIM_DRAW_H_
#define COXSWAIN_TESTS_SIM_DRAW_H_

#include <cstdint>

namespace coxswain::sim {

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  // 1..most
  int64_t Upto(int64_t most) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(most)) + 1;
  }
  // 0..count-1
  int Below(int count) { return static_cast<int>(Next() % static_cast<uint64_t>(count)); }

 private:
  uint64_t Next() {  // Source: SplitMix64, Steele et al. 2014
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_DRAW_H_
