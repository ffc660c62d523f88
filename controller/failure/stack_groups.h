// Groups ranks that stand at the same place, by the native stacks of their processes. Pure.
#ifndef COXSWAIN_CONTROLLER_FAILURE_STACK_GROUPS_H_
#define COXSWAIN_CONTROLLER_FAILURE_STACK_GROUPS_H_

#include <map>
#include <string>
#include <vector>

namespace coxswain::failure {

// Normalises the stacks of a process (worker/supervisor/stacks.h writes them). It drops what
// differs between processes: numbers of threads and frames, addresses, arguments, and how many
// threads stand alike. Threads are sorted by their text. If a thread executes a command (agent,
// engine, collectives, kernels), only such threads are kept. Else, if any thread holds functions of
// ours, only those are kept. Pools, timers and heartbeats rest in many places. The thread that
// makes the dump is dropped too.
std::string NormalStacks(const std::string& text);

struct StackGroup {
  std::vector<int> ranks;  // ascending
  std::string stacks;      // normal
};

// Groups of ranks with equal normal stacks, the largest first, then by rank. `stacks_by_rank` holds
// the text of a supervisor. Ranks with empty text are in no group.
std::vector<StackGroup> GroupStacks(const std::map<int, std::string>& stacks_by_rank);

}  // namespace coxswain::failure

#endif  // COXSWAIN_CONTROLLER_FAILURE_STACK_GROUPS_H_
