#include "controller/cli/text/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

namespace coxswain::cli {

Terminal ProcessTerminal() {
  Terminal terminal;
  terminal.out = &std::cout;
  terminal.err = &std::cerr;
  terminal.out_tty = isatty(STDOUT_FILENO) == 1;
  terminal.err_tty = isatty(STDERR_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  terminal.color = terminal.out_tty && (no_color == nullptr || *no_color == '\0');
  winsize size = {};
  const char* columns = std::getenv("COLUMNS");
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  } else if (columns != nullptr && std::atoi(columns) > 0) {
    terminal.columns = std::atoi(columns);
  }
  return terminal;
}

}  // namespace coxswain::cli
