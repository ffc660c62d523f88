#include "common/files/hash.h"

#include "gtest/gtest.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

// Source: FIPS 180-2, appendix B.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(HashTest, MatchesPublishedVectors) {
  EXPECT_EQ(ToHex(Sha256("abc")), kAbc);
  EXPECT_EQ(ToHex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(HashTest, StreamEqualsOneShotHoweverItIsCut) {
  Sha256Stream stream;
  stream.Update("a");
  stream.Update("");
  stream.Update("bc");
  EXPECT_EQ(ToHex(stream.Finish()), kAbc);
}

TEST(HashTest, HashesAFileAndNamesAMissingOne) {
  const std::string text(3'000'001, 'x');  // more than two read blocks, odd size
  const support::ScratchFolder folder;
  const std::string path = folder.Write("large", text);
  EXPECT_EQ(Sha256HexOfFile(path).value(), ToHex(Sha256(text)));
  EXPECT_EQ(Sha256HexOfFile(path, [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
  const auto missing = Sha256HexOfFile(path + ".none");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().ToString().find(path + ".none"), std::string::npos);
}

}  // namespace
}  // namespace coxswain
