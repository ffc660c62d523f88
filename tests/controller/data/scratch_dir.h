// A directory of one test's own, removed at its end.
#ifndef COXSWAIN_TESTS_CONTROLLER_DATA_SCRATCH_DIR_H_
#define COXSWAIN_TESTS_CONTROLLER_DATA_SCRATCH_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace coxswain::data {

class ScratchDir {
 public:
  ScratchDir() {
    std::string name = (std::filesystem::temp_directory_path() / "coxswain_data.XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, std::string_view contents) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_TESTS_CONTROLLER_DATA_SCRATCH_DIR_H_
