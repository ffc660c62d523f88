#include "common/files/gguf_type.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/dtype.h"

namespace coxswain {
namespace {

constexpr int64_t kQ8Block = 32;

void Put16(uint16_t bits, char* out) { std::memcpy(out, &bits, sizeof(bits)); }

// A block with a value that is not finite reads back as NaN.
void EncodeQ8(const float* values, char* out) {
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < kQ8Block; ++i) {
    finite = finite && std::isfinite(values[i]);
    largest = std::max(largest, std::fabs(values[i]));
  }
  const float scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  const float inverse = scale == 0 || !finite ? 0.0f : 1.0f / scale;
  Put16(FloatToHalf(scale), out);
  for (int64_t i = 0; i < kQ8Block; ++i) {
    // std::round is half away from zero, and at most 127 by the choice of the scale.
    const float quotient = finite ? std::round(values[i] * inverse) : 0.0f;
    out[2 + i] = static_cast<char>(static_cast<int8_t>(quotient));
  }
}

}  // namespace

std::string_view GgufTypeName(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return "F32";
    case GgufType::kF16:
      return "F16";
    case GgufType::kQ8_0:
      return "Q8_0";
    case GgufType::kBF16:
      return "BF16";
  }
  return "";
}

std::optional<GgufType> GgufTypeOf(std::string_view word) {
  if (word == "f32") return GgufType::kF32;
  if (word == "f16") return GgufType::kF16;
  if (word == "bf16") return GgufType::kBF16;
  if (word == "q8_0") return GgufType::kQ8_0;
  return std::nullopt;
}

uint32_t GgufFileType(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return 0;
    case GgufType::kF16:
      return 1;
    case GgufType::kQ8_0:
      return 7;
    case GgufType::kBF16:
      return 32;
  }
  return 0;
}

int64_t GgufBlock(GgufType type) { return type == GgufType::kQ8_0 ? kQ8Block : 1; }

int64_t GgufBytes(GgufType type, int64_t elements) {
  if (type == GgufType::kQ8_0) return elements / kQ8Block * (2 + kQ8Block);
  return elements * (type == GgufType::kF32 ? 4 : 2);
}

void EncodeGguf(GgufType type, const std::vector<float>& values, std::string* out) {
  const auto count = static_cast<int64_t>(values.size());
  out->resize(static_cast<size_t>(GgufBytes(type, count)));
  if (type == GgufType::kF32) {
    std::memcpy(out->data(), values.data(), out->size());
    return;
  }
  if (type == GgufType::kQ8_0) {
    for (int64_t i = 0; i < count; i += kQ8Block) {
      EncodeQ8(&values[static_cast<size_t>(i)], out->data() + GgufBytes(type, i));
    }
    return;
  }
  auto convert = type == GgufType::kF16 ? FloatToHalf : FloatToBf16;
  for (size_t i = 0; i < values.size(); ++i) Put16(convert(values[i]), out->data() + 2 * i);
}

}  // namespace coxswain
