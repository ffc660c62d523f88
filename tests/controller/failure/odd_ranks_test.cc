// Which rank a dump names.
#include "controller/failure/odd_ranks.h"

#include <gtest/gtest.h>

namespace coxswain::failure {
namespace {

// Four ranks of one host that wait in collective #12 of the command after 7.
std::vector<RankEvidence> Waiting() {
  std::vector<RankEvidence> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back({.rank = rank,
                     .host = "h",
                     .pid = 100 + rank,
                     .process_state = "S (sleeping)",
                     .done_seq = 7,
                     .collective = 12,
                     .operation = "all_reduce of 7 float32 over world",
                     .in_it_ms = 3000});
  }
  return ranks;
}

std::vector<StackGroup> Groups(std::vector<std::vector<int>> groups) {
  std::vector<StackGroup> out;
  for (std::vector<int>& ranks : groups) out.push_back({.ranks = std::move(ranks), .stacks = "x"});
  return out;
}

TEST(FindOddRanksTest, AStoppedProcessExplainsAll) {
  std::vector<RankEvidence> ranks = Waiting();
  ranks[1].process_state = "T (stopped)";
  ranks[2].collective = 3;
  const Finding finding = FindOddRanks(ranks, {});
  EXPECT_EQ(finding.ranks, std::vector<int>{1});
  EXPECT_EQ(finding.why,
            "the process of rank 1 is stopped, by a signal (SIGSTOP) or by a debugger");
  EXPECT_NE(finding.advice.find("SIGCONT to process 101 on h"), std::string::npos)
      << finding.advice;
}

TEST(FindOddRanksTest, AProcessThatHasEndedComesFirst) {
  std::vector<RankEvidence> ranks = Waiting();
  ranks[1].process_state = "T (stopped)";
  ranks[3].ended = true;
  EXPECT_EQ(FindOddRanks(ranks, {}).ranks, std::vector<int>{3});
}

TEST(FindOddRanksTest, TheRankWhoseCollectiveIsBehindIsNamedWithIt) {
  std::vector<RankEvidence> ranks = Waiting();
  ranks[2].collective = 11;
  ranks[2].operation = "";
  const Finding finding = FindOddRanks(ranks, Groups({{0, 1, 2, 3}}));
  EXPECT_EQ(finding.ranks, std::vector<int>{2});
  EXPECT_EQ(finding.why,
            "rank 2 has come to collective #11, ranks 0, 1, 3 #12 (all_reduce of 7 float32 over "
            "world)");
}

// Collectives may be numbered anew in each command.
TEST(FindOddRanksTest, CommandsGoBeforeCollectives) {
  std::vector<RankEvidence> ranks = Waiting();
  ranks[0].done_seq = 6;
  ranks[0].collective = 40;
  const Finding finding = FindOddRanks(ranks, {});
  EXPECT_EQ(finding.ranks, std::vector<int>{0});
  EXPECT_EQ(finding.why, "rank 0 has finished command 6, ranks 1-3 command 7");
}

// Ranks that train are asked one after the other.
TEST(FindOddRanksTest, ARankIsBehindOnlyWhereAnotherWaits) {
  std::vector<RankEvidence> ranks = Waiting();
  for (RankEvidence& rank : ranks) rank.in_it_ms = kWaitsMs - 1;
  ranks[2].collective = 11;
  EXPECT_TRUE(FindOddRanks(ranks, {}).ranks.empty());
}

TEST(FindOddRanksTest, OneThatGaveNoDumpIsNamedWithTheReason) {
  std::vector<RankEvidence> ranks = Waiting();
  ranks[3].silence = "no answer within 1800 ms";
  const Finding finding = FindOddRanks(ranks, {});
  EXPECT_EQ(finding.ranks, std::vector<int>{3});
  EXPECT_NE(finding.why.find("no answer within 1800 ms"), std::string::npos) << finding.why;
}

TEST(FindOddRanksTest, StacksDecideWhereMostAgree) {
  EXPECT_EQ(FindOddRanks(Waiting(), Groups({{0, 1, 3}, {2}})).ranks, std::vector<int>{2});
  EXPECT_TRUE(FindOddRanks(Waiting(), Groups({{0, 1}, {2, 3}})).ranks.empty());
  EXPECT_TRUE(FindOddRanks(Waiting(), Groups({{0, 1, 2, 3}})).ranks.empty());
}

TEST(FindOddRanksTest, WhereAllAreAlikeNoneIsNamedAndSomethingIsAdvised) {
  const Finding finding = FindOddRanks(Waiting(), {});
  EXPECT_EQ(finding.why, "no rank stands out");
  EXPECT_FALSE(finding.advice.empty());
  EXPECT_TRUE(FindOddRanks({}, {}).ranks.empty());
}

TEST(NameRanksTest, RunsAreNamedByTheirEnds) {
  EXPECT_EQ(NameRanks({4}), "rank 4");
  EXPECT_EQ(NameRanks({0, 1}), "ranks 0, 1");
  EXPECT_EQ(NameRanks({0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9");
}

}  // namespace
}  // namespace coxswain::failure
