#include "common/files/read_file.h"

#include <string>

#include <gtest/gtest.h>

#include "common/files/durable_file.h"

namespace coxswain {
namespace {

std::string InTemp(const std::string& name) { return testing::TempDir() + "/" + name; }

TEST(ReadFileTest, GivesEveryByte) {
  std::string bytes("\0\r\n\xff", 4);
  for (int i = 0; i < 20; ++i) bytes += std::string(12345, static_cast<char>(i));
  const std::string path = InTemp("read_file_bytes");
  ASSERT_TRUE(WriteFileDurably(path, bytes).ok());
  EXPECT_EQ(ReadFile(path).value(), bytes);
  ASSERT_TRUE(WriteFileDurably(path, "").ok());
  EXPECT_EQ(ReadFile(path).value(), "");
}

TEST(ReadFileTest, ReadsWhatHasNoSize) {
  EXPECT_NE(ReadFile("/proc/self/status").value().find("State:"), std::string::npos);
}

TEST(ReadFileTest, NamesWhatItCannotRead) {
  const absl::Status absent = ReadFile(InTemp("nowhere")).status();
  EXPECT_TRUE(absl::IsNotFound(absent));
  EXPECT_EQ(absent.message(), "cannot read " + InTemp("nowhere") + ": No such file or directory");
  EXPECT_EQ(ReadFile("/proc").status().message(), "cannot read /proc: Is a directory");
}

}  // namespace
}  // namespace coxswain
