#include <set>

#include <gtest/gtest.h>

#include "common/identity.h"

namespace coxswain {
namespace {

TEST(IdsTest, UuidHasTheFormOfVersion4) {
  std::set<std::string> seen;
  std::set<char> variants;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = NewUuid();
    ASSERT_EQ(uuid.size(), 36u);
    for (size_t at = 0; at < uuid.size(); ++at) {
      const bool dash = at == 8 || at == 13 || at == 18 || at == 23;
      if (dash) {
        ASSERT_EQ(uuid[at], '-') << uuid;
      } else {
        ASSERT_NE(std::string("0123456789abcdef").find(uuid[at]), std::string::npos) << uuid;
      }
    }
    ASSERT_EQ(uuid[14], '4') << uuid;
    variants.insert(uuid[19]);
    seen.insert(uuid);
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(variants, (std::set<char>{'8', '9', 'a', 'b'}));
}

TEST(IdsTest, RandomHexHasTheLengthAskedForAndUsesEveryDigit) {
  for (int digits : {0, 1, 31, 32, 33}) EXPECT_EQ(RandomHex(digits).size(), size_t(digits));
  const std::string many = RandomHex(4096);
  EXPECT_EQ(std::set<char>(many.begin(), many.end()).size(), 16u);
}

}  // namespace

}  // namespace coxswain
