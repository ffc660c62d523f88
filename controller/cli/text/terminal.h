// The output streams of cox and the abilities of the terminal behind them.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_TERMINAL_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_TERMINAL_H_

#include <ostream>

namespace coxswain::cli {

struct Terminal {
  std::ostream* out = nullptr;  // data
  std::ostream* err = nullptr;  // diagnostics and progress
  bool out_tty = false;
  bool err_tty = false;
  bool color = false;  // stdout may have colours; never without a TTY or with NO_COLOR
  int columns = 80;
};

// Standard output and error of this process.
Terminal ProcessTerminal();

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_TERMINAL_H_
