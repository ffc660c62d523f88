// The seam to shared storage. DiskFiles in production, MemoryFiles (tests/sim) in the simulator.
#ifndef COXSWAIN_CONTROLLER_RUNTIME_FILES_H_
#define COXSWAIN_CONTROLLER_RUNTIME_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/block_digests.h"

namespace coxswain {

struct FileEntry {
  std::string name;  // without the directory
  bool directory = false;
  bool link = false;  // symbolic; `directory` says what it leads to
};

// The object at a path. Links are not followed.
struct PathFacts {
  enum class Kind { kAbsent, kFile, kDirectory, kLink, kOther };
  Kind kind = Kind::kAbsent;
  int64_t bytes = 0;        // of a file
  int64_t modified_ns = 0;  // time stamp of a file, nanoseconds since 1970
};

// A file on which this process holds a lock of the kernel. The lock ends with the process at the
// latest. Any thread may call it, one at a time. Destruction ends the lock and leaves the file.
class HeldFile {
 public:
  virtual ~HeldFile() = default;
  // False: the file system has no locks, so another process may hold the file too.
  virtual bool exclusive() const = 0;
  virtual absl::Status Write(const std::string& content) = 0;  // in place, durable
  virtual absl::Status Touch() = 0;  // its time stamp becomes the file system's present time
  virtual bool InPlace() = 0;        // the path still names this very file
  virtual absl::Status Remove() = 0;
};

// Paths are absolute. Thread-safe. Every error names the path: NotFound, PermissionDenied,
// ResourceExhausted (disk full), AlreadyExists.
class Files {
 public:
  virtual ~Files() = default;

  virtual absl::Status MakeDirs(const std::string& path) = 0;  // parents too; existing is fine
  // Replaces the file; its content is durable (fsync) when this returns OK.
  virtual absl::Status WriteDurably(const std::string& path, const std::string& content) = 0;
  // Writes `content` at `offset` of a file, which is made if it is not there. `ends`: the file ends
  // behind it, else what follows stays. Not durable. DataLoss: the file is shorter than `offset`.
  virtual absl::Status WriteAt(const std::string& path, int64_t offset, const std::string& content,
                               bool ends) = 0;
  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  // At most `count` bytes from `offset`; empty at the end of the file.
  virtual absl::StatusOr<std::string> ReadAt(const std::string& path, int64_t offset,
                                             int64_t count) = 0;
  virtual absl::StatusOr<std::vector<FileEntry>> List(const std::string& directory) = 0;  // by name
  virtual absl::StatusOr<int64_t> Size(const std::string& path) = 0;
  virtual absl::StatusOr<std::string> Sha256Hex(const std::string& path) = 0;
  // DataLoss when the size or a block of the file differs; names both values (common/files).
  virtual absl::Status CheckBlocks(const std::string& path, const BlockDigests& expected) = 0;
  // Reads all of a file.
  virtual absl::StatusOr<BlockDigests> Digests(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  virtual absl::StatusOr<PathFacts> Look(const std::string& path) = 0;
  // Bytes left on the file system of `path`, which need not exist yet.
  virtual absl::StatusOr<int64_t> FreeBytes(const std::string& path) = 0;
  // Moves a directory to a name that does not exist yet (AlreadyExists otherwise) and makes the
  // move durable in both parents.
  virtual absl::Status RenameDirectory(const std::string& from, const std::string& to) = 0;
  virtual absl::Status RemoveAll(const std::string& path) = 0;  // absent is fine
  // Removes a directory in which nothing lies. One that holds anything stays, and absent is fine.
  virtual absl::Status RemoveIfEmpty(const std::string& path) = 0;
  // Equal for two paths that lead to one file or directory, through any links and mounts. For a
  // path that does not exist: the identity of its last existing directory, "/" and the rest.
  virtual absl::StatusOr<std::string> Identity(const std::string& path) = 0;
  // Makes the file if it does not exist. Null: somebody holds it, perhaps this process.
  virtual absl::StatusOr<std::unique_ptr<HeldFile>> Hold(const std::string& path) = 0;
  virtual absl::StatusOr<bool> IsHeld(const std::string& path) = 0;  // by anybody
  // Seconds since the file was written or touched, by the clock of its file system.
  virtual absl::StatusOr<double> AgeSeconds(const std::string& path) = 0;
};

class DiskFiles : public Files {
 public:
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
  // On FileThreads() threads, as Digests.
  absl::Status CheckBlocks(const std::string& path, const BlockDigests& expected) override;
  absl::StatusOr<BlockDigests> Digests(const std::string& path) override;
  bool Exists(const std::string& path) override;
  absl::StatusOr<PathFacts> Look(const std::string& path) override;
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override;
  absl::Status RenameDirectory(const std::string& from, const std::string& to) override;
  absl::Status RemoveAll(const std::string& path) override;
  absl::Status RemoveIfEmpty(const std::string& path) override;
  absl::StatusOr<std::string> Identity(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<HeldFile>> Hold(const std::string& path) override;  // held_file.cc
  absl::StatusOr<bool> IsHeld(const std::string& path) override;
  absl::StatusOr<double> AgeSeconds(const std::string& path) override;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_RUNTIME_FILES_H_
