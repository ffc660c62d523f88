// What a process takes of a GPU beside every buffer.
#ifndef COXSWAIN_COMMON_PLAN_RUNTIME_BYTES_H_
#define COXSWAIN_COMMON_PLAN_RUNTIME_BYTES_H_

#include <cstdint>

namespace coxswain::plan {

// CUDA's context, the modules of kernels and the handles of libraries, in bytes of the device.
// Source: one H200, driver 580.159, CUDA 13: a context alone takes 0.514 GiB; measured peaks of
// sixteen rows of bench/results/h200_step.json and h200_qlora.json, 7 to 104 GiB, lie 0.523 to
// 0.585 GiB above the sum of their buffers, half of them above 0.541.
inline constexpr uint64_t kCudaRuntimeBytes = (uint64_t{54} << 30) / 100;

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_RUNTIME_BYTES_H_
