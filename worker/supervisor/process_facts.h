// Facts about a process from /proc.
#ifndef COXSWAIN_WORKER_SUPERVISOR_PROCESS_FACTS_H_
#define COXSWAIN_WORKER_SUPERVISOR_PROCESS_FACTS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace coxswain::supervisor {

struct ProcessFacts {
  pid_t parent = 0;
  pid_t tracer = 0;   // the debugger that traces it; 0: none
  std::string state;  // of its first thread: "S (sleeping)", "T (stopped)", ...
  int threads = 0;
  int64_t resident_bytes = 0;
  double cpu_seconds = 0;  // user and system time of all threads since the process began
};

// Nothing when there is no such process.
std::optional<ProcessFacts> ReadProcess(pid_t pid);

// Mean number of runnable threads of the host over the last minute; 0 when unknown.
double HostLoad();

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_PROCESS_FACTS_H_
