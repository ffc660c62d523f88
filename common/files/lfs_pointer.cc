#include "common/files/lfs_pointer.h"

namespace coxswain {

std::string LfsPointerText(std::string_view head) {
  constexpr std::string_view kVersion = "version https://git-lfs.github.com/spec/";
  constexpr std::string_view kSize = "\nsize ";
  if (!head.starts_with(kVersion)) return "";
  std::string bytes;
  if (const size_t at = head.find(kSize); at != std::string_view::npos) {
    const std::string_view rest = head.substr(at + kSize.size());
    bytes = std::string(rest.substr(0, rest.find_first_not_of("0123456789")));
  }
  return "is a Git LFS pointer to a file" + (bytes.empty() ? "" : " of " + bytes + " bytes") +
         ", which was not fetched: run git lfs pull in its folder";
}

}  // namespace coxswain
