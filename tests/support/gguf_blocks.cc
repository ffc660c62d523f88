#include "tests/support/gguf_blocks.h"

#include <cstring>
#include <stdexcept>

#include "common/element_type.h"

namespace coxswain::support {
namespace {

float Half(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return HalfToFloat(bits);
}

int Bit(const uint8_t* bytes, int bit) { return bytes[bit / 8] >> (bit % 8) & 1; }

// The lower half of bytes [0, width) are values [0, width), the upper half the next.
int Nibble(const uint8_t* bytes, int i, int width) {
  return i < width ? bytes[i] & 15 : bytes[i - width] >> 4;
}

BlockValue Of32(GgufType type, const uint8_t* block, int i) {
  BlockValue read{.step = Half(block)};
  int code = 0;
  if (type == GgufType::kQ8_0) {
    read.least = -127;
    read.most = 127;
    code = static_cast<int8_t>(block[2 + i]);
  } else {
    const bool has_base = type == GgufType::kQ5_1;
    const uint8_t* codes = block + (has_base ? 4 : 2);
    if (has_base) read.base = Half(block + 2);
    read.least = has_base ? 0 : -16;
    read.most = read.least + 31;
    code = read.least + Nibble(codes + 4, i, 16) + 16 * Bit(codes, i);
  }
  read.value = read.base + read.step * static_cast<float>(code);
  return read;
}

BlockValue OfMinima(GgufType type, const uint8_t* block, int i) {
  const uint8_t* packed = block + 4;
  const int j = i / 32;
  int scale = packed[j % 4] & 63, minimum = packed[4 + j % 4] & 63;
  if (j >= 4) {
    scale = (packed[8 + j % 4] & 15) | packed[j % 4] >> 6 << 4;
    minimum = packed[8 + j % 4] >> 4 | packed[4 + j % 4] >> 6 << 4;
  }
  BlockValue read{.scale_unit = Half(block), .minimum_unit = Half(block + 2)};
  const bool five = type == GgufType::kQ5_K;
  read.most = five ? 31 : 15;
  read.step = read.scale_unit * static_cast<float>(scale);
  read.base = -(read.minimum_unit * static_cast<float>(minimum));
  int code = Nibble(block + (five ? 48 : 16) + i / 64 * 32, i % 64, 32);
  if (five) code += 16 * (block[16 + i % 32] >> j & 1);
  read.value = read.step * static_cast<float>(code) + read.base;
  return read;
}

BlockValue OfSixBits(const uint8_t* block, int i) {
  const int half = i / 128, run = i % 128 / 32, at = i % 32;
  const int lower = Nibble(block + half * 64 + (run % 2) * 32, run / 2 * 32 + at, 32);
  const int upper = block[128 + half * 32 + at] >> (2 * run) & 3;
  BlockValue read{.least = -32, .most = 31, .scale_unit = Half(block + 208)};
  read.step = read.scale_unit * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
  read.value = read.step * static_cast<float>(lower + 16 * upper - 32);
  return read;
}

}  // namespace

std::vector<BlockValue> ReadGgufBlocks(GgufType type, const std::string& bytes) {
  const int64_t elements = GgufBlock(type), size = GgufBytes(type, elements);
  if (elements == 1) throw std::runtime_error("a type without blocks");
  std::vector<BlockValue> all;
  for (size_t begin = 0; begin < bytes.size(); begin += static_cast<size_t>(size)) {
    const auto* block = reinterpret_cast<const uint8_t*>(bytes.data() + begin);
    for (int i = 0; i < elements; ++i) {
      if (elements == 32) {
        all.push_back(Of32(type, block, i));
      } else {
        all.push_back(type == GgufType::kQ6_K ? OfSixBits(block, i) : OfMinima(type, block, i));
      }
    }
  }
  return all;
}

std::vector<float> DecodeGguf(GgufType type, const std::string& bytes) {
  std::vector<float> values;
  for (const BlockValue& read : ReadGgufBlocks(type, bytes)) values.push_back(read.value);
  return values;
}

}  // namespace coxswain::support
