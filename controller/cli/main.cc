#include <chrono>

#include "controller/cli/app.h"
#include "controller/cli/machine/interrupt.h"

int main(int argc, char** argv) {
  coxswain::cli::CatchInterrupts();
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  return coxswain::cli::RunCox(std::vector<std::string>(argv + 1, argv + argc),
                               coxswain::cli::ProcessTerminal(), now);
}
