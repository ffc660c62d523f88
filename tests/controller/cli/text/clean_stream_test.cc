#include "controller/cli/text/clean_stream.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace coxswain::cli {
namespace {

TEST(CleanStreamTest, ControlCharactersAndBytesThatAreNoTextBecomeVisible) {
  std::ostringstream to;
  CleanStream out(&to);
  out << "a\x1b[31m\rb\x7f\u009b\u202e\xff" << 7 << "\n\t" << std::flush;
  EXPECT_EQ(to.str(), "a\\x1b[31m\\x0db\\u007f\\u009b\\u202e\\xff7\n\t");
}

TEST(CleanStreamTest, NothingWaitsButACharacterThatIsCut) {
  std::ostringstream to;
  {
    CleanStream out(&to);
    out << "\xe2" << '\x82';
    EXPECT_EQ(to.str(), "");
    out << "\xac!";
    EXPECT_EQ(to.str(), "€!");
    out << "\xe2\x82" << std::flush;
    EXPECT_EQ(to.str(), "€!\\xe2\\x82");
    out << "\xf0";
  }
  EXPECT_EQ(to.str(), "€!\\xe2\\x82\\xf0");
}

TEST(CleanStreamTest, WhatCoxDrawsIsObeyed) {
  std::ostringstream to;
  CleanStream out(&to);
  out << "\xe2" << Draw::kLineStart << "x" << Draw::kClearRestOfLine << Draw::kClearScreen;
  EXPECT_EQ(to.str(), "\\xe2\rx\x1b[K\x1b[H\x1b[2J");
}

TEST(CleanStreamTest, ColouredTextKeepsColoursAlone) {
  std::ostringstream to;
  CleanStream out(&to);
  out << Coloured{"\x1b[32mgreen\x1b[0m\x1b[2J\x1b[1;31\x1b]0;title\r"};
  EXPECT_EQ(to.str(), "\x1b[32mgreen\x1b[0m\\x1b[2J\\x1b[1;31\\x1b]0;title\\x0d");
}

TEST(CleanStreamTest, AReaderThatIsGoneIsTold) {
  std::ostringstream to;
  to.setstate(std::ios::badbit);
  CleanStream out(&to);
  EXPECT_FALSE(out << "text");
  out.clear();
  EXPECT_FALSE(out << Draw::kLineStart);
  out.clear();
  EXPECT_FALSE(out.flush());
}

}  // namespace
}  // namespace coxswain::cli
