// Processes that cox starts and stops.
#ifndef COXSWAIN_CONTROLLER_CLI_PROCESSES_H_
#define COXSWAIN_CONTROLLER_CLI_PROCESSES_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::cli {

// A process beyond reuse of its number: the kernel's start time tells.
struct Process {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/<pid>/stat
};

struct SpawnArgs {
  std::string binary;             // path
  std::vector<std::string> args;  // without the program name
  std::string log_path;           // stdout and stderr are appended here
  bool die_with_parent = false;   // SIGTERM when the spawning thread ends
};

// Starts it in a session of its own (Ctrl-C does not reach it) with stdin from /dev/null. NotFound
// or Internal names the binary and why it did not start.
absl::StatusOr<Process> Spawn(const SpawnArgs& args);

// False for an ended process (a zombie counts as ended) and for another one with the same number.
bool IsRunning(const Process& process);

enum class Patience {
  kWhole,             // the whole grace, whatever signals come
  kUntilInterrupted,  // no longer than until the user interrupts (interrupt.h)
};

// SIGTERM, then SIGKILL after `grace`; returns when it is gone. True: it went by itself.
bool Terminate(const Process& process, std::chrono::milliseconds grace,
               Patience patience = Patience::kWhole);

// The program beside this executable, in ../libexec/coxswain, or in PATH. NotFound lists the
// places.
absl::StatusOr<std::string> FindBinary(const std::string& name);

// The last `lines` lines of a file from byte `from` on, empty when it cannot be read.
std::string TailOfFile(const std::string& path, int lines, int64_t from = 0);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_PROCESSES_H_
