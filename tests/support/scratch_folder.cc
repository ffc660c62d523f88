#include "tests/support/scratch_folder.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace coxswain::support {

ScratchFolder::ScratchFolder()
    : path_((std::filesystem::temp_directory_path() / "coxswain-test-XXXXXX").string()) {
  if (mkdtemp(path_.data()) != nullptr) return;
  std::perror(path_.c_str());
  std::abort();
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::Write(const std::string& name, std::string_view bytes) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace coxswain::support
