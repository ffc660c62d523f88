#include "common/files/torch/torch_zip.h"

#include "gtest/gtest.h"
#include "tests/common/files/torch_archive.h"

namespace coxswain {
namespace {

using archive::Zip;
using archive::ZipEntry;

const ZipEntry kZipPickle = {"a/data.pkl", "pickle"};

std::string ZipRefusal(const std::string& file) {
  const auto zip = TorchZip::Read(file);
  if (zip.ok()) return "read";
  EXPECT_EQ(zip.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(zip.status().message());
}

bool Says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

TEST(TorchZipTest, ShowsTheBytesOfEntriesInPlace) {
  for (const bool in_64_bits : {false, true}) {
    ZipEntry data{"a/data/0", "values"};
    data.in_64_bits = in_64_bits;
    const std::string file = Zip({kZipPickle, data, {"a/none", ""}}, {.in_64_bits = in_64_bits});
    const auto zip = TorchZip::Read(file);
    ASSERT_TRUE(zip.ok()) << zip.status();
    EXPECT_EQ(zip->Find("data.pkl"), "pickle");
    EXPECT_EQ(zip->Find("data/0"), "values");
    EXPECT_EQ(zip->Find("data/0").data(), file.data() + file.find("values"));
    EXPECT_NE(zip->Find("none").data(), nullptr);
    EXPECT_EQ(zip->Find("data/1").data(), nullptr);
    EXPECT_TRUE(zip->directory().starts_with("PK\x01\x02"));
  }
}

TEST(TorchZipTest, TheEndMayHaveAComment) {
  EXPECT_EQ(ZipRefusal(Zip({kZipPickle}, {.comment = "PK\x05\x06 no end"})), "read");
}

TEST(TorchZipTest, WhatIsNoZipIsNamed) {
  EXPECT_TRUE(Says(ZipRefusal(""), "is no zip"));
  EXPECT_TRUE(Says(ZipRefusal(std::string(100'000, 'x')), "100000 bytes"));
  const std::string legacy = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
  EXPECT_TRUE(Says(ZipRefusal(legacy), "before torch 1.6"));
  EXPECT_TRUE(Says(ZipRefusal("version https://git-lfs.github.com/spec/v1\n"
                              "oid sha256:0123\nsize 12\n"),
                   "Git LFS"));
  const std::string file = Zip({kZipPickle, {"a/data/0", "values"}});
  EXPECT_TRUE(Says(ZipRefusal(file.substr(0, file.size() - 1)), "truncated?"));
}

TEST(TorchZipTest, CompressedAndEncryptedEntriesAreNamed) {
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, {"a/data/0", "x", /*method=*/8}})),
                   "\"a/data/0\" compressed by method 8"));
  for (const int flag : {1, 1 << 13}) {
    const ZipEntry secret{"a/data/0", "x", /*method=*/0, static_cast<uint16_t>(flag)};
    EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, secret})), "encrypted entry \"a/data/0\""));
  }
}

TEST(TorchZipTest, NamesThatLeaveTheArchiveAreRefused) {
  for (const char* name :
       {"a/../../etc/passwd", "/etc/passwd", "..", "a/./b", "a//b", "a\\b", "", "a/b/"}) {
    EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, {name, "x"}})), "no name of a file inside it"))
        << name;
  }
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, {"b/data/0", "x"}})), "beside the folder"));
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, kZipPickle})), "two data.pkl"));
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, {"a/x", "1"}, {"a/x", "2"}})), "two entries"));
  EXPECT_TRUE(Says(ZipRefusal(Zip({{"a/b/data.pkl", "x"}})), "no data.pkl"));
}

TEST(TorchZipTest, EntriesLieApartAndInsideTheFile) {
  ZipEntry entry{"a/data/0", "x"};
  entry.header = 0;
  entry.local_name = kZipPickle.name;
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, entry})), "at the same bytes"));
  // An entry that holds the header of another.
  const std::string inner = Zip({{"a/data/0", "x"}});
  ZipEntry nested{"a/data/0", "x"};
  nested.header = 30 + 10 + 6;
  EXPECT_TRUE(Says(ZipRefusal(Zip({{"a/data.pkl", inner}, nested})), "at the same bytes"));
  for (const uint64_t place : {uint64_t{1} << 31, ~uint64_t{0}, ~uint64_t{0} - 29}) {
    entry = {"a/data/0", "x"};
    entry.in_64_bits = true;
    entry.header = place;
    EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, entry})), "nothing of it at byte")) << place;
  }
  for (const uint64_t bytes : {uint64_t{2}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 40}) {
    entry = {"a/data/0", "x"};
    entry.in_64_bits = true;
    entry.bytes = bytes;
    EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, entry})), "past the end")) << bytes;
  }
  entry = {"a/data/0", "x"};
  entry.local_name = "a/data/1";
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle, entry})), "under another name"));
}

TEST(TorchZipTest, ADirectoryThatLiesCostsNothing) {
  const uint64_t most = ~uint64_t{0};
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle}, {.in_64_bits = true, .entries = most})),
                   "claims 18446744073709551615 entries"));
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle}, {.in_64_bits = true, .begin = most})), "outside"));
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle}, {.begin = 1})), "ends before its entries"));
  EXPECT_TRUE(Says(ZipRefusal(Zip({kZipPickle}, {.entries = 2})), "claims 2 entries"));
}

TEST(TorchZipTest, EveryPrefixIsRefused) {
  const std::string file = Zip({kZipPickle, {"a/data/0", "values"}}, {.in_64_bits = true});
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    EXPECT_NE(ZipRefusal(file.substr(0, bytes)), "read") << bytes;
  }
}

}  // namespace
}  // namespace coxswain
