// A loop on several threads that has ended when the call returns.
#ifndef COXSWAIN_COMMON_PARALLEL_FOR_H_
#define COXSWAIN_COMMON_PARALLEL_FOR_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace coxswain {

// Calls work(i) for every i in [0, count), about in order, on at most `threads` threads, of which
// the caller is one; its calls run at the same time. After an error no further one begins, and the
// error of the lowest i that failed is returned. What `work` throws is such an error (Guarded).
absl::Status ParallelFor(int64_t count, int threads,
                         const std::function<absl::Status(int64_t)>& work);

// Threads for reading, writing and hashing large files: the machine's cores, at most 8.
int FileThreads();

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_PARALLEL_FOR_H_
