// libkernel_times.so: the time of each kernel, copy and fill of a program on the GPU, as they run,
// by CUPTI.   CUDA_INJECTION64_PATH=.../libkernel_times.so KERNEL_TIMES=FILE PROGRAM
//
// The driver loads it before the program's first call. What counts began between the program's
// cudaProfilerStart and its first cudaProfilerStop (bench/profiler_window.h). FILE is CSV, name,
// calls and nanoseconds, written when the program ends. Kernels of graphs count one by one. Source:
// CUPTI 13.0 documentation, "Activity API", "Injection".
#include <cupti.h>
#include <cxxabi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <string>

namespace {

constexpr size_t kBufferBytes = 8 << 20;
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

struct Times {
  int64_t calls = 0, nanoseconds = 0;
};
std::mutex mutex;
std::map<std::string, Times> times;  // by mangled name
std::atomic<uint64_t> window_begin{kNever}, window_end{kNever};

void Check(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  const char* message = "";
  cuptiGetResultString(result, &message);
  std::fprintf(stderr, "libkernel_times.so: %s: %s\n", call, message);
  std::exit(1);
}

template <typename Activity>
void Add(const CUpti_Activity* record, const char* name) {
  const auto* activity = reinterpret_cast<const Activity*>(record);
  if (activity->start < window_begin || activity->start >= window_end) return;
  const std::lock_guard lock(mutex);
  Times& of = times[name];
  ++of.calls;
  of.nanoseconds += static_cast<int64_t>(activity->end - activity->start);
}

void AddRecord(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return Add<CUpti_ActivityKernel10>(
          record, reinterpret_cast<const CUpti_ActivityKernel10*>(record)->name);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return Add<CUpti_ActivityMemcpy6>(record, "copy");
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return Add<CUpti_ActivityMemset4>(record, "fill");
    default:
      return;
  }
}

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}
void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    AddRecord(record);
  }
  std::free(buffer);
}

void CUPTIAPI OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId call, const void* data) {
  const bool exits = static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_EXIT;
  uint64_t now = 0;
  Check(cuptiGetTimestamp(&now), "cuptiGetTimestamp");
  if (call == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart && exits) window_begin = now;
  uint64_t open = kNever;  // the window closes once
  if (call == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop && !exits) {
    window_end.compare_exchange_strong(open, now);
  }
}

void WriteTimes() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const char* path = std::getenv("KERNEL_TIMES");
  std::FILE* file = path == nullptr ? stderr : std::fopen(path, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "libkernel_times.so: cannot write KERNEL_TIMES=%s\n", path);
    return;
  }
  std::fprintf(file, "\"name\",\"calls\",\"nanoseconds\"\n");
  const std::lock_guard lock(mutex);
  for (const auto& [mangled, of] : times) {
    int status = 0;
    char* name = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
    std::fprintf(file, "\"%s\",%lld,%lld\n", status == 0 ? name : mangled.c_str(),
                 static_cast<long long>(of.calls), static_cast<long long>(of.nanoseconds));
    std::free(name);
  }
  if (file != stderr) std::fclose(file);
}

}  // namespace

// Called by the driver. 1: the library is ready.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  Check(cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer), "cuptiActivityRegisterCallbacks");
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    Check(cuptiActivityEnable(kind), "cuptiActivityEnable");
  }
  CUpti_SubscriberHandle subscriber = nullptr;
  Check(cuptiSubscribe(&subscriber, OnCall, nullptr), "cuptiSubscribe");
  for (const CUpti_CallbackId call :
       {CUPTI_DRIVER_TRACE_CBID_cuProfilerStart, CUPTI_DRIVER_TRACE_CBID_cuProfilerStop}) {
    Check(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, call),
          "cuptiEnableCallback");
  }
  std::atexit(WriteTimes);
  return 1;
}
