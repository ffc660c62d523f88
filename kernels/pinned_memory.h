// Page-locking of host memory that someone else allocated, and the end of the copies there.
#ifndef COXSWAIN_KERNELS_PINNED_MEMORY_H_
#define COXSWAIN_KERNELS_PINNED_MEMORY_H_

#include <cstdint>

#include "kernels/device.h"

namespace coxswain::kernels {

// Makes host memory such that copies to and from the device do not block, until UnpinMemory of
// `data`, its first byte, which begins a page. False where the system allows no more. Any thread.
// The CPU has nothing to do for it.
bool PinMemory(void* data, int64_t bytes);
void UnpinMemory(void* data);

// As Synchronize, for destructors: it throws nothing, and returns too when the stream does no more
// work because the device failed.
void FinishStream(Stream* stream) noexcept;

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PINNED_MEMORY_H_
