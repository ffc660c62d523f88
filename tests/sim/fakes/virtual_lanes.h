// The threads beside the loop in virtual time: work takes time, and a lane has as many hands as in
// Lanes. What work changes, it changes at one moment of that time, drawn at random; its completion
// is a task of its own.
#ifndef COXSWAIN_TESTS_SIM_FAKES_VIRTUAL_LANES_H_
#define COXSWAIN_TESTS_SIM_FAKES_VIRTUAL_LANES_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <utility>

#include "controller/runtime/lanes.h"
#include "controller/runtime/loop.h"
#include "tests/sim/agenda.h"

namespace coxswain::sim {

class VirtualLanes {
 public:
  VirtualLanes(Agenda* agenda, uint64_t seed) : agenda_(agenda), random_(seed) {}

  // Of every work, at most; 0: none takes time.
  void set_most_ms(int64_t most_ms) { most_ms_ = most_ms; }
  // `done` is posted to `loop` unless Clear comes before it.
  void Run(Loop* loop, Lane lane, Loop::Task work, Loop::Task done);
  void Clear();  // as at a crash: what waits and what runs is gone

 private:
  struct Job {
    Loop* loop;
    Loop::Task work, done;
  };
  struct Hands {
    std::deque<Job> waiting;
    int busy = 0;
  };
  void Start(Hands& hands, int threads);
  int64_t Draw();

  Agenda* const agenda_;
  std::mt19937_64 random_;
  int64_t most_ms_ = 0;
  uint64_t generation_ = 0;
  std::array<Hands, kNumLanes> lanes_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_VIRTUAL_LANES_H_
