#include "common/files/gguf_type.h"

#include <cstring>

#include "common/element_type.h"
#include "common/files/gguf_blocks.h"
#include "common/files/gguf_k_quants.h"

namespace coxswain {
namespace {

struct Format {
  std::string_view name;
  int64_t block;
  int64_t bytes;                                   // of a block
  void (*encode)(const float* values, char* out);  // a block
};

void EncodeF32(const float* value, char* out) { std::memcpy(out, value, sizeof(*value)); }

template <uint16_t (*kConvert)(float)>
void Encode16(const float* value, char* out) {
  const uint16_t bits = kConvert(*value);
  std::memcpy(out, &bits, sizeof(bits));
}

const Format& FormatOf(GgufType type) {
  static constexpr Format kF32 = {"F32", 1, 4, &EncodeF32};
  static constexpr Format kF16 = {"F16", 1, 2, &Encode16<FloatToHalf>};
  static constexpr Format kBF16 = {"BF16", 1, 2, &Encode16<FloatToBf16>};
  static constexpr Format kQ5_0 = {"Q5_0", kGgufBlock, 22, &EncodeQ5_0};
  static constexpr Format kQ5_1 = {"Q5_1", kGgufBlock, 24, &EncodeQ5_1};
  static constexpr Format kQ8_0 = {"Q8_0", kGgufBlock, 34, &EncodeQ8_0};
  static constexpr Format kQ4_K = {"Q4_K", kKQuantBlock, 144, &EncodeQ4K};
  static constexpr Format kQ5_K = {"Q5_K", kKQuantBlock, 176, &EncodeQ5K};
  static constexpr Format kQ6_K = {"Q6_K", kKQuantBlock, 210, &EncodeQ6K};
  switch (type) {
    case GgufType::kF32:
      return kF32;
    case GgufType::kF16:
      return kF16;
    case GgufType::kQ5_0:
      return kQ5_0;
    case GgufType::kQ5_1:
      return kQ5_1;
    case GgufType::kQ8_0:
      return kQ8_0;
    case GgufType::kQ4_K:
      return kQ4_K;
    case GgufType::kQ5_K:
      return kQ5_K;
    case GgufType::kQ6_K:
      return kQ6_K;
    case GgufType::kBF16:
      return kBF16;
  }
  return kF32;
}

}  // namespace

std::string_view GgufTypeName(GgufType type) { return FormatOf(type).name; }

int64_t GgufBlock(GgufType type) { return FormatOf(type).block; }

int64_t GgufBytes(GgufType type, int64_t elements) {
  return elements / FormatOf(type).block * FormatOf(type).bytes;
}

void EncodeGguf(GgufType type, const float* values, int64_t count, char* out) {
  const Format& format = FormatOf(type);
  for (int64_t i = 0; i < count; i += format.block, out += format.bytes) {
    format.encode(values + i, out);
  }
}

}  // namespace coxswain
