// The stacks of the threads of a hung process.
#ifndef COXSWAIN_WORKER_SUPERVISOR_STACKS_H_
#define COXSWAIN_WORKER_SUPERVISOR_STACKS_H_

#include <sys/types.h>

#include <chrono>
#include <string>

namespace coxswain::supervisor {

// Backtraces of all threads by gdb, if gdb is installed, allowed and done within `timeout`.
// Otherwise state, wait channel and kernel stack of each thread from /proc. The first line says
// which. The process then continues; a stopped process stays stopped.
std::string NativeStacks(pid_t pid, std::chrono::milliseconds timeout);

// The /proc form alone.
std::string ProcStacks(pid_t pid);

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_STACKS_H_
