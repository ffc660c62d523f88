// The seam to shared storage. DiskFiles in production, MemoryFiles (tests/sim) in the simulator.
#ifndef COXSWAIN_CONTROLLER_FILES_H_
#define COXSWAIN_CONTROLLER_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain {

struct FileEntry {
  std::string name;        // without the directory
  bool directory = false;
};

// Paths are absolute. Thread-safe. Every error names the path: NotFound, PermissionDenied,
// ResourceExhausted (disk full), AlreadyExists.
class Files {
 public:
  virtual ~Files() = default;

  virtual absl::Status MakeDirs(const std::string& path) = 0;   // parents too; existing is fine
  // Replaces the file; its content is durable (fsync) when this returns OK.
  virtual absl::Status WriteDurably(const std::string& path, const std::string& content) = 0;
  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  // At most `count` bytes from `offset`; empty at the end of the file.
  virtual absl::StatusOr<std::string> ReadAt(const std::string& path, int64_t offset,
                                             int64_t count) = 0;
  virtual absl::StatusOr<std::vector<FileEntry>> List(const std::string& directory) = 0;  // by name
  virtual absl::StatusOr<int64_t> Size(const std::string& path) = 0;
  virtual absl::StatusOr<std::string> Sha256Hex(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  // Bytes left on the file system of `path`, which need not exist yet.
  virtual absl::StatusOr<int64_t> FreeBytes(const std::string& path) = 0;
  // Moves a directory to a name that does not exist yet (AlreadyExists otherwise) and makes the move
  // durable in both parents.
  virtual absl::Status RenameDirectory(const std::string& from, const std::string& to) = 0;
  virtual absl::Status RemoveAll(const std::string& path) = 0;  // absent is fine
};

class DiskFiles : public Files {
 public:
  absl::Status MakeDirs(const std::string& path) override;
  absl::Status WriteDurably(const std::string& path, const std::string& content) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::StatusOr<std::string> ReadAt(const std::string& path, int64_t offset,
                                     int64_t count) override;
  absl::StatusOr<std::vector<FileEntry>> List(const std::string& directory) override;
  absl::StatusOr<int64_t> Size(const std::string& path) override;
  absl::StatusOr<std::string> Sha256Hex(const std::string& path) override;
  bool Exists(const std::string& path) override;
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override;
  absl::Status RenameDirectory(const std::string& from, const std::string& to) override;
  absl::Status RemoveAll(const std::string& path) override;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FILES_H_
