// Element types of tensors in files and memory.
#ifndef COXSWAIN_COMMON_ELEMENT_TYPE_H_
#define COXSWAIN_COMMON_ELEMENT_TYPE_H_

#include <cstdint>
#include <string_view>

namespace coxswain {

// Values are the order of the safetensors enum, which its writer sorts by.
// Source: safetensors tensor.rs, enum Dtype.
enum class ElementType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

int64_t ElementBits(ElementType dtype);
std::string_view ElementName(ElementType dtype);  // safetensors spelling, e.g. "BF16"
bool ParseElementType(std::string_view name, ElementType* dtype);  // false: unknown

// float32 <-> bfloat16 / float16, round to nearest even; NaN stays NaN.
uint16_t FloatToBf16(float value);
float Bf16ToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
float HalfToFloat(uint16_t bits);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_ELEMENT_TYPE_H_
