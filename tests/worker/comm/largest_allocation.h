// Watches operator new of the test binary: the largest allocation since it was last asked.
#ifndef COXSWAIN_TESTS_WORKER_COMM_LARGEST_ALLOCATION_H_
#define COXSWAIN_TESTS_WORKER_COMM_LARGEST_ALLOCATION_H_

#include <cstddef>

namespace coxswain::comm {

size_t TakeLargestAllocation();  // bytes, of any thread; starts again at 0

}  // namespace coxswain::comm

#endif  // COXSWAIN_TESTS_WORKER_COMM_LARGEST_ALLOCATION_H_
