// A folder of one test's own.
#ifndef COXSWAIN_TESTS_SUPPORT_SCRATCH_FOLDER_H_
#define COXSWAIN_TESTS_SUPPORT_SCRATCH_FOLDER_H_

#include <string>
#include <string_view>

namespace coxswain::support {

// Empty at first, no other process's and no other object's; removed with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes the file `name` with exactly these bytes and returns its path.
  std::string Write(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

// The bytes of a file; none where it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_SCRATCH_FOLDER_H_
