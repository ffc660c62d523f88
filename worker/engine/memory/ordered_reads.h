// Reads many pieces of files on several threads, and uses them on the caller's thread in order.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_ORDERED_READS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_ORDERED_READS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::engine {

struct OrderedRead {
  int64_t bytes = 0;  // bytes that `read` writes, in pinned memory
  // Runs on any thread, at the same time as others; must not throw.
  std::function<absl::Status(char* out)> read;
  // Runs on the caller's thread, in the order of the list; may throw.
  std::function<void(const char* data)> use;
};

// Runs all reads on at most `threads` threads besides the caller's. Ends soon after the first error
// and returns it. At most threads + 2 pieces are in memory.
absl::Status RunOrderedReads(const std::vector<OrderedRead>& reads, int threads);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_ORDERED_READS_H_
