// What tests of a job's life in virtual time share.
#ifndef COXSWAIN_TESTS_SUPPORT_JOB_TEST_H_
#define COXSWAIN_TESTS_SUPPORT_JOB_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "common/logging.h"
#include "tests/sim/simulation.h"

namespace coxswain::support {

class JobTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::Init("test", log::Level::kError); }

  // Half a second a step.
  static sim::Simulation::Options SlowSteps(int workers = 2) { return Steps(500, workers); }
  static sim::Simulation::Options Steps(int64_t ms, int workers = 2) {
    sim::Simulation::Options options;
    options.workers = workers;
    options.network.step_ms = ms;
    return options;
  }
  // No rule of the simulation was broken.
  static void ExpectClean(sim::Simulation& sim) {
    for (const std::string& violation : sim.Violations()) ADD_FAILURE() << violation;
  }
  // Events of `type` in the job's history.
  static int CountOf(sim::Simulation& sim, const std::string& id, const std::string& type) {
    return static_cast<int>(sim.Events(id, type).size());
  }
};

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_JOB_TEST_H_
