#include "controller/cli/machine/processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "controller/cli/machine/interrupt.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;

// Start time and state of a process; start 0 when there is none.
struct Stat {
  uint64_t start_ticks = 0;
  char state = 0;
};

Stat ReadStat(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  Stat stat;
  if (!std::getline(in, line)) return stat;
  // The name in parentheses may hold anything; the state follows the last one.
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 2)));
  rest >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  rest >> stat.start_ticks;
  return stat;
}

// In the child: only async-signal-safe calls, the parent may have threads.
[[noreturn]] void Exec(char* const* argv, int log_fd, int error_fd, bool die_with_parent,
                       pid_t parent) {
  setsid();
  if (die_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(0);
  }
  const int null_fd = open("/dev/null", O_RDONLY);
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  execv(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof error);
  _exit(127);
}

}  // namespace

absl::StatusOr<Process> Spawn(const SpawnArgs& args) {
  const int log_fd = open(args.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0)
    return absl::FailedPreconditionError(absl::StrCat(args.log_path, ": ", std::strerror(errno)));
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    close(log_fd);
    return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  std::vector<char*> argv = {const_cast<char*>(args.binary.c_str())};
  for (const std::string& arg : args.args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(argv.data(), log_fd, pipe_fds[1], args.die_with_parent, parent);
  const int fork_error = errno;
  close(log_fd);
  close(pipe_fds[1]);
  int error = pid < 0 ? fork_error : 0;
  if (pid > 0 && read(pipe_fds[0], &error, sizeof error) == sizeof error) waitpid(pid, nullptr, 0);
  close(pipe_fds[0]);
  if (error != 0)
    return absl::InternalError(
        absl::StrCat("cannot start ", args.binary, ": ", std::strerror(error)));
  return Process{pid, ReadStat(pid).start_ticks};
}

bool IsRunning(const Process& process) {
  if (process.pid <= 0) return false;
  waitpid(process.pid, nullptr, WNOHANG);  // reaps it when it is a child of ours
  const Stat stat = ReadStat(process.pid);
  return stat.start_ticks != 0 && stat.start_ticks == process.start_ticks && stat.state != 'Z';
}

bool Terminate(const Process& process, std::chrono::milliseconds grace, Patience patience) {
  if (!IsRunning(process)) return true;
  kill(process.pid, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + grace;
  bool killed = false;
  while (IsRunning(process)) {
    const bool over = std::chrono::steady_clock::now() >= deadline ||
                      (patience == Patience::kUntilInterrupted && InterruptSignal() != 0);
    if (!killed && over) {
      kill(process.pid, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return !killed;
}

absl::StatusOr<std::string> FindBinary(const std::string& name) {
  std::error_code error;
  const fs::path own_dir = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> places = {own_dir / name,
                                  own_dir.parent_path() / "libexec/coxswain" / name};
  const char* path = std::getenv("PATH");
  std::istringstream dirs(path == nullptr ? "" : path);
  for (std::string dir; std::getline(dirs, dir, ':');) {
    if (!dir.empty()) places.push_back(fs::path(dir) / name);
  }
  for (const fs::path& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place.string();
  }
  return absl::NotFoundError(absl::StrCat(name, " is neither in ", places[0].parent_path().string(),
                                          " nor in ", places[1].parent_path().string(),
                                          " nor in PATH; build or install it"));
}

std::string TailOfFile(const std::string& path, int lines, int64_t from) {
  std::ifstream in(path);
  in.seekg(from);
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) all.push_back(line);
  std::string text;
  const size_t first = all.size() > static_cast<size_t>(lines) ? all.size() - lines : 0;
  for (size_t i = first; i < all.size(); ++i) text += all[i] + "\n";
  return text;
}

}  // namespace coxswain::cli
