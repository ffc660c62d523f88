// The rows that the schedules of CI must meet: the transitions of jobs that they meet often, every
// call, every fault, every fault of a message.
#ifndef COXSWAIN_TESTS_SIM_COVERAGE_ROWS_H_
#define COXSWAIN_TESTS_SIM_COVERAGE_ROWS_H_

#include <string>
#include <vector>

namespace coxswain::sim {

std::vector<std::string> CoverageRows();

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_COVERAGE_ROWS_H_
