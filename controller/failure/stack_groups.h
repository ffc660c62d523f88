// Which ranks stand at the same place, by the native stacks of their processes. Pure.
#ifndef COXSWAIN_CONTROLLER_FAILURE_STACK_GROUPS_H_
#define COXSWAIN_CONTROLLER_FAILURE_STACK_GROUPS_H_

#include <map>
#include <string>
#include <vector>

namespace coxswain::failure {

// The threads of a process, as worker/supervisor/stacks.h writes them, without what differs from
// process to process: numbers of threads and frames, addresses, arguments, how many threads stand
// alike. In the order of their text. Where a thread carries out a command (agent, engine,
// collectives, kernels), those that do not are left out, else where functions of ours stand in any:
// pools, timers and heartbeats rest in many places. So is the thread that makes the dump.
std::string NormalStacks(const std::string& text);

struct StackGroup {
  std::vector<int> ranks;  // ascending
  std::string stacks;      // normal
};

// Ranks of equal normal stacks, the most ranks first, then by rank. `stacks_by_rank` is text of a
// supervisor; ranks of empty text are in no group.
std::vector<StackGroup> GroupStacks(const std::map<int, std::string>& stacks_by_rank);

}  // namespace coxswain::failure

#endif  // COXSWAIN_CONTROLLER_FAILURE_STACK_GROUPS_H_
