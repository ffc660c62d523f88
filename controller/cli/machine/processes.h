// Processes that cox starts and stops.
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_PROCESSES_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_PROCESSES_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::cli {

// A process, identified by its number and start time, because numbers are used again.
struct Process {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/<pid>/stat
};

struct SpawnArgs {
  std::string binary;             // path
  std::vector<std::string> args;  // without the program name
  std::string log_path;           // stdout and stderr are appended here
  bool die_with_parent = false;   // gets SIGTERM when the spawning thread ends
};

// Starts the process in its own session, so that Ctrl-C does not reach it, with stdin from
// /dev/null. NotFound or Internal names the binary and the reason.
absl::StatusOr<Process> Spawn(const SpawnArgs& args);

// False for an ended process, a zombie, and another process with the same number.
bool IsRunning(const Process& process);

enum class Patience {
  kWhole,             // waits the whole grace, whatever signals come
  kUntilInterrupted,  // waits until the user interrupts (interrupt.h), at most the grace
};

// Sends SIGTERM, then SIGKILL after `grace`. Returns when the process is gone; true: without
// SIGKILL.
bool Terminate(const Process& process, std::chrono::milliseconds grace,
               Patience patience = Patience::kWhole);

// The program beside this executable, in ../libexec/coxswain, or in PATH. NotFound lists the
// places.
absl::StatusOr<std::string> FindBinary(const std::string& name);

// The last `lines` lines of a file from byte `from` on, empty when it cannot be read.
std::string TailOfFile(const std::string& path, int lines, int64_t from = 0);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_PROCESSES_H_
