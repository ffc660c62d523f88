// Prepared data on disk: CACHE_DIR/CONTENT_HASH/{train.tokens, eval.tokens, stats.json}.
#ifndef COXSWAIN_CONTROLLER_DATA_PREPARE_CACHE_ENTRY_H_
#define COXSWAIN_CONTROLLER_DATA_PREPARE_CACHE_ENTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/data/early_end.h"
#include "controller/data/prepared_data.h"

namespace coxswain::data {

// One entry. Until its destruction the object holds a lock against other processes and threads that
// prepare the same content. The kernel releases the lock of a process that dies.
class CacheEntry {
 public:
  // Creates cache_dir and waits for the lock. Cancelled when `cancelled` returns true. A directory
  // that supports no locks gives an error of OfTokenCache.
  static absl::StatusOr<std::unique_ptr<CacheEntry>> Lock(const std::string& cache_dir,
                                                          const std::string& content_hash,
                                                          const Cancelled& cancelled);
  ~CacheEntry();
  CacheEntry(const CacheEntry&) = delete;
  CacheEntry& operator=(const CacheEntry&) = delete;

  // Loads token stores and statistics, and compares every checksum. NotFound: there is no entry.
  // DataLoss: the entry is damaged. Cancelled.
  absl::StatusOr<PreparedData> Load(const Cancelled& cancelled) const;

  // Makes an empty directory for the files of a new entry. It removes the remains of an interrupted
  // build.
  absl::StatusOr<std::string> BeginBuild();
  // Adds stats.json and renames the directory to its final name. It replaces a damaged entry.
  absl::Status Publish(const DatasetStats& train, const DatasetStats* eval,
                       const std::vector<Findings>& findings);

 private:
  CacheEntry(std::string directory, std::string building, int lock_fd)
      : directory_(std::move(directory)), building_(std::move(building)), lock_fd_(lock_fd) {}

  const std::string directory_;
  const std::string building_;
  const int lock_fd_;
};

inline constexpr char kTrainFile[] = "train.tokens";
inline constexpr char kEvalFile[] = "eval.tokens";

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PREPARE_CACHE_ENTRY_H_
