// Memory, copies and execution order of the one device that this library was built for.
// CPU: every launch has finished when it returns, so a Stream orders nothing and may be null.
// CUDA: a Stream also holds the library handles of its thread. Functions throw DeviceError when the
// device reports a failure, std::bad_alloc when memory is short.
#ifndef COXSWAIN_KERNELS_DEVICE_H_
#define COXSWAIN_KERNELS_DEVICE_H_

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace coxswain::kernels {

// A failed call of the device's runtime or libraries; the process cannot go on with the device when
// `sticky`.
class DeviceError : public std::runtime_error {
 public:
  DeviceError(const std::string& what, bool sticky) : std::runtime_error(what), sticky_(sticky) {}
  bool sticky() const { return sticky_; }

 private:
  bool sticky_;
};

// What no later try on this host changes: no driver, a driver too old, no such device, too old a
// device, one that this build has no code for. One sentence.
class UnusableDevice : public DeviceError {
 public:
  explicit UnusableDevice(const std::string& what) : DeviceError(what, false) {}
};

struct DeviceDescription {
  std::string kind = {};    // "cpu" | "cuda"
  std::string name = {};    // of the model of GPU; empty on the CPU
  int64_t total_bytes = 0;  // of device memory; 0 on the CPU
  int32_t capability = 0;   // CUDA compute capability x 10 (90: sm_90); 0 on the CPU
  int32_t multiprocessors = 0;
  std::string pci_bus = {};  // of the GPU, e.g. "0000:1b:00.0"; empty on the CPU
};
// Devices that SelectDevice can choose among; 1 on the CPU. Throws DeviceError as it does.
int DeviceCount();
// What SelectDevice would choose. Throws as it does.
DeviceDescription DescribeDevice(int index);
// Chooses the device of this process; 0 on the CPU. Before anything else of this library. Throws
// UnusableDevice, or DeviceError where a device is there and does not answer.
DeviceDescription SelectDevice(int index);

// Opaque handle of an ordered queue of launches. Null: the default queue, on which copies block.
class Stream;

Stream* CreateStream();
void DestroyStream(Stream* stream);
// Returns when all work of the stream has finished. CUDA: polls, and blocks no driver call.
void Synchronize(Stream* stream);

// Device memory, 64-byte aligned (CUDA: 256), uninitialised. bytes 0 gives null. Throws
// std::bad_alloc.
void* AllocateMemory(int64_t bytes);
void FreeMemory(void* data);
// Host memory that copies to and from the device without blocking.
void* AllocatePinnedMemory(int64_t bytes);
void FreePinnedMemory(void* data);
// Device memory in use by this process, all allocations and the runtime's own; 0 on the CPU.
int64_t UsedMemoryBytes();
// Device memory that no process uses; 0 on the CPU.
int64_t FreeMemoryBytes();

void SetMemory(void* data, int byte_value, int64_t bytes, Stream* stream);
// Host or device to host or device, no overlap. The host side must stay as it is until the stream
// has got there, unless `stream` is null.
void CopyMemory(void* destination, const void* source, int64_t bytes, Stream* stream);

// A point in a stream.
class Event;
Event* CreateEvent();
void DestroyEvent(Event* event);
void RecordEvent(Event* event, Stream* stream);
// What follows in `stream` waits for what was before the event's last record. While a sequence is
// captured, this is how another stream joins it and is joined again.
void WaitEvent(Event* event, Stream* stream);
// As RecordEvent for events that the host times: inside a captured sequence RecordEvent orders
// launches only, this one is recorded again at each launch of the graph.
void RecordTime(Event* event, Stream* stream);
// True once the stream has passed it; true when it was never recorded.
bool EventReached(const Event* event);
// Between two events that were reached.
double SecondsBetween(const Event* begin, const Event* end);

// A sequence of launches that is issued as one. `launches` uses `stream` and streams that join it
// by WaitEvent, allocates and waits for nothing, and everything it refers to outlives the graph.
// The CPU keeps the function and calls it; CUDA records what it launches and does not run it now.
class Graph;
Graph* CaptureGraph(std::function<void()> launches, Stream* stream);
void LaunchGraph(Graph* graph, Stream* stream);
void DestroyGraph(Graph* graph);

// Names what follows in a profiler's timeline until the matching pop. Nothing on the CPU.
void PushRange(const char* name);
void PopRange();

// Threads of one launch, BLAS included; 1 means that no other thread computes. Must be called
// before the first launch of the process, from one thread. Throws std::invalid_argument for count
// < 1.
void SetNumThreads(int count);
int NumThreads();

// What the bits of the results depend on beside the inputs: device, libraries, threads, vector
// units.
std::string DeviceFingerprint();

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_DEVICE_H_
