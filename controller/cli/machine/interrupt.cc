#include "controller/cli/machine/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <utility>

namespace coxswain::cli {
namespace {

std::atomic<int> g_signal{0};

// Readable from the first signal on until ClearInterrupt, so every waiter sees it.
int SignalFd() {
  static const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return fd;
}

void Write(int fd) {
  const uint64_t one = 1;
  // Only async-signal-safe calls here; a full counter is readable already.
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

void Handle(int signal) {
  if (g_signal.exchange(signal) != 0) {
    std::signal(signal, SIG_DFL);
    raise(signal);
    return;
  }
  Write(SignalFd());
}

}  // namespace

void CatchInterrupts() {
  SignalFd();
  struct sigaction action = {};
  action.sa_handler = Handle;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int InterruptSignal() { return g_signal.load(); }

void ClearInterrupt() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(SignalFd(), &count, sizeof count);
  g_signal = 0;
}

bool WaitForInterrupt(int timeout_ms) {
  pollfd poll_fd = {.fd = SignalFd(), .events = POLLIN, .revents = 0};
  poll(&poll_fd, 1, timeout_ms);
  return InterruptSignal() != 0;
}

OnInterrupt::OnInterrupt(std::function<void()> action) : stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  thread_ = std::thread([this, action = std::move(action)] {
    pollfd fds[2] = {{.fd = SignalFd(), .events = POLLIN, .revents = 0},
                     {.fd = stop_fd_, .events = POLLIN, .revents = 0}};
    while (poll(fds, 2, -1) < 0) {
    }
    if ((fds[0].revents & POLLIN) != 0) action();
  });
}

OnInterrupt::~OnInterrupt() {
  Write(stop_fd_);
  thread_.join();
  close(stop_fd_);
}

}  // namespace coxswain::cli
