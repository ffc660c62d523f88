#include "controller/status_page/picture_png.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace coxswain::status_page {
namespace {

constexpr char kSvg[] =
    R"(<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20" viewBox="0 0 30 20">)"
    R"(<rect width="100%" height="100%" fill="white"/></svg>)";

// Big-endian, as PNG writes its numbers.
uint32_t NumberAt(const std::string& png, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(png[at + i]);
  return number;
}

TEST(PicturePngTest, HasTwoPixelsForEachUnit) {
  const absl::StatusOr<std::string> png = PngOf(kSvg);
  if (absl::IsFailedPrecondition(png.status())) GTEST_SKIP() << png.status();
  ASSERT_TRUE(png.ok()) << png.status();
  ASSERT_GT(png->size(), 24u);
  EXPECT_EQ(png->substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(NumberAt(*png, 16), 60u);  // of the header
  EXPECT_EQ(NumberAt(*png, 20), 40u);
}

TEST(PicturePngTest, RefusesWhatIsNoSvg) {
  for (const char* text : {"", "no picture", "<svg", "<html></html>"}) {
    const absl::StatusOr<std::string> png = PngOf(text);
    if (absl::IsFailedPrecondition(png.status())) GTEST_SKIP() << png.status();
    EXPECT_TRUE(absl::IsInvalidArgument(png.status())) << text << png.status();
  }
}

TEST(PicturePngTest, WithoutTheLibrarySaysHowToGetIt) {
  for (const char* library : {"librsvg-none.so.2", "libc.so.6"}) {
    const absl::Status status = PngOf(kSvg, library).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find(library), std::string::npos) << status;
    EXPECT_NE(status.message().find("apt-get install librsvg2-2"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace coxswain::status_page
