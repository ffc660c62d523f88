// Which GPUs and drivers the code of a build runs on. `built` names architectures as
// CMAKE_CUDA_ARCHITECTURES does, with spaces between them: "80-real 90a-real 90-virtual". Source:
// CUDA C++ programming guide, "Binary compatibility", "PTX compatibility", "Feature sets".
//
// What refuses says what to do, for the log of a worker and for `cox`; empty: nothing is refused.
#ifndef COXSWAIN_KERNELS_DEVICE_CODE_H_
#define COXSWAIN_KERNELS_DEVICE_CODE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace coxswain::kernels {

// Machine code ("80-real") runs on its major number from its minor number on, PTX ("90-virtual") on
// every newer GPU too; of either, what ends in `a` on that one capability alone and in `f` on its
// major number. `capability`: x 10.
bool HasCodeFor(std::string_view built, int32_t capability);

// "8.0 8.6 9.0a, PTX 9.0".
std::string DescribeCode(std::string_view built);

// Of the GPU `name`: its capability is below 8.0, or the build has no code for it.
std::string GpuRefusal(const std::string& name, int32_t capability, std::string_view built);

// Of the NVIDIA driver: there is none, or it is older than the CUDA runtime. `driver`, `runtime`:
// what cudaDriverGetVersion and cudaRuntimeGetVersion give (12080: CUDA 12.8; 0: no driver). A
// driver runs every minor version of its CUDA. Source: CUDA Toolkit 13 release notes, "CUDA
// Toolkit and Minimum Required Driver Version for CUDA Minor Version Compatibility": CUDA 12.x
// needs driver 525, 13.x needs 580.
std::string DriverRefusal(int32_t driver, int32_t runtime);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_DEVICE_CODE_H_
