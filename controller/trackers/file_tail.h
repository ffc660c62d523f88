// A file that grows at its end, and what is still to be written of it.
#ifndef COXSWAIN_CONTROLLER_TRACKERS_FILE_TAIL_H_
#define COXSWAIN_CONTROLLER_TRACKERS_FILE_TAIL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "controller/runtime/files.h"

namespace coxswain::trackers {

class FileTail {
 public:
  explicit FileTail(std::string path) : path_(std::move(path)) {}  // absolute

  const std::string& path() const { return path_; }
  int64_t end() const { return begin_ + static_cast<int64_t>(pending_.size()); }  // bytes
  void Append(std::string_view bytes) { pending_ += bytes; }
  void CutTo(int64_t end);  // takes back what was appended behind it; `end` <= end()

  // Writes what is to be written, and makes the folders of the file where they are not there. An
  // error leaves it to be written again. `whole`: the file ends there; else an older file of the
  // same content may go on. DataLoss: the file is shorter than what was written of it.
  absl::Status Write(Files* files, bool whole);

 private:
  const std::string path_;
  int64_t begin_ = 0;  // of pending_, in the file
  std::string pending_;
  bool ends_ = false;  // the file on disk ends at begin_, and nothing is to be written
};

}  // namespace coxswain::trackers

#endif  // COXSWAIN_CONTROLLER_TRACKERS_FILE_TAIL_H_
