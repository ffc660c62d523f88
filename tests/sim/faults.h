// What can befall a cluster, as a table: each kind draws its particulars from a number of its own,
// so that a schedule is the same whatever other faults it has.
#ifndef COXSWAIN_TESTS_SIM_FAULTS_H_
#define COXSWAIN_TESTS_SIM_FAULTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/draw.h"

namespace coxswain::sim {

class Simulation;

struct FaultKind {
  const char* name;  // its row in the coverage table
  // No gang may end for it: nothing is lost, only late, doubled or out of order.
  bool harmless;
  int weight;
  void (*inject)(Simulation& sim, Draw& draw);
  bool of_controller = false;  // of the controller, and what users may ask meanwhile
};

// Every kind.
std::span<const FaultKind> FaultKinds();

struct PlannedFault {
  int64_t at_ms = 0;  // from the start of the schedule
  const FaultKind* kind = nullptr;
  uint64_t draw = 0;
};

enum class FaultsOf { kAll, kHarmless, kController };

// `count` faults during `horizon_ms`, by time, of the kinds that `of` says.
std::vector<PlannedFault> PlanFaults(uint64_t seed, int64_t horizon_ms, int count, FaultsOf of);

// Lets them happen from now on. The simulation outlives them.
void LetHappen(const std::vector<PlannedFault>& faults, Simulation* sim);

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAULTS_H_
