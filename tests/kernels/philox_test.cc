#include "kernels/philox.h"

#include "common/philox.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace philox_test {
namespace {

TEST(PhiloxTest, EqualsTheGeneratorOfTheController) {
  for (uint32_t i = 0; i < 100; ++i) {
    const PhiloxWords words = Philox({{i, i * 77u, ~i, 5u}}, 0xdeadbeefu * i, 42u);
    const auto want = Philox4x32({i, i * 77u, ~i, 5u}, {0xdeadbeefu * i, 42u});
    for (size_t w = 0; w < 4; ++w) EXPECT_EQ(words.word[w], want[w]);
  }
}

}  // namespace
}  // namespace philox_test
}  // namespace coxswain::kernels
