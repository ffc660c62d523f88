#include "kernels/philox.h"

#include <array>

#include "common/philox.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace philox_test {
namespace {

struct Known {
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> words;
};

// Source: Random123, examples/kat_vectors, philox4x32 10.
constexpr Known kKnown[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};

TEST(PhiloxTest, GivesThePublishedWords) {
  for (const Known& known : kKnown) {
    EXPECT_EQ(Philox4x32(known.counter, known.key), known.words);
    const auto& c = known.counter;
    const PhiloxWords words =
        Philox({{c[0], c[1], c[2], c[3]}}, MakePhiloxKeys(known.key[0], known.key[1]));
    for (size_t w = 0; w < 4; ++w) EXPECT_EQ(words.word[w], known.words[w]);
  }
}

}  // namespace
}  // namespace philox_test
}  // namespace coxswain::kernels
