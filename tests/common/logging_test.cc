#include "common/logging.h"

#include <cmath>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/scratch_folder.h"

namespace coxswain::log {
namespace {

uint64_t Last() {
  const std::vector<Line> lines = Lines(0);
  return lines.empty() ? 0 : lines.back().number;
}

// Invariant common-1.
TEST(LoggingTest, LineIsOneJsonObjectWithItsFields) {
  Init("worker", Level::kInfo);
  const uint64_t before = Last();
  Info("step \"done\"\n", {{"job", "j1"},
                           {"step", 7},
                           {"loss", 2.5},
                           {"replay", false},
                           {"tokens", uint64_t{1} << 63}});
  const std::vector<Line> lines = Lines(before);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].json.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(lines[0].json);
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["component"], "worker");
  EXPECT_EQ(json["msg"], "step \"done\"\n");
  EXPECT_EQ(json["job"], "j1");
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["loss"], 2.5);
  EXPECT_EQ(json["replay"], false);
  EXPECT_EQ(json["tokens"], uint64_t{1} << 63);
  const std::string ts = json["ts"];
  ASSERT_EQ(ts.size(), 24u);  // 2026-01-01T00:00:00.000Z
  EXPECT_EQ(ts[10], 'T');
  EXPECT_EQ(ts[23], 'Z');
}

// Invariant common-1: whatever bytes the message holds.
TEST(LoggingTest, BrokenUtf8AndNonFiniteNumbersStayJson) {
  const uint64_t before = Last();
  Error("bad \xff byte", {{"norm", std::nan("")}, {"loss", HUGE_VAL}});
  const auto json = nlohmann::json::parse(Lines(before).at(0).json);
  EXPECT_EQ(json["norm"], "nan");
  EXPECT_EQ(json["loss"], "inf");
}

// Invariant common-1: on one line, which no reader's terminal obeys, and of bounded length.
TEST(LoggingTest, ControlCharactersAreEscapedAndLongTextsCut) {
  const uint64_t before = Last();
  Error("bad \xff\x1b[2J", {{"file", std::string(1 << 20, 'x')}});
  const std::string line = Lines(before).at(0).json;
  EXPECT_LT(line.size(), size_t{70} << 10);
  EXPECT_EQ(nlohmann::json::parse(line)["msg"], "bad \\xff\\x1b[2J");
}

TEST(LoggingTest, LinesBelowTheLevelAreNotKept) {
  Init("worker", Level::kWarning);
  const uint64_t before = Last();
  Info("quiet");
  Warning("loud");
  const std::vector<Line> lines = Lines(before);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].level, Level::kWarning);
  Init("worker", Level::kInfo);
}

TEST(LoggingTest, RingKeepsTheNewest4096InOrder) {
  const uint64_t before = Last();
  Init("ring", Level::kDebug);
  for (int i = 0; i < 5000; ++i) Debug("line", {{"i", i}});
  Init("worker", Level::kInfo);
  const std::vector<Line> lines = Lines(0);
  ASSERT_EQ(lines.size(), 4096u);
  EXPECT_EQ(lines.back().number, before + 5000);
  for (size_t i = 1; i < lines.size(); ++i) ASSERT_EQ(lines[i].number, lines[i - 1].number + 1);
}

TEST(LoggingTest, WaitReturnsWhenALineComes) {
  const uint64_t before = Last();
  std::thread writer([] { Info("wake"); });
  const std::vector<Line> lines = WaitForLines(before, 30000);
  writer.join();
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(WaitForLines(lines.back().number, 1).empty());
}

// Invariant common-2.
TEST(LoggingTest, FileGetsTheSameLines) {
  const support::ScratchFolder folder;
  const std::string file = folder.path() + "/worker.jsonl";
  Init("worker", Level::kInfo, file);
  const uint64_t before = Last();
  Info("to file", {{"rank", 3}});
  std::ifstream in(file);
  std::string text;
  std::getline(in, text);
  EXPECT_EQ(text, Lines(before).at(0).json);
  Init("worker", Level::kInfo);
}

TEST(LoggingTest, UnwritableFileIsReportedAndLoggingGoesOn) {
  const uint64_t before = Last();
  Init("worker", Level::kInfo, "/proc/none/worker.log");
  const std::vector<Line> lines = Lines(before);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].json.find("/proc/none/worker.log"), std::string::npos);
  Init("worker", Level::kInfo);
}

}  // namespace
}  // namespace coxswain::log
