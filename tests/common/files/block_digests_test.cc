#include "common/files/block_digests.h"

#include <gtest/gtest.h>

#include "common/files/durable_file.h"
#include "common/files/hash.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

std::string Pattern(int64_t bytes) {
  std::string content(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<char>((i * 2654435761u) >> 7);
  return content;
}

class BlockDigestsTest : public testing::Test {
 protected:
  absl::Status CheckFile(const std::string& content, const BlockDigests& expected,
                         const BlockCheckOptions& options = {.threads = 3}) {
    EXPECT_TRUE(WriteFileDurably(path_, content).ok());
    return CheckBlocksOfFile(path_, expected, options);
  }
  const support::ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/file";
};

// Source: XXH3-128 of the empty input with seed 0, as xxhsum -H2 prints it.
TEST_F(BlockDigestsTest, TheDigestIsXxh3InItsCanonicalForm) {
  EXPECT_EQ(ToHex(DigestOfBlock("")), "99aa06d3014798d86001c324468d497f");
}

TEST_F(BlockDigestsTest, AFileIsCutIntoBlocksOfFourMebibytes) {
  const std::string content = Pattern(2 * kDigestBlockBytes + 5);
  const BlockDigests digests = DigestsOf(content);
  EXPECT_EQ(digests.blocks(), 3);
  EXPECT_TRUE(digests.complete());
  EXPECT_EQ(digests.digests,
            DigestOfBlock(content.substr(0, kDigestBlockBytes)) +
                DigestOfBlock(content.substr(kDigestBlockBytes, kDigestBlockBytes)) +
                DigestOfBlock(content.substr(2 * kDigestBlockBytes)));
  EXPECT_EQ(DigestsOf(content.substr(0, 2 * kDigestBlockBytes)).blocks(), 2);
  EXPECT_EQ(DigestsOf("").blocks(), 0);
  BlockDigests other = digests;
  other.digests[17] ^= 1;
  EXPECT_NE(other.Root(), digests.Root());
  other = digests;
  ++other.bytes;
  EXPECT_NE(other.Root(), digests.Root());
  other.digests.pop_back();
  EXPECT_FALSE(other.complete());
}

TEST_F(BlockDigestsTest, AFlippedByteIsFoundWhereverItIsAndItsBlockNamed) {
  const std::string content = Pattern(2 * kDigestBlockBytes + 5);
  const BlockDigests expected = DigestsOf(content);
  EXPECT_TRUE(CheckFile(content, expected).ok());
  for (const int64_t at :
       {int64_t{0}, kDigestBlockBytes - 1, kDigestBlockBytes, 2 * kDigestBlockBytes - 1,
        2 * kDigestBlockBytes, 2 * kDigestBlockBytes + 4}) {
    std::string damaged = content;
    damaged[static_cast<size_t>(at)] ^= 0x40;
    const absl::Status status = CheckFile(damaged, expected);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << at;
    const std::string block = "block " + std::to_string(at / kDigestBlockBytes) + " of 3";
    for (const std::string& part :
         {path_, block,
          ToHex(DigestOfBlock(
              content.substr(static_cast<size_t>(at / kDigestBlockBytes * kDigestBlockBytes),
                             kDigestBlockBytes)))}) {
      EXPECT_NE(status.message().find(part), absl::string_view::npos) << part << "\n" << status;
    }
  }
}

TEST_F(BlockDigestsTest, AnotherSizeIsToldWithBoth) {
  const std::string content = Pattern(kDigestBlockBytes + 9);
  const BlockDigests expected = DigestsOf(content);
  for (const std::string& other : {content.substr(0, kDigestBlockBytes), content + "x"}) {
    const absl::Status status = CheckFile(other, expected);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(status.message().find(std::to_string(other.size()) + " bytes"),
              absl::string_view::npos);
    EXPECT_NE(status.message().find(std::to_string(content.size())), absl::string_view::npos);
  }
  EXPECT_EQ(CheckBlocksOfFile(folder_.path() + "/none", expected, {}).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(BlockDigestsTest, OnlyTheFirstBlocksAreReadWhereSoAsked) {
  const std::string content = Pattern(2 * kDigestBlockBytes);
  std::string damaged = content;
  damaged.back() ^= 1;
  const BlockDigests expected = DigestsOf(content);
  EXPECT_TRUE(CheckFile(damaged, expected, {.most_blocks = 1}).ok());
  EXPECT_FALSE(CheckFile(damaged, expected, {.most_blocks = 2}).ok());
}

}  // namespace
}  // namespace coxswain
