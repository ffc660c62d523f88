#include "common/format.h"

#include <limits>

#include <gtest/gtest.h>

namespace coxswain {
namespace {

TEST(FormatTest, Durations) {
  EXPECT_EQ(FormatDuration(-3), "0s");
  EXPECT_EQ(FormatDuration(std::numeric_limits<double>::quiet_NaN()), "0s");
  EXPECT_EQ(FormatDuration(59.9), "59s");
  EXPECT_EQ(FormatDuration(60), "1m00s");
  EXPECT_EQ(FormatDuration(3599), "59m59s");
  EXPECT_EQ(FormatDuration(3600), "1h00m");
  EXPECT_EQ(FormatDuration(86400 * 3 + 3600 * 4), "3d4h");
}

TEST(FormatTest, BytesKeepThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{10} << 10), "10.0 KiB");
  EXPECT_EQ(FormatBytes((uint64_t{10} << 10) - 1), "10.0 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{12} << 20), "12.0 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{3} << 40), "3.00 TiB");
}

TEST(FormatTest, CountsAndTimes) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
  EXPECT_EQ(FormatTime(1767323045678), "2026-01-02T03:04:05.678Z");
}

}  // namespace
}  // namespace coxswain
