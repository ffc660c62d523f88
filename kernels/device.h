// Memory, copies and execution order of the one device that this library was built for.
// CPU: every launch has finished when it returns, so a Stream orders nothing and may be null.
#ifndef COXSWAIN_KERNELS_DEVICE_H_
#define COXSWAIN_KERNELS_DEVICE_H_

#include <cstdint>
#include <string>

namespace coxswain::kernels {

// Opaque handle of an ordered queue of launches. Null is the default queue of the CPU library.
class Stream;

Stream* CreateStream();
void DestroyStream(Stream* stream);
// Blocks until all work of the stream has finished.
void Synchronize(Stream* stream);

// Device memory, 64-byte aligned, uninitialised. bytes 0 gives null. Throws std::bad_alloc.
void* AllocateMemory(int64_t bytes);
void FreeMemory(void* data);

void SetMemory(void* data, int byte_value, int64_t bytes, Stream* stream);
// Host or device to host or device, no overlap.
void CopyMemory(void* destination, const void* source, int64_t bytes, Stream* stream);

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
