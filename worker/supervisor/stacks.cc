#include "worker/supervisor/stacks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "worker/supervisor/processes.h"

namespace coxswain::supervisor {
namespace {

// Empty where it cannot be read.
std::string TextOf(const std::filesystem::path& path) {
  return ReadFile(path.string()).value_or("");
}

std::string StateLine(const std::string& status) {
  const size_t at = status.find("State:");
  return at == std::string::npos ? "State: unknown" : status.substr(at, status.find('\n', at) - at);
}

// Output of `argv`, cut off after `timeout`.
std::string OutputOf(const std::vector<std::string>& argv, std::chrono::milliseconds timeout) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return "";
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(pipe_fds[1], STDOUT_FILENO);
    dup2(pipe_fds[1], STDERR_FILENO);
    execv(args[0], args.data());
    _exit(127);
  }
  close(pipe_fds[1]);
  // Others may reap it: its number could then be another's.
  const auto handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  std::string output;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (child > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd readable{pipe_fds[0], POLLIN, 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
    char buffer[4096];
    const ssize_t n = read(pipe_fds[0], buffer, sizeof(buffer));
    if (n <= 0) break;
    output.append(buffer, n);
  }
  close(pipe_fds[0]);
  if (child > 0) {
    syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);  // gdb then lets go
    waitpid(child, nullptr, 0);
    close(handle);
  }
  return output;
}

}  // namespace

std::string ProcStacks(pid_t pid) {
  std::string text;
  std::vector<std::filesystem::path> tasks;
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error)) {
    tasks.push_back(task.path());
  }
  std::sort(tasks.begin(), tasks.end());
  for (const auto& task : tasks) {
    std::string name = TextOf(task / "comm");
    if (!name.empty() && name.back() == '\n') name.pop_back();
    const std::string wchan = TextOf(task / "wchan");
    absl::StrAppend(&text, "thread ", task.filename().string(), " ", name, "  ",
                    StateLine(TextOf(task / "status")), "  wchan: ", wchan, "\n",
                    TextOf(task / "stack"));  // kernel stack: root only, empty otherwise
  }
  return text;
}

std::string NativeStacks(pid_t pid, std::chrono::milliseconds timeout) {
  const std::string gdb = FindInPath("gdb");
  if (gdb.empty()) {
    return absl::StrCat("stacks of process ", pid, " from /proc (gdb is not installed):\n",
                        ProcStacks(pid));
  }
  const std::string output = OutputOf({gdb, "-batch", "-nx", "-iex", "set debuginfod enabled off",
                                       "-iex", "set print frame-arguments none", "-p",
                                       absl::StrCat(pid), "-ex", "thread apply all backtrace 128"},
                                      timeout);
  if (output.find("\n#0") == std::string::npos) {
    return absl::StrCat("stacks of process ", pid, " from /proc (gdb gave none within ",
                        timeout.count(), " ms: ", output.substr(0, output.find('\n')), "):\n",
                        ProcStacks(pid));
  }
  return absl::StrCat("stacks of process ", pid, " by gdb:\n", output);
}

}  // namespace coxswain::supervisor
