// Shared storage in memory: survives controllers and workers.
#ifndef COXSWAIN_TESTS_SIM_FAKES_MEMORY_FILES_H_
#define COXSWAIN_TESTS_SIM_FAKES_MEMORY_FILES_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "controller/runtime/files.h"

namespace coxswain::sim {

// `directory` itself, or what lies in it.
bool Below(const std::string& path, const std::string& directory);

class MemoryFiles : public Files {
 public:
  absl::Status MakeDirs(const std::string& path) override;
  absl::Status WriteDurably(const std::string& path, const std::string& content) override;
  absl::Status WriteAt(const std::string& path, int64_t offset, const std::string& content,
                       bool ends) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::StatusOr<std::string> ReadAt(const std::string& path, int64_t offset,
                                     int64_t count) override;
  absl::StatusOr<std::vector<FileEntry>> List(const std::string& directory) override;  // no links
  absl::StatusOr<int64_t> Size(const std::string& path) override;
  absl::StatusOr<std::string> Sha256Hex(const std::string& path) override;
  absl::Status CheckBlocks(const std::string& path, const BlockDigests& expected) override;
  absl::StatusOr<BlockDigests> Digests(const std::string& path) override;
  bool Exists(const std::string& path) override;
  // A time stamp is the number of the write that made the file.
  absl::StatusOr<PathFacts> Look(const std::string& path) override;
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override;  // 1 GiB, or SetFreeBytes
  absl::Status RenameDirectory(const std::string& from, const std::string& to) override;
  absl::Status RemoveAll(const std::string& path) override;
  absl::Status RemoveIfEmpty(const std::string& path) override;
  absl::StatusOr<std::string> Identity(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<HeldFile>> Hold(const std::string& path) override;
  absl::StatusOr<bool> IsHeld(const std::string& path) override;
  absl::StatusOr<double> AgeSeconds(const std::string& path) override;  // as SetAge said, else 0

  // Writes below `prefix` fail with this until it is OK again.
  void FailWrites(std::string prefix, absl::Status error);
  // Another name of a directory.
  void Link(const std::string& path, const std::string& target);
  void SetAge(const std::string& path, double seconds);
  void SetFreeBytes(int64_t bytes);
  // As at a crash: locks end, what they lie on stays.
  void LoseLocks();
  // What lies below `prefix` is gone until Mount; at most one prefix at a time.
  void Unmount(const std::string& prefix);
  void Mount();
  bool mounted() const { return unmounted_directories_.empty(); }

 private:
  class Lock;
  std::string Resolve(const std::string& path) const;    // mu_ held
  absl::Status Writable(const std::string& path) const;  // mu_ held

  mutable std::mutex mu_;
  std::map<std::string, std::string> files_;
  std::map<std::string, int64_t> stamps_;  // of files
  int64_t last_stamp_ = 0;
  std::set<std::string> directories_ = {"/"};
  std::map<std::string, std::string> links_;  // to existing directories
  std::map<std::string, int> holders_;        // of locks, by path
  std::map<std::string, double> ages_;
  int last_holder_ = 0;
  int64_t free_bytes_ = int64_t{1} << 30;
  std::string failing_prefix_;
  absl::Status write_error_;
  std::map<std::string, std::string> unmounted_files_;
  std::set<std::string> unmounted_directories_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_MEMORY_FILES_H_
