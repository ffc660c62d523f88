#include "controller/trackers/event_file.h"

#include <gtest/gtest.h>

#include "trackers/event_file.pb.h"

namespace coxswain::trackers {
namespace {

// Source: RFC 3720, B.4.
TEST(EventFileTest, TheChecksumIsThatOfTheStandard) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// The first record of a file that TensorBoard's own writer made (tensorboard 2.21, wall time 1.5).
TEST(EventFileTest, TheFirstEntryHasTheBytesOfTensorBoards) {
  const std::string entry = FirstEntry(1500);
  std::string hex;
  for (const char c : entry) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[static_cast<uint8_t>(c) >> 4], kDigits[static_cast<uint8_t>(c) & 15]};
  }
  EXPECT_EQ(hex,
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
}

TEST(EventFileTest, APointHoldsItsStepAndEachValue) {
  const std::string entry = PointEntry(
      {.place = {.step = 7}, .unix_ms = 2500, .values = {{"train/loss", 1.5}, {"eval/loss", 0}}});
  TensorBoardEvent event;
  ASSERT_TRUE(event.ParseFromString(entry.substr(12, entry.size() - 16)));
  EXPECT_EQ(event.step(), 7);
  EXPECT_EQ(event.wall_time(), 2.5);
  ASSERT_EQ(event.summary().value_size(), 2);
  EXPECT_EQ(event.summary().value(0).tag(), "train/loss");
  EXPECT_EQ(event.summary().value(0).simple_value(), 1.5f);
  EXPECT_TRUE(event.summary().value(1).has_simple_value()) << "readers skip a value without one";
}

}  // namespace
}  // namespace coxswain::trackers
