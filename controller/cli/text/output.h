// Where cox writes, and in which form.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_OUTPUT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_OUTPUT_H_

#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::cli {

// The output streams of cox and the abilities of the terminal behind them.
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

// `-o json|yaml|wide|table|name`.

// Structured formats print a whole object. For the others each verb formats its own text.
inline bool IsStructured(const std::string& format) { return format == "json" || format == "yaml"; }

// `value` in "json" (two-space indentation) or "yaml", with a line feed. Text that is not UTF-8
// gets replacement characters.
void PrintStructured(const nlohmann::ordered_json& value, const std::string& format,
                     std::ostream& out);

// Block-style YAML that parses back to `value`.
std::string ToYaml(const nlohmann::ordered_json& value);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_OUTPUT_H_
