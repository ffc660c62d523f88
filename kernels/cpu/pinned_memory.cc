#include "kernels/pinned_memory.h"

namespace coxswain::kernels {

bool PinMemory(void* data, int64_t bytes) { return true; }
void UnpinMemory(void* data) {}
void FinishStream(Stream* stream) noexcept {}

}  // namespace coxswain::kernels
