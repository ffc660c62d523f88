#include "kernels/device.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "kernels/cpu/blas_core.h"
#include "kernels/cpu/parallel.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kAlignment = 64;

// OpenBLAS keeps its own threads. Another BLAS has no such symbol and follows OpenMP or is serial.
template <typename Fn>
Fn* BlasSymbol(const char* name) {
  return reinterpret_cast<Fn*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

class Stream {};

class Event {
 public:
  std::chrono::steady_clock::time_point time;
};

class Graph {
 public:
  std::function<void()> launches;
};

int DeviceCount() { return 1; }

DeviceDescription DescribeDevice(int index) {
  if (index != 0) {
    throw UnusableDevice("device " + std::to_string(index) +
                         ": the CPU is device 0 and the only one");
  }
  return {.kind = "cpu"};
}

DeviceDescription SelectDevice(int index) { return DescribeDevice(index); }

Stream* CreateStream() { return new Stream; }
void DestroyStream(Stream* stream) { delete stream; }
void Synchronize(Stream* stream) {}

void* AllocateMemory(int64_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes < 0) throw std::bad_alloc();
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

void FreeMemory(void* data) { std::free(data); }
void* AllocatePinnedMemory(int64_t bytes) { return AllocateMemory(bytes); }
void FreePinnedMemory(void* data) { FreeMemory(data); }
int64_t UsedMemoryBytes() { return 0; }
int64_t FreeMemoryBytes() { return 0; }

void SetMemory(void* data, int byte_value, int64_t bytes, Stream* stream) {
  if (bytes > 0) std::memset(data, byte_value, static_cast<size_t>(bytes));
}

void CopyMemory(void* destination, const void* source, int64_t bytes, Stream* stream) {
  if (bytes > 0) std::memcpy(destination, source, static_cast<size_t>(bytes));
}

Event* CreateEvent() { return new Event; }
void DestroyEvent(Event* event) { delete event; }
void RecordEvent(Event* event, Stream* stream) { event->time = std::chrono::steady_clock::now(); }
void WaitEvent(Event* event, Stream* stream) {}
void RecordTime(Event* event, Stream* stream) { RecordEvent(event, stream); }
bool EventReached(const Event* event) { return true; }
double SecondsBetween(const Event* begin, const Event* end) {
  return std::chrono::duration<double>(end->time - begin->time).count();
}

Graph* CaptureGraph(std::function<void()> launches, Stream* stream) {
  return new Graph{std::move(launches)};
}
void LaunchGraph(Graph* graph, Stream* stream) { graph->launches(); }
void DestroyGraph(Graph* graph) { delete graph; }

void PushRange(const char* name) {}
void PopRange() {}

void SetNumThreads(int count) {
  if (count < 1) {
    throw std::invalid_argument("threads: " + std::to_string(count) + ", must be at least 1");
  }
  cpu::SetParallelThreads(count);
  if (auto* set = BlasSymbol<void(int)>("openblas_set_num_threads")) set(count);
}

int NumThreads() { return cpu::ParallelThreads(); }

std::string DeviceFingerprint() {
  std::string blas = "unknown";
  if (auto* config = BlasSymbol<char*()>("openblas_get_config")) blas = config();
  if (const std::string core = cpu::BlasCore(); !core.empty()) blas += "/" + core;
  return std::string("device=cpu vector=") + cpu::VectorUnits() + " blas=" + blas +
         " threads=" + std::to_string(NumThreads());
}

}  // namespace coxswain::kernels
