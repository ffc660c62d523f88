// A directory of this process alone: ctest runs the tests of one file in parallel.
#ifndef COXSWAIN_TESTS_CONTROLLER_CLI_TEMP_DIR_H_
#define COXSWAIN_TESTS_CONTROLLER_CLI_TEMP_DIR_H_

#include <string>

#include "tests/support/scratch_folder.h"

namespace coxswain::cli {

// Removed at exit.
inline const std::string& TempDir() {
  static const support::ScratchFolder folder;
  return folder.path();
}

}  // namespace coxswain::cli

#endif  // COXSWAIN_TESTS_CONTROLLER_CLI_TEMP_DIR_H_
