// Files on disk of a process that dies in the middle.
#ifndef COXSWAIN_TESTS_CONTROLLER_KILLING_FILES_H_
#define COXSWAIN_TESTS_CONTROLLER_KILLING_FILES_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "controller/runtime/files.h"

namespace coxswain {

// SIGKILL in place of the change number `changes` (0-based) of what is on disk.
class KillingFiles : public DiskFiles {
 public:
  explicit KillingFiles(int changes) : left_(changes) {}

  absl::Status MakeDirs(const std::string& path) override {
    Count();
    return DiskFiles::MakeDirs(path);
  }
  absl::Status WriteDurably(const std::string& path, const std::string& content) override {
    Count();
    return DiskFiles::WriteDurably(path, content);
  }
  absl::Status RenameDirectory(const std::string& from, const std::string& to) override {
    Count();
    return DiskFiles::RenameDirectory(from, to);
  }
  absl::Status RemoveAll(const std::string& path) override {
    Count();
    return DiskFiles::RemoveAll(path);
  }
  absl::Status RemoveIfEmpty(const std::string& path) override {
    Count();
    return DiskFiles::RemoveIfEmpty(path);
  }

 private:
  void Count() {
    if (left_-- == 0) raise(SIGKILL);
  }

  int left_;
};

// Runs `work` in a process of its own that dies at its change number `changes`. True: it did not
// come to so many and succeeded.
inline bool SurvivesKillAt(int changes, const std::function<absl::Status(Files*)>& work) {
  const pid_t child = fork();
  if (child == 0) {
    KillingFiles files(changes);
    _exit(work(&files).ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace coxswain

#endif  // COXSWAIN_TESTS_CONTROLLER_KILLING_FILES_H_
