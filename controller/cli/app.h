// The program cox: its argument tree and its entry point.
#ifndef COXSWAIN_CONTROLLER_CLI_APP_H_
#define COXSWAIN_CONTROLLER_CLI_APP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "controller/cli/command/cox.h"

namespace CLI {
class App;
}

namespace coxswain::cli {

// Runs cox with these arguments (without the program name) and returns its exit code.
int RunCox(const std::vector<std::string>& args, const Terminal& terminal,
           const std::function<int64_t()>& now_unix_ms);

// Builds the whole argument tree. Completion walks it too.
void BuildApp(CLI::App* app, Cox* cox);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_APP_H_
