// Processes of this host: where their programs are, what /proc says of one, where a worker serves.
#ifndef COXSWAIN_WORKER_SUPERVISOR_PROCESSES_H_
#define COXSWAIN_WORKER_SUPERVISOR_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace coxswain::supervisor {

// Finds the other programs of an installation.

// Looks beside this process's executable, then in ../libexec/coxswain, then in PATH. NotFound names
// all three.
absl::StatusOr<std::string> FindBinary(const std::string& name);

std::string FindInPath(const std::string& name);  // empty: not found

// Facts about a process from /proc.
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

// The address at which a worker of this supervisor serves, from its endpoint file
// (worker/agent/endpoint_file.h).
struct Endpoint {
  std::string address;  // host:port of the Worker service
  std::string incarnation;
  pid_t pid = 0;  // writer of the file; a killed process leaves its file behind
  bool registered = false;
};

// Reads the file of process `index` of the supervisor, 0-based. Unavailable names the file when
// there is none.
absl::StatusOr<Endpoint> ReadEndpoint(const std::string& state_dir, int index);

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_PROCESSES_H_
