// libsync_counter.so: counts, from outside of a program, the calls of the CUDA runtime that make
// the host wait for the GPU or that allocate.   LD_PRELOAD=.../libsync_counter.so PROGRAM
//
// It stands before libcudart.so, so it sees every call that the program and its shared libraries
// make through it; what cuBLASLt and cuDNN call inside of themselves it does not see. Copies that
// are asynchronous by name and wait because their host memory is pageable count too. A program asks
// through bench/host_waits.h; one that never does gets its totals on stderr when it ends.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "bench/host_waits.h"

namespace {

enum Call {
  kStreamSynchronize,
  kDeviceSynchronize,
  kEventSynchronize,
  kMemcpy,
  kMemcpy2D,
  kMemcpyToSymbol,
  kMemcpyFromSymbol,
  kPageableMemcpyAsync,
  kMalloc,
  kFree,
  kMallocHost,
  kHostAlloc,
  kFreeHost,
  kCalls
};
constexpr std::array<const char*, kCalls> kNames = {"cudaStreamSynchronize",
                                                    "cudaDeviceSynchronize",
                                                    "cudaEventSynchronize",
                                                    "cudaMemcpy",
                                                    "cudaMemcpy2D",
                                                    "cudaMemcpyToSymbol",
                                                    "cudaMemcpyFromSymbol",
                                                    "cudaMemcpyAsync of pageable memory",
                                                    "cudaMalloc",
                                                    "cudaFree",
                                                    "cudaMallocHost",
                                                    "cudaHostAlloc",
                                                    "cudaFreeHost"};

std::array<std::atomic<int64_t>, kCalls> counts;
std::atomic<bool> asked{false};

void Count(Call call) { counts[call].fetch_add(1, std::memory_order_relaxed); }

bool IsPageable(const void* data) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, data) == cudaSuccess &&
         attributes.type == cudaMemoryTypeUnregistered;
}

struct Totals {
  ~Totals() {
    char text[1024];
    if (asked || coxswain_host_waits(text, sizeof text) == 0) return;
    std::fprintf(stderr, "sync_counter: %s\n", text);
  }
} totals;

}  // namespace

extern "C" {

void coxswain_count_host_waits() {
  asked = true;
  for (auto& count : counts) count = 0;
}

int64_t coxswain_host_waits(char* text, int64_t bytes) {
  int64_t total = 0, used = 0;
  text[0] = '\0';
  for (int call = 0; call < kCalls; ++call) {
    const int64_t count = counts[call];
    total += count;
    if (count == 0 || used >= bytes) continue;
    used += std::snprintf(text + used, static_cast<size_t>(bytes - used), "%s%s %lld",
                          used == 0 ? "" : ", ", kNames[call], static_cast<long long>(count));
  }
  return total;
}

// Each counts itself and calls the one of the runtime.
#define COXSWAIN_COUNTED(call, function, parameters, arguments)                       \
  cudaError_t function parameters {                                                   \
    using Function = cudaError_t(*) parameters;                                       \
    static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, #function)); \
    Count(call);                                                                      \
    return next arguments;                                                            \
  }

COXSWAIN_COUNTED(kStreamSynchronize, cudaStreamSynchronize, (cudaStream_t stream), (stream))
COXSWAIN_COUNTED(kDeviceSynchronize, cudaDeviceSynchronize, (), ())
COXSWAIN_COUNTED(kEventSynchronize, cudaEventSynchronize, (cudaEvent_t event), (event))
COXSWAIN_COUNTED(kMemcpy, cudaMemcpy,
                 (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                 (to, from, bytes, kind))
COXSWAIN_COUNTED(kMemcpy2D, cudaMemcpy2D,
                 (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                  size_t height, cudaMemcpyKind kind),
                 (to, to_pitch, from, from_pitch, width, height, kind))
COXSWAIN_COUNTED(kMemcpyToSymbol, cudaMemcpyToSymbol,
                 (const void* symbol, const void* from, size_t bytes, size_t offset,
                  cudaMemcpyKind kind),
                 (symbol, from, bytes, offset, kind))
COXSWAIN_COUNTED(kMemcpyFromSymbol, cudaMemcpyFromSymbol,
                 (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
                 (to, symbol, bytes, offset, kind))
COXSWAIN_COUNTED(kMalloc, cudaMalloc, (void** data, size_t bytes), (data, bytes))
COXSWAIN_COUNTED(kFree, cudaFree, (void* data), (data))
COXSWAIN_COUNTED(kMallocHost, cudaMallocHost, (void** data, size_t bytes), (data, bytes))
COXSWAIN_COUNTED(kHostAlloc, cudaHostAlloc, (void** data, size_t bytes, unsigned flags),
                 (data, bytes, flags))
COXSWAIN_COUNTED(kFreeHost, cudaFreeHost, (void* data), (data))
#undef COXSWAIN_COUNTED

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  using Function = cudaError_t (*)(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "cudaMemcpyAsync"));
  if (asked && (IsPageable(to) || IsPageable(from))) Count(kPageableMemcpyAsync);
  return next(to, from, bytes, kind, stream);
}

}  // extern "C"
