#include "kernels/device.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "kernels/cuda/stream.h"
#include "kernels/device_code.h"

namespace coxswain::kernels {
namespace {

// Errors after which every further call fails: the context is lost with all it holds.
bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

struct FreeAndTotal {
  int64_t free, total;
};

FreeAndTotal MemoryBytes() {
  size_t free = 0, total = 0;
  cuda::CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

}  // namespace

namespace cuda {

void CheckCuda(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();  // the check of the next launch would find it again
  if (result == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw DeviceError(
      std::string(call) + ": " + cudaGetErrorName(result) + ": " + cudaGetErrorString(result),
      IsSticky(result));
}

void CheckCublas(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(std::string(call) + ": " + cublasLtGetStatusName(result),
                    result == CUBLAS_STATUS_EXECUTION_FAILED);
}

void CheckCudnn(cudnnStatus_t result, const char* call) {
  if (result == CUDNN_STATUS_SUCCESS) return;
  throw DeviceError(std::string(call) + ": " + cudnnGetErrorString(result), false);
}

namespace {

int Attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

int Multiprocessors() {
  static const int count = Attribute(cudaDevAttrMultiProcessorCount);
  return count;
}

int SharedMemoryOfMultiprocessor() {
  static const int bytes = Attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return bytes;
}

int Capability() {
  static const int capability = 10 * Attribute(cudaDevAttrComputeCapabilityMajor) +
                                Attribute(cudaDevAttrComputeCapabilityMinor);
  return capability;
}

void AllowSharedMemory(const void* kernel, int bytes, const char* op) {
  cudaFuncAttributes now{};
  CheckCuda(cudaFuncGetAttributes(&now, kernel), op);
  if (now.maxDynamicSharedSizeBytes >= bytes) return;
  CheckCuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), op);
}

}  // namespace cuda

Stream::Stream() {
  cuda::CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  cuda::CheckCublas(cublasLtCreate(&cublaslt_), "cublasLtCreate");
}

Stream::Stream(cudaStream_t foreign) : stream_(foreign), owned_(false) {
  cuda::CheckCublas(cublasLtCreate(&cublaslt_), "cublasLtCreate");
}

Stream::~Stream() {
  if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
  cublasLtDestroy(cublaslt_);
  if (owned_) cudaStreamDestroy(stream_);
}

cudnnHandle_t Stream::cudnn() {
  if (cudnn_ == nullptr) {
    cuda::CheckCudnn(cudnnCreate(&cudnn_), "cudnnCreate");
    cuda::CheckCudnn(cudnnSetStream(cudnn_, stream_), "cudnnSetStream");
  }
  return cudnn_;
}

class Event {
 public:
  cudaEvent_t event = nullptr;
};

class Graph {
 public:
  cudaGraphExec_t graph;
};

int DeviceCount() {
  int count = 0, driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  if (const std::string refusal = DriverRefusal(driver, runtime); !refusal.empty()) {
    throw UnusableDevice(refusal);
  }
  if (const cudaError_t result = cudaGetDeviceCount(&count); result != cudaSuccess) {
    const std::string why =
        std::string("the CUDA driver finds no usable GPU: ") + cudaGetErrorString(result);
    if (result == cudaErrorNoDevice) throw UnusableDevice(why);
    throw DeviceError(why, false);
  }
  return count;
}

DeviceDescription DescribeDevice(int index) {
  const int count = DeviceCount();
  if (index < 0 || index >= count) {
    throw UnusableDevice("GPU " + std::to_string(index) + " does not exist: this host shows " +
                         std::to_string(count) + " (see CUDA_VISIBLE_DEVICES)");
  }
  cudaDeviceProp properties{};
  cuda::CheckCuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  DeviceDescription device;
  device.kind = "cuda";
  device.name = properties.name;
  device.capability = properties.major * 10 + properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  const std::string refusal = GpuRefusal(device.name, device.capability, COXSWAIN_CUDA_CODE);
  if (!refusal.empty()) throw UnusableDevice(refusal);
  char bus[32] = {};
  cuda::CheckCuda(cudaDeviceGetPCIBusId(bus, sizeof(bus), index), "cudaDeviceGetPCIBusId");
  device.pci_bus = bus;
  device.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  return device;
}

DeviceDescription SelectDevice(int index) {
  DeviceDescription device = DescribeDevice(index);
  cuda::CheckCuda(cudaSetDevice(index), "cudaSetDevice");
  device.total_bytes = MemoryBytes().total;
  return device;
}

Stream* CreateStream() { return new Stream; }
void DestroyStream(Stream* stream) { delete stream; }

void Synchronize(Stream* stream) {
  Event* event = CreateEvent();
  RecordEvent(event, stream);
  while (!EventReached(event)) std::this_thread::sleep_for(std::chrono::microseconds(20));
  DestroyEvent(event);
}

void* AllocateMemory(int64_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes < 0) throw std::bad_alloc();
  void* data = nullptr;
  cuda::CheckCuda(cudaMalloc(&data, static_cast<size_t>(bytes)), "cudaMalloc");
  return data;
}

// At exit the context may be gone before the last owner: nothing is left to do about it.
void FreeMemory(void* data) { (void)cudaFree(data); }

void* AllocatePinnedMemory(int64_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  cuda::CheckCuda(cudaMallocHost(&data, static_cast<size_t>(bytes)), "cudaMallocHost");
  return data;
}

void FreePinnedMemory(void* data) { (void)cudaFreeHost(data); }

int64_t UsedMemoryBytes() {
  const FreeAndTotal memory = MemoryBytes();
  return memory.total - memory.free;
}

int64_t FreeMemoryBytes() { return MemoryBytes().free; }

void SetMemory(void* data, int byte_value, int64_t bytes, Stream* stream) {
  if (bytes <= 0) return;
  cuda::CheckCuda(
      cudaMemsetAsync(data, byte_value, static_cast<size_t>(bytes), cuda::Handle(stream)),
      "cudaMemsetAsync");
  if (stream == nullptr) Synchronize(nullptr);
}

void CopyMemory(void* destination, const void* source, int64_t bytes, Stream* stream) {
  if (bytes <= 0) return;
  cuda::CheckCuda(cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes),
                                  cudaMemcpyDefault, cuda::Handle(stream)),
                  "cudaMemcpyAsync");
  if (stream == nullptr) Synchronize(nullptr);
}

Event* CreateEvent() {
  auto* event = new Event;
  cuda::CheckCuda(cudaEventCreate(&event->event), "cudaEventCreate");
  return event;
}

void DestroyEvent(Event* event) {
  if (event == nullptr) return;
  (void)cudaEventDestroy(event->event);
  delete event;
}

void RecordEvent(Event* event, Stream* stream) {
  cuda::CheckCuda(cudaEventRecord(event->event, cuda::Handle(stream)), "cudaEventRecord");
}

void WaitEvent(Event* event, Stream* stream) {
  cuda::CheckCuda(cudaStreamWaitEvent(cuda::Handle(stream), event->event, cudaEventWaitDefault),
                  "cudaStreamWaitEvent");
}

void RecordTime(Event* event, Stream* stream) {
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cuda::CheckCuda(cudaStreamIsCapturing(cuda::Handle(stream), &capturing), "cudaStreamIsCapturing");
  const unsigned flags =
      capturing == cudaStreamCaptureStatusNone ? cudaEventRecordDefault : cudaEventRecordExternal;
  cuda::CheckCuda(cudaEventRecordWithFlags(event->event, cuda::Handle(stream), flags),
                  "cudaEventRecordWithFlags");
}

bool EventReached(const Event* event) {
  const cudaError_t result = cudaEventQuery(event->event);
  if (result == cudaErrorNotReady) return false;
  cuda::CheckCuda(result, "waiting for the device");
  return true;
}

double SecondsBetween(const Event* begin, const Event* end) {
  float milliseconds = 0;
  cuda::CheckCuda(cudaEventElapsedTime(&milliseconds, begin->event, end->event),
                  "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

namespace {

// A stream that records. It records no more when this goes, whatever a launch threw meanwhile.
class Recording {
 public:
  explicit Recording(cudaStream_t stream) : stream_(stream) {
    cuda::CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                    "cudaStreamBeginCapture");
  }
  ~Recording() {
    if (open_) (void)cudaStreamEndCapture(stream_, &graph_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // What was recorded; owned by this.
  cudaGraph_t End() {
    open_ = false;
    cuda::CheckCuda(cudaStreamEndCapture(stream_, &graph_), "cudaStreamEndCapture");
    return graph_;
  }

 private:
  const cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool open_ = true;
};

}  // namespace

Graph* CaptureGraph(std::function<void()> launches, Stream* stream) {
  Recording recording(cuda::Handle(stream));
  launches();
  cudaGraphExec_t graph = nullptr;
  cuda::CheckCuda(cudaGraphInstantiate(&graph, recording.End(), 0), "cudaGraphInstantiate");
  return new Graph{graph};
}

void LaunchGraph(Graph* graph, Stream* stream) {
  cuda::CheckCuda(cudaGraphLaunch(graph->graph, cuda::Handle(stream)), "cudaGraphLaunch");
}

void DestroyGraph(Graph* graph) {
  if (graph == nullptr) return;
  (void)cudaGraphExecDestroy(graph->graph);
  delete graph;
}

void PushRange(const char* name) { nvtxRangePushA(name); }
void PopRange() { nvtxRangePop(); }

void SetNumThreads(int count) {
  if (count < 1) {
    throw std::invalid_argument("threads: " + std::to_string(count) + ", must be at least 1");
  }
}

int NumThreads() { return 1; }

std::string DeviceFingerprint() {
  int device = 0;
  cuda::CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties{};
  cuda::CheckCuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return std::string("device=cuda name=") + properties.name +
         " sm=" + std::to_string(properties.major * 10 + properties.minor) +
         " multiprocessors=" + std::to_string(properties.multiProcessorCount) +
         " cublaslt=" + std::to_string(cublasLtGetVersion()) +
         " cudnn=" + std::to_string(cudnnGetVersion());
}

}  // namespace coxswain::kernels
