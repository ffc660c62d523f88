// Where the threads of a hung process are.
#ifndef COXSWAIN_WORKER_SUPERVISOR_STACKS_H_
#define COXSWAIN_WORKER_SUPERVISOR_STACKS_H_

#include <sys/types.h>

#include <chrono>
#include <string>

namespace coxswain::supervisor {

// Takes backtraces of all threads by gdb where it is installed, allowed and done within `timeout`;
// otherwise what /proc tells of each thread (state, wait channel, kernel stack). The first line
// says which. The process goes on as before, one that was stopped stays so.
std::string NativeStacks(pid_t pid, std::chrono::milliseconds timeout);

// The /proc form alone.
std::string ProcStacks(pid_t pid);

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_STACKS_H_
