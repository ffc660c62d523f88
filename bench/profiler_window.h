// Opens and closes what a profiler records (libkernel_times.so, or ncu --profile-from-start off).
// Nothing without a profiler, and in a CPU build.
#ifndef COXSWAIN_BENCH_PROFILER_WINDOW_H_
#define COXSWAIN_BENCH_PROFILER_WINDOW_H_

#include <dlfcn.h>

namespace coxswain::bench {

inline void SetProfilerWindow(bool open) {
  void* call = dlsym(RTLD_DEFAULT, open ? "cudaProfilerStart" : "cudaProfilerStop");
  if (call != nullptr) reinterpret_cast<int (*)()>(call)();
}

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_PROFILER_WINDOW_H_
