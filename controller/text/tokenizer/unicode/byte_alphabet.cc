#include "controller/text/tokenizer/unicode/byte_alphabet.h"

#include <array>

#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

struct Alphabet {
  std::array<uint32_t, 256> character{};
  std::array<int16_t, 0x200> byte{};  // -1: not of the alphabet
};

const Alphabet& GetAlphabet() {
  static const Alphabet alphabet = [] {
    Alphabet a;
    a.byte.fill(-1);
    uint32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool itself =
          (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      a.character[b] = itself ? static_cast<uint32_t>(b) : next++;
      a.byte[a.character[b]] = static_cast<int16_t>(b);
    }
    return a;
  }();
  return alphabet;
}

}  // namespace

std::string ByteToCharacter(uint8_t byte) {
  std::string out;
  AppendUtf8(GetAlphabet().character[byte], &out);
  return out;
}

std::optional<std::string> TokenToBytes(std::string_view token) {
  const Alphabet& alphabet = GetAlphabet();
  std::string out;
  out.reserve(token.size());
  for (size_t i = 0; i < token.size();) {
    const CodePoint c = CodePointAt(token, i);
    if (c.value >= alphabet.byte.size() || alphabet.byte[c.value] < 0) return std::nullopt;
    out.push_back(static_cast<char>(alphabet.byte[c.value]));
    i += c.size;
  }
  return out;
}

}  // namespace coxswain::data
