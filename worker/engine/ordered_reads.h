// Many pieces of files, read on several threads and used on the caller's, one after another.
#ifndef COXSWAIN_WORKER_ENGINE_ORDERED_READS_H_
#define COXSWAIN_WORKER_ENGINE_ORDERED_READS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::engine {

struct OrderedRead {
  int64_t bytes = 0;  // what `read` writes, in pinned memory
  // Any thread, at the same time as those of others; must not throw.
  std::function<absl::Status(char* out)> read;
  // The caller's thread, in the order of the list; may throw.
  std::function<void(const char* data)> use;
};

// Runs them all on at most `threads` threads beside the caller's, or ends soon after an error,
// which it returns. At most threads + 2 pieces are in memory.
absl::Status RunOrderedReads(const std::vector<OrderedRead>& reads, int threads);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_ORDERED_READS_H_
