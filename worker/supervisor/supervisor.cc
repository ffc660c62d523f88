#include "worker/supervisor/supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/logging.h"
#include "worker/supervisor/processes.h"

namespace coxswain::supervisor {
namespace {

constexpr std::chrono::milliseconds kStackTimeout{10000};
constexpr std::chrono::milliseconds kLongestTurn{1000};
constexpr int kExitedOne = 1 << 8;  // as waitpid tells exit code 1

// The process of somebody else that holds `pid`: not what reads its stacks for us; 0: none does.
pid_t DebuggerOf(pid_t pid) {
  const std::optional<ProcessFacts> process = ReadProcess(pid);
  if (!process || process->tracer == 0) return 0;
  const std::optional<ProcessFacts> tracer = ReadProcess(process->tracer);
  return tracer && tracer->parent != getpid() ? process->tracer : 0;
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)), silence_(options_.silence, kLongestTurn) {
  sigemptyset(&signals_);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGCHLD}) sigaddset(&signals_, signal);
  sigprocmask(SIG_BLOCK, &signals_, nullptr);
  for (int slot = 0; slot < options_.workers; ++slot) {
    workers_.push_back({});
    workers_.back().slot = slot;
  }
}

int Supervisor::Run() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what workers leave behind is reaped here, also as PID 1
  for (Worker& worker : workers_) Start(worker);
  while (!AllEnded()) {
    if (options_.on_turn) options_.on_turn(Pids());
    const auto wait = UntilNextTurn();
    const timespec timeout{wait.count() / 1000, wait.count() % 1000 * 1'000'000};
    const int signal = sigtimedwait(&signals_, nullptr, &timeout);
    silence_.BeginTurn(Clock::now());
    if (signal == SIGTERM || signal == SIGINT) Stop(signal);
    if (signal == SIGQUIT) {
      for (const Worker& worker : workers_) WriteStacks(worker);
    }
    Reap();
    ObeyOrders();
    KillSilent();
    KillLate();
    for (Worker& worker : workers_) {
      if (worker.next_start && Clock::now() >= *worker.next_start) Start(worker);
    }
  }
  return exit_code_ == 0 && stop_deadline_ ? options_.stopped_exit_code : exit_code_;
}

void Supervisor::Start(Worker& worker) {
  worker.next_start.reset();
  worker.started = Clock::now();
  if (!fault::Reach(fault::Point::kSpawn).ok()) return CannotStart(worker, "fault point");
  int signs[2];
  if (pipe2(signs, O_CLOEXEC | O_NONBLOCK) != 0) return CannotStart(worker, "pipe2");
  std::vector<std::string> command = options_.command(worker.slot);
  command.insert(command.end(), {"--life-sign", std::to_string(signs[1])});
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);  // a terminal's Ctrl-C goes to the supervisor alone, which forwards it
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it died before the line above
    prctl(PR_SET_PTRACER, parent);      // what the parent starts may read the stacks of this one
    sigprocmask(SIG_UNBLOCK, &signals_, nullptr);
    fcntl(signs[1], F_SETFD, 0);
    execv(argv[0], argv.data());
    _exit(127);
  }
  if (pid < 0) CannotStart(worker, "fork");
  close(signs[1]);
  if (pid < 0) {
    close(signs[0]);
    return;
  }
  worker.pid = pid;
  worker.life_signs = signs[0];
  worker.last_sign = {.at = worker.started};
  worker.killed = false;
  fault::Pass(fault::Point::kSpawned);
  log::Info("worker started", {{"slot", worker.slot}, {"pid", static_cast<int64_t>(pid)}});
}

void Supervisor::CannotStart(Worker& worker, const char* call) {
  log::Error("cannot start a worker",
             {{"slot", worker.slot}, {"call", call}, {"error", std::strerror(errno)}});
  worker.next_start =
      worker.started + *NextStart(options_.restart, kExitedOne, {}, &worker.failures);
}

void Supervisor::Reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                     [&](const Worker& w) { return w.pid == pid; });
    if (worker != workers_.end()) Ended(*worker, status);
  }
}

void Supervisor::Ended(Worker& worker, int wait_status) {
  const int code = ExitCode(wait_status);
  const auto lived =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - worker.started);
  kill(-worker.pid, SIGKILL);  // what is left of its process group
  worker.pid = 0;
  close(worker.life_signs);
  const auto delay = NextStart(options_.restart, wait_status, lived, &worker.failures);
  if (stop_deadline_ || !delay) {
    if (exit_code_ == 0 && (code == 64 || code == 77)) exit_code_ = code;
    log::Info("worker ended", {{"slot", worker.slot}, {"exit_code", code}});
    return;
  }
  worker.next_start = Clock::now() + *delay;
  log::Warning("worker died and will be started again", {{"slot", worker.slot},
                                                         {"exit_code", code},
                                                         {"lived_ms", int64_t{lived.count()}},
                                                         {"delay_ms", int64_t{delay->count()}}});
}

void Supervisor::Stop(int signal) {
  log::Info("stopping the workers", {{"signal", strsignal(signal)}});
  if (!stop_deadline_) stop_deadline_ = Clock::now() + options_.grace;
  for (Worker& worker : workers_) {
    worker.next_start.reset();
    if (worker.pid != 0) kill(worker.pid, SIGTERM);
  }
}

void Supervisor::EndWorker(int slot, pid_t pid, const std::string& reason) {
  MutexLock lock(mu_);
  orders_.push_back({slot, pid, reason});
}

void Supervisor::ObeyOrders() {
  std::vector<Order> orders;
  {
    MutexLock lock(mu_);
    orders.swap(orders_);
  }
  for (const Order& order : orders) {
    Worker& worker = workers_[static_cast<size_t>(order.slot)];
    if (worker.pid != order.pid || worker.pid == 0) continue;
    const std::string reason = absl::StrCat("on the controller's word: ", order.reason);
    if (silence_.JustStalled()) {  // it waited here with everything else
      log::Info("worker is not killed: all of this host stood still",
                {{"slot", worker.slot}, {"reason", reason}});
    } else {
      Kill(worker, reason);
    }
  }
}

bool Supervisor::GaveSign(const Worker& worker) const {
  char bytes[256];
  bool gave = false;
  while (read(worker.life_signs, bytes, sizeof(bytes)) > 0) gave = true;
  return gave;
}

void Supervisor::KillSilent() {
  if (stop_deadline_) return;  // then the grace is the limit
  for (Worker& worker : workers_) {
    if (worker.pid == 0 || !silence_.TooLong(GaveSign(worker), &worker.last_sign)) continue;
    const int64_t limit_ms =
        options_.silence.count() * (worker.last_sign.given ? 1 : Silence::kLoading);
    worker.last_sign.at = Clock::now();  // one that cannot die yet is not killed at every turn
    Kill(worker, absl::StrCat("no sign of life for ", limit_ms, " ms"));
  }
}

void Supervisor::Kill(Worker& worker, const std::string& reason) {
  if (const pid_t tracer = DebuggerOf(worker.pid); tracer != 0) {
    log::Warning("worker is not killed: a debugger holds it", {{"slot", worker.slot},
                                                               {"pid", int64_t{worker.pid}},
                                                               {"debugger", int64_t{tracer}},
                                                               {"reason", reason}});
    return;
  }
  log::Error("worker is killed",
             {{"slot", worker.slot}, {"pid", int64_t{worker.pid}}, {"reason", reason}});
  if (!worker.killed) WriteStacks(worker);
  worker.killed = true;
  kill(-worker.pid, SIGKILL);
}

void Supervisor::KillLate() {
  if (!stop_deadline_ || Clock::now() < *stop_deadline_) return;
  for (Worker& worker : workers_) {
    if (worker.pid == 0) continue;
    log::Error("worker did not stop in time and is killed",
               {{"slot", worker.slot}, {"grace_ms", int64_t{options_.grace.count()}}});
    WriteStacks(worker);
    kill(-worker.pid, SIGKILL);
    waitpid(worker.pid, nullptr, 0);
    worker.pid = 0;
    close(worker.life_signs);
    exit_code_ = 1;
  }
}

void Supervisor::WriteStacks(const Worker& worker) {
  if (worker.pid == 0) return;
  const std::string file = absl::StrCat(options_.state_dir, "/worker-", worker.slot, ".stacks.txt");
  const std::string stacks = stacks_.TakeNow(worker.pid, kStackTimeout);
  std::ofstream out(file);
  out << stacks;
  log::Warning(
      "native stacks written",
      {{"slot", worker.slot}, {"file", file}, {"source", stacks.substr(0, stacks.find('\n'))}});
}

std::chrono::milliseconds Supervisor::UntilNextTurn() const {
  Clock::time_point next = Clock::now() + kLongestTurn;
  for (const Worker& worker : workers_) {
    if (worker.next_start) next = std::min(next, *worker.next_start);
  }
  if (stop_deadline_) next = std::min(next, *stop_deadline_);
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()));
}

std::vector<pid_t> Supervisor::Pids() const {
  std::vector<pid_t> pids;
  for (const Worker& worker : workers_) pids.push_back(worker.pid);
  return pids;
}

bool Supervisor::AllEnded() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& w) { return w.pid == 0 && !w.next_start; });
}

}  // namespace coxswain::supervisor
