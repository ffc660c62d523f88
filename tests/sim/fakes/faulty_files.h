// The controller's way to shared storage: it can fail at any write or read, and ends with the
// controller.
#ifndef COXSWAIN_TESTS_SIM_FAKES_FAULTY_FILES_H_
#define COXSWAIN_TESTS_SIM_FAKES_FAULTY_FILES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/runtime/files.h"
#include "tests/sim/crash_point.h"

namespace coxswain::sim {

// Errors as `base` gives them. What a dead controller tries is Unavailable and does not happen.
class FaultyFiles : public Files {
 public:
  FaultyFiles(Files* base, CrashPoint* crash) : base_(base), crash_(crash) {}

  // `count` writes, or reads, fail with `error`, after `skip` that do not.
  void FailWrites(int skip, int count, absl::Status error) {
    writes_ = {skip, count, std::move(error)};
  }
  void FailReads(int skip, int count, absl::Status error) {
    reads_ = {skip, count, std::move(error)};
  }
  void OnFault(std::function<void(const std::string& what)> observer) {
    observer_ = std::move(observer);
  }
  // Called after every change of what lies at `path` or below it.
  void OnChanged(std::function<void(const std::string& path)> observer) {
    changed_ = std::move(observer);
  }
  // Nothing fails from now on.
  void Mend() { writes_ = reads_ = {}; }

  absl::Status MakeDirs(const std::string& path) override;
  absl::Status WriteDurably(const std::string& path, const std::string& content) override;
  absl::Status WriteAt(const std::string& path, int64_t offset, const std::string& content,
                       bool ends) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::StatusOr<std::string> ReadAt(const std::string& path, int64_t offset,
                                     int64_t count) override;
  absl::StatusOr<std::vector<FileEntry>> List(const std::string& directory) override;
  absl::StatusOr<int64_t> Size(const std::string& path) override;
  absl::StatusOr<std::string> Sha256Hex(const std::string& path) override;
  absl::Status CheckBlocks(const std::string& path, const BlockDigests& expected) override;
  absl::StatusOr<BlockDigests> Digests(const std::string& path) override;
  bool Exists(const std::string& path) override { return base_->Exists(path); }
  absl::StatusOr<PathFacts> Look(const std::string& path) override;
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override;
  absl::Status RenameDirectory(const std::string& from, const std::string& to) override;
  absl::Status RemoveAll(const std::string& path) override;
  absl::Status RemoveIfEmpty(const std::string& path) override;
  absl::StatusOr<std::string> Identity(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<HeldFile>> Hold(const std::string& path) override;
  absl::StatusOr<bool> IsHeld(const std::string& path) override;
  absl::StatusOr<double> AgeSeconds(const std::string& path) override;

 private:
  class Held;
  struct Fault {
    int skip = 0;
    int count = 0;
    absl::Status error;
  };
  absl::Status Meet(Fault& fault, const char* what, const std::string& path);
  absl::Status BeforeWrite(const char* what, const std::string& path);
  absl::Status BeforeRead(const std::string& path) { return Meet(reads_, "read", path); }
  absl::Status Changed(absl::Status status, const std::string& path);

  Files* const base_;
  CrashPoint* const crash_;
  Fault writes_, reads_;
  std::function<void(const std::string&)> observer_, changed_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_FAULTY_FILES_H_
