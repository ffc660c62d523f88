// coxswain-controller: owns the global plan and calls every training step.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/faults/fault_point.h"
#include "common/logging.h"
#include "common/outside_text.h"
#include "controller/flags.h"
#include "controller/server.h"

namespace {

// Blocked in every thread and taken by sigwait: no handler runs inside other code.
sigset_t BlockStopSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  return stop;
}

// A second signal ends the process at once.
void ExitOnNextSignal(sigset_t stop) {
  std::thread([stop] {
    int signal_number = 0;
    sigwait(&stop, &signal_number);
    _exit(130);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  const sigset_t stop = BlockStopSignals();
  int exit_code = 0;
  const std::optional<coxswain::Flags> flags = coxswain::ParseFlags(argc, argv, &exit_code);
  if (!flags) return exit_code;
  coxswain::log::Init("controller", coxswain::log::Level::kInfo, flags->log_file);

  const absl::Status armed =
      coxswain::fault::ArmFromEnvironment(coxswain::fault::Process::kController);
  auto server = armed.ok() ? coxswain::Server::Start(*flags) : armed;
  if (!server.ok()) {
    const std::string message = coxswain::CleanText(std::string(server.status().message()));
    coxswain::log::Error("cannot start", {{"error", message}});
    std::fprintf(stderr, "coxswain-controller: %s\n", message.c_str());
    return 1;
  }
  int signal_number = 0;
  sigwait(&stop, &signal_number);
  coxswain::log::Info("stopping", {{"signal", signal_number}});
  ExitOnNextSignal(stop);
  if (flags->grace_seconds > 0) (*server)->Drain(std::chrono::seconds(flags->grace_seconds));
  server->reset();
  coxswain::log::Info("stopped");
  return 0;
}
