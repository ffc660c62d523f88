// Where cox writes, and what the reader of it can show.
#ifndef COXSWAIN_CONTROLLER_CLI_TERMINAL_H_
#define COXSWAIN_CONTROLLER_CLI_TERMINAL_H_

#include <ostream>
#include <string>
#include <string_view>

namespace coxswain::cli {

struct Terminal {
  std::ostream* out = nullptr;  // data
  std::ostream* err = nullptr;  // diagnostics and progress
  bool out_tty = false;
  bool err_tty = false;
  bool color = false;  // of stdout; never without a TTY or with NO_COLOR
  int columns = 80;
};

// Standard output and error of this process.
Terminal ProcessTerminal();

enum class Color { kNone, kRed, kGreen, kYellow, kDim };

// `text` in `color` when the terminal shows colours.
std::string Paint(const Terminal& terminal, Color color, std::string_view text);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TERMINAL_H_
