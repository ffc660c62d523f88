#include "common/element_type.h"

#include <array>
#include <bit>

namespace coxswain {
namespace {

struct ElementRow {
  std::string_view name;
  int64_t bits;
};

// In enum order.
constexpr std::array<ElementRow, 22> kRows = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

}  // namespace

int64_t ElementBits(ElementType dtype) { return kRows[static_cast<size_t>(dtype)].bits; }

std::string_view ElementName(ElementType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

bool ParseElementType(std::string_view name, ElementType* dtype) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) {
      *dtype = static_cast<ElementType>(i);
      return true;
    }
  }
  return false;
}

uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  const uint32_t round = 0x7FFFu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>((bits + round) >> 16);
}

float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  }
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // rounds to >= 65536
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal half, one unit = 2^-24
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // 0.5f has units of 2^-24
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - 0x3F000000u));
  }
  const uint32_t round = 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + round) >> 13));
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide = exponent == 0x1Fu ? 0x7F800000u : (exponent + 112u) << 23;
  return std::bit_cast<float>(sign | wide | (mantissa << 13));
}

}  // namespace coxswain
