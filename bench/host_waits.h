// How often the host waited for the GPU, as libsync_counter.so counts it when it is preloaded.
#ifndef COXSWAIN_BENCH_HOST_WAITS_H_
#define COXSWAIN_BENCH_HOST_WAITS_H_

#include <dlfcn.h>

#include <cstdint>
#include <optional>
#include <string>

// Of libsync_counter.so. Starts from zero; writes "cudaMemcpy 2, ..." of at most `bytes` with its
// final zero and returns the sum.
extern "C" void coxswain_count_host_waits();
extern "C" int64_t coxswain_host_waits(char* text, int64_t bytes);

namespace coxswain::bench {

struct HostWaits {
  int64_t count = 0;
  std::string calls;  // "cudaMemcpy 2, cudaFree 1"
};

// Counts from zero; does nothing when the library is not preloaded.
inline void CountHostWaits() {
  void* start = dlsym(RTLD_DEFAULT, "coxswain_count_host_waits");
  if (start != nullptr) reinterpret_cast<decltype(&coxswain_count_host_waits)>(start)();
}

// Since then; nothing when the library is not preloaded.
inline std::optional<HostWaits> CountedHostWaits() {
  void* read = dlsym(RTLD_DEFAULT, "coxswain_host_waits");
  if (read == nullptr) return std::nullopt;
  char text[1024];
  HostWaits waits;
  waits.count = reinterpret_cast<decltype(&coxswain_host_waits)>(read)(text, sizeof text);
  waits.calls = text;
  return waits;
}

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_HOST_WAITS_H_
