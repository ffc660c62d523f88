// A number that changes when any bit of a tensor changes: how the engine sees that parameters
// moved.
//   sum over i of mix(bits(x_i) + 2^32 i) modulo 2^64, mix = the finaliser of SplitMix64; an
//   integer sum, so the order does not matter. bfloat16 bits are zero-extended.
// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
#ifndef COXSWAIN_KERNELS_TENSORS_CHECKSUM_H_
#define COXSWAIN_KERNELS_TENSORS_CHECKSUM_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/tensor_records.h"

namespace coxswain::kernels {

struct ChecksumArgs {
  DType dtype = DType::kFloat32;
  int64_t count = 0;
  const void* values = nullptr;  // [count]
  uint64_t* sum = nullptr;       // one word in device memory, added to
};
void Checksum(const ChecksumArgs& args, Stream* stream);

// True in *all_zero (one int32 in device memory, 1 before) unless an element differs from zero.
struct AllZeroArgs {
  DType dtype = DType::kFloat32;
  int64_t count = 0;
  const void* values = nullptr;
  int32_t* all_zero = nullptr;
};
void AllZero(const AllZeroArgs& args, Stream* stream);

// Both of every tensor of a list, reading each element once.
struct ChecksumTensorsArgs {
  const NormTensor* tensors = nullptr;  // [count], device memory
  int64_t count = 0;
  int64_t chunks = 0;          // of these tensors
  TensorBits* bits = nullptr;  // [count], overwritten, device memory
};
void ChecksumTensors(const ChecksumTensorsArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_CHECKSUM_H_
