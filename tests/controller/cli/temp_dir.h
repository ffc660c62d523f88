// A directory of this process alone: ctest runs the tests of one file in parallel.
#ifndef COXSWAIN_TESTS_CONTROLLER_CLI_TEMP_DIR_H_
#define COXSWAIN_TESTS_CONTROLLER_CLI_TEMP_DIR_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace coxswain::cli {

// Removed at exit.
inline const std::string& TempDir() {
  static const struct Directory {
    Directory() {
      path = testing::TempDir() + "cox_XXXXXX";
      if (mkdtemp(path.data()) == nullptr) std::abort();
    }
    ~Directory() { std::filesystem::remove_all(path); }
    std::string path;
  } directory;
  return directory.path;
}

}  // namespace coxswain::cli

#endif  // COXSWAIN_TESTS_CONTROLLER_CLI_TEMP_DIR_H_
