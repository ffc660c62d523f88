// Which GPUs the code of a build runs on. `built` names architectures as CMAKE_CUDA_ARCHITECTURES
// does, with spaces between them: "80-real 90a-real 90-virtual". Source: CUDA C++ programming
// guide, "Binary compatibility", "PTX compatibility", "Feature sets".
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

// What to tell of a GPU without code: names it, what there is, and what to build.
std::string MissingCode(const std::string& name, int32_t capability, std::string_view built);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_DEVICE_CODE_H_
