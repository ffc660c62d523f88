// Prepared data on disk: CACHE_DIR/CONTENT_HASH/{train.tokens, eval.tokens, stats.json}.
#ifndef COXSWAIN_CONTROLLER_DATA_CACHE_ENTRY_H_
#define COXSWAIN_CONTROLLER_DATA_CACHE_ENTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/data/cancelled.h"
#include "controller/data/prepared_data.h"

namespace coxswain::data {

// One entry, locked against other processes and threads that prepare the same content, until
// destroyed. The kernel drops the lock of a process that dies.
class CacheEntry {
 public:
  // Creates cache_dir; waits for the lock. Cancelled when `cancelled` says so; a directory that
  // takes no lock is OfTokenCache.
  static absl::StatusOr<std::unique_ptr<CacheEntry>> Lock(const std::string& cache_dir,
                                                          const std::string& content_hash,
                                                          const Cancelled& cancelled);
  ~CacheEntry();
  CacheEntry(const CacheEntry&) = delete;
  CacheEntry& operator=(const CacheEntry&) = delete;

  // Stores and stats, every checksum compared. NotFound: no entry; DataLoss: a damaged one;
  // Cancelled.
  absl::StatusOr<PreparedData> Load(const Cancelled& cancelled) const;

  // An empty directory for the files of a new entry. What an interrupted build left there is
  // removed.
  absl::StatusOr<std::string> BeginBuild();
  // Adds stats.json and gives the directory its final name, replacing a damaged entry.
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

#endif  // COXSWAIN_CONTROLLER_DATA_CACHE_ENTRY_H_
