#include "common/outside_text.h"

#include <string>

#include <gtest/gtest.h>

namespace coxswain {
namespace {

TEST(OutsideTextTest, CleanTextIsLeftAlone) {
  for (const std::string text :
       {"", "plain", "two\nlines\tand a tab", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(IsUtf8(text));
    EXPECT_EQ(CleanText(text), text);
  }
}

// What protobuf refuses and terminals obey.
TEST(OutsideTextTest, BytesThatAreNoTextBecomeVisible) {
  EXPECT_EQ(CleanText("\"\xff\xfe\""), "\"\\xff\\xfe\"");
  EXPECT_EQ(CleanText("cut \xe2\x82"), "cut \\xe2\\x82");
  EXPECT_EQ(CleanText("\xc0\x80 overlong"), "\\xc0\\x80 overlong");
  EXPECT_EQ(CleanText("\xed\xa0\x80 surrogate"), "\\xed\\xa0\\x80 surrogate");
  EXPECT_EQ(CleanText("\xf4\x90\x80\x80 too high"), "\\xf4\\x90\\x80\\x80 too high");
  EXPECT_EQ(CleanText("\x1b[2J\r\x7f\xc2\x9b"), "\\x1b[2J\\x0d\\u007f\\u009b");
  EXPECT_EQ(CleanText(std::string("a\0b", 3)), "a\\x00b");
}

// Text that runs backwards shows another file's name than it names.
TEST(OutsideTextTest, MarksThatTurnTextBecomeVisible) {
  EXPECT_EQ(CleanText("a\u202egnp.b"), "a\\u202egnp.b");
  EXPECT_EQ(CleanText("\u202a\u202d\u2066\u2069"), "\\u202a\\u202d\\u2066\\u2069");
  EXPECT_EQ(CleanText("\u2029\u202f\u2065\u206a"), "\u2029\u202f\u2065\u206a");  // beside them
}

TEST(OutsideTextTest, OneLineHasNoOther) {
  EXPECT_EQ(OneLine("name\r\n\tb"), "name\\x0d\\n\\tb");
  EXPECT_EQ(OneLine("plain \u00e9"), "plain \u00e9");
}

TEST(OutsideTextTest, CutCharactersAreFound) {
  for (const std::string whole : {"a", "\u00e9", "\u20ac", "\U0001f600"}) {
    EXPECT_EQ(CutCharacterBytes(whole), 0u);
    for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
      EXPECT_EQ(CutCharacterBytes("x" + whole.substr(0, bytes)), bytes) << whole;
    }
  }
  EXPECT_EQ(CutCharacterBytes(""), 0u);
  EXPECT_EQ(CutCharacterBytes("\x80\x80\x80\x80"), 0u);
}

TEST(OutsideTextTest, EveryByteStringBecomesBoundedUtf8AndStaysSo) {
  uint32_t random = 1;
  for (size_t size = 0; size < 600; ++size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) {
      random = random * 1664525 + 1013904223;
      text += static_cast<char>(random >> 24);
    }
    const std::string clean = CleanText(text, 128);
    ASSERT_TRUE(IsUtf8(clean)) << clean;
    ASSERT_LE(clean.size(), 128u);
    ASSERT_EQ(CleanText(clean, 128), clean);
    ASSERT_EQ(clean.find('\x1b'), std::string::npos);
  }
}

TEST(OutsideTextTest, OfLongTextBeginningAndEndStay) {
  std::string text = "file.bin: the name is ";
  for (int i = 0; i < 100000; ++i) text += "\xe2\x82\xac";
  text += ": give another file";
  const std::string clean = CleanText(text, 1000);
  EXPECT_LE(clean.size(), 1000u);
  EXPECT_GT(clean.size(), 990u);
  EXPECT_TRUE(IsUtf8(clean));
  EXPECT_TRUE(clean.starts_with("file.bin: the name is "));
  EXPECT_TRUE(clean.ends_with(": give another file"));
  EXPECT_NE(clean.find("[... cut: 300041 bytes in all ...]"), std::string::npos) << clean;
}

}  // namespace
}  // namespace coxswain
