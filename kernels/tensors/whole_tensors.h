// Ops on whole tensors: added, scaled, converted, filled, summed, compared by a checksum.
#ifndef COXSWAIN_KERNELS_TENSORS_WHOLE_TENSORS_H_
#define COXSWAIN_KERNELS_TENSORS_WHOLE_TENSORS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/tensor_records.h"

namespace coxswain::kernels {

// y += alpha x.
struct AddArgs {
  DType dtype = DType::kFloat32;    // of y
  DType x_dtype = DType::kFloat32;  // that of y, or bfloat16
  int64_t count = 0;
  float alpha = 1.0f;
  const void* x = nullptr;  // [count]
  void* y = nullptr;        // [count]
};
void Add(const AddArgs& args, Stream* stream);

// x *= factor, in place; nothing is read or written where the factor is 1.
struct ScaleArgs {
  DType dtype = DType::kFloat32;  // of x
  int64_t count = 0;
  const float* factor = nullptr;  // one float in device memory
  void* x = nullptr;              // [count]
};
void Scale(const ScaleArgs& args, Stream* stream);

// Conversion between element types, to nearest even.

// Both libraries convert between any two of DType.
struct ConvertArgs {
  DType from = DType::kFloat32;
  DType to = DType::kFloat32;
  int64_t count = 0;
  const void* in = nullptr;  // [count]
  void* out = nullptr;       // [count], overlaps not with in
};
void Convert(const ConvertArgs& args, Stream* stream);

// Initial values of a tensor from counters, the same whatever fills them.
//   element i: word i mod 4 of Philox(key, (i/4 low, i/4 high, counter[0], counter[1]))
//   uniform: bound (2 u - 1), u = (word >> 8) 2^-24
//   normal: deviation sqrt(-2 ln(1 - u1)) (cos, sin)(2 pi u2) of the word pairs (0, 1) and (2, 3)
// Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
enum class RandomFillKind : uint8_t { kConstant, kUniform, kNormal };

struct RandomFillArgs {
  DType dtype = DType::kFloat32;
  RandomFillKind kind = RandomFillKind::kConstant;
  double value = 0.0;  // the constant, the bound, or the standard deviation
  uint32_t key[2] = {0, 0};
  uint32_t counter[2] = {0, 0};
  int64_t first = 0;  // element that out[0] is
  int64_t count = 0;
  void* out = nullptr;  // [count]; computed in double, rounded to float32, then to dtype
};
void RandomFill(const RandomFillArgs& args, Stream* stream);

// Sum of float32 values in double precision, in a fixed order.
struct SumArgs {
  int64_t count = 0;
  const float* values = nullptr;  // [count]
  double* sum = nullptr;          // one double in device memory
  bool accumulate = false;        // *sum += instead of *sum =
};
void Sum(const SumArgs& args, Stream* stream);

// A number that changes when any bit of a tensor changes: how the engine sees that parameters
// moved.
//   sum over i of mix(bits(x_i) + 2^32 i) modulo 2^64, mix = the finaliser of SplitMix64; an
//   integer sum, so the order does not matter. bfloat16 bits are zero-extended.
// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
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

#endif  // COXSWAIN_KERNELS_TENSORS_WHOLE_TENSORS_H_
