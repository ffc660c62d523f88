// Turns SIGINT and SIGTERM into an event that a blocking call can wait for.
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_INTERRUPT_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_INTERRUPT_H_

#include <functional>
#include <thread>

namespace coxswain::cli {

// From now on the first SIGINT or SIGTERM is recorded. A second one ends the process.
void CatchInterrupts();

// The recorded signal, 0: none.
int InterruptSignal();

// Forgets the recorded signal, so that it does not interrupt what follows (a cancellation, a
// shutdown).
void ClearInterrupt();

// Waits up to `timeout_ms`; true as soon as a signal is recorded.
bool WaitForInterrupt(int timeout_ms);

// While the object lives, an interrupt runs `action` once, on a separate thread.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> action);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  int stop_fd_;
  std::thread thread_;
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_INTERRUPT_H_
