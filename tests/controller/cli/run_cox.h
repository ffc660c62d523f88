// Runs cox in this process and keeps what it printed.
#ifndef COXSWAIN_TESTS_CONTROLLER_CLI_RUN_COX_H_
#define COXSWAIN_TESTS_CONTROLLER_CLI_RUN_COX_H_

#include <sstream>
#include <string>
#include <vector>

#include "controller/cli/app.h"
#include "tests/controller/cli/fake_jobs.h"

namespace coxswain::cli {

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

inline Ran RunInProcess(const std::vector<std::string>& args) {
  std::ostringstream out;
  std::ostringstream err;
  Terminal terminal;
  terminal.out = &out;
  terminal.err = &err;
  Ran ran;
  ran.code = RunCox(args, terminal, [] { return FakeJobs::kNow; });
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

// The same with --server of the fake behind the arguments.
inline Ran RunAt(const FakeJobs& fake, std::vector<std::string> args) {
  args.insert(args.end(), {"--server", fake.address()});
  return RunInProcess(args);
}

}  // namespace coxswain::cli

#endif  // COXSWAIN_TESTS_CONTROLLER_CLI_RUN_COX_H_
