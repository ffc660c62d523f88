#include "common/faults/fault_flag.h"

#include <cstdio>

#include <CLI/Error.hpp>

namespace coxswain::fault {

void AddListFlag(CLI::App& app, Process process) {
  app.add_flag_callback(
      "--list-faults",
      [process] {
        std::fputs(ListFaults(process).c_str(), stdout);
        throw CLI::Success();
      },
      "print the fault points that COXSWAIN_FAULT can name here, and end");
}

}  // namespace coxswain::fault
