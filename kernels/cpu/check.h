// Contract checks of the launchers: they throw std::invalid_argument naming the op and the values.
#ifndef COXSWAIN_KERNELS_CPU_CHECK_H_
#define COXSWAIN_KERNELS_CPU_CHECK_H_

#include <cstdint>

#include "kernels/dtype.h"

namespace coxswain::kernels::cpu {

void RequireSupported(bool supported, const char* op);
void RequireExtent(int64_t extent, const char* op, const char* name);
// `stride` elements between rows of `columns`, 0: `columns`.
int64_t RowStride(int64_t stride, int64_t columns, const char* op);
void RequireWorkspace(const Workspace& workspace, int64_t bytes, const char* op);

// Bytes of `floats` rounded up, so that what follows in a workspace stays aligned.
constexpr int64_t AlignedFloatBytes(int64_t floats) { return (floats * 4 + 63) / 64 * 64; }

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_CHECK_H_
