#include "tests/support/golden_folder.h"

#include <cstdlib>
#include <filesystem>

namespace coxswain::support {

std::string GoldenFolder(const std::string& name) {
  const char* carried = std::getenv("COXSWAIN_FIXTURES");
  const std::string folder = carried != nullptr ? carried : COXSWAIN_GOLDEN;
  return std::filesystem::absolute(folder + "/" + name).string();
}

}  // namespace coxswain::support
