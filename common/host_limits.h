// What of this machine a process may use.
#ifndef COXSWAIN_COMMON_HOST_LIMITS_H_
#define COXSWAIN_COMMON_HOST_LIMITS_H_

#include <cstdint>

namespace coxswain {

int UsableCpus();  // CPUs this process may run on, >= 1

// Bytes this process may use: the smaller of the machine's memory and its cgroup's limit.
uint64_t MemoryLimitBytes();
// What `workers` processes of one host may each plan with: an equal part of 80 %; the rest is for
// the page cache, libraries and the controller.
uint64_t PlannableBytes(int workers);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_HOST_LIMITS_H_
