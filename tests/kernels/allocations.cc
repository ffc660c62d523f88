// Counts the allocations of the test binary, so that tests can see that a launch makes none.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

int64_t Allocations() { return allocations; }
void CountAllocation() { ++allocations; }

}  // namespace coxswain::kernels

void* operator new(std::size_t bytes) {
  coxswain::kernels::CountAllocation();
  if (void* data = std::malloc(bytes > 0 ? bytes : 1)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
