#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/incidents/incident.h"

namespace coxswain::incidents {

// What an incident tells, and how much of it.

namespace {

using nlohmann::json;

gang::RankDump Rank(int rank, const std::string& dump, const std::string& stacks) {
  gang::RankDump out{.rank = rank, .worker = absl::StrCat("h/", rank), .host = "h"};
  out.view.phase = "RUNNING";
  v1::WorkerDumpResponse answer;
  answer.set_json(dump);
  out.answer = answer;
  v1::StacksResponse taken;
  taken.set_text(stacks);
  taken.mutable_process()->set_pid(100 + rank);
  taken.mutable_process()->set_state("S (sleeping)");
  out.stacks = taken;
  return out;
}

std::string InCollective(int number, const char* operation) {
  return absl::StrCat(R"({"last_done_seq":7,"collectives":{"started":)", number,
                      R"(,"in_it_ms":3000,"operation":")", operation, "\"}}");
}

std::string At(const char* function) {
  return absl::StrCat("stacks of process 1 by gdb:\nThread 1 (LWP 1 \"w\"):\n#0  0x1 in coxswain::",
                      function, " ()\n");
}

Incident Of(std::vector<gang::RankDump> ranks) {
  return {.job = "a", .epoch = 2, .unix_ms = 5, .ranks = std::move(ranks)};
}

TEST(IncidentJsonTest, NamesTheRankWhoseCollectiveIsBehind) {
  const json document = IncidentJson(Of({Rank(0, InCollective(12, "all_reduce"), At("Wait")),
                                         Rank(1, InCollective(11, ""), At("Multiply")),
                                         Rank(2, InCollective(12, "all_reduce"), At("Wait"))}));
  EXPECT_EQ(document.at("reason"), "asked");
  EXPECT_EQ(document.at("error"), "");
  EXPECT_EQ(document.at("finding").at("ranks"), std::vector<int>{1});
  ASSERT_EQ(document.at("groups").size(), 2u);
  EXPECT_EQ(document.at("groups")[0].at("ranks"), (std::vector<int>{0, 2}));
  const auto text = document.at("explanation").get<std::string>();
  EXPECT_EQ(text.find("Dump of gang 2, as a user asked\n  Odd: rank 1. Found: rank 1 has come to "
                      "collective #11, ranks 0, 2 #12 (all_reduce)\n"),
            0u)
      << text;
  EXPECT_NE(text.find("  ranks 0, 2 stand at\n    w\n        coxswain::Wait\n"), std::string::npos)
      << text;
}

// A beat may be older than what the rank says itself, or all there is.
TEST(IncidentJsonTest, TheNewestAccountOfARankCounts) {
  gang::RankDump silent = Rank(1, "{}", At("Wait"));
  silent.answer = absl::DeadlineExceededError("no answer within 1800 ms");
  silent.view.beat.set_last_done_seq(7);
  silent.view.beat.mutable_collectives()->set_started(9);
  gang::RankDump old_beat = Rank(0, InCollective(12, "all_reduce"), At("Wait"));
  old_beat.view.beat.set_last_done_seq(6);
  const json document = IncidentJson(Of({old_beat, silent}));
  EXPECT_EQ(document.at("ranks")[1].at("error"), "no answer within 1800 ms");
  EXPECT_EQ(document.at("ranks")[1].at("controller").at("collectives").at("started"), 9);
  EXPECT_EQ(document.at("finding").at("why"),
            "rank 1 has come to collective #9, rank 0 #12 (all_reduce)");
}

TEST(IncidentJsonTest, WhatAWorkerSendsMayBeAnything) {
  for (const char* sent : {"", "[]", "7", "{", R"({"collectives":7})", R"({"commands":7})",
                           R"({"last_done_seq":-1,"collectives":{"started":"x","operation":5}})",
                           "{\"state\":\"\xff\"}"}) {
    const json document = IncidentJson(Of({Rank(0, sent, "\xff\n#0 x"), Rank(1, "{}", "")}));
    EXPECT_FALSE(document.dump(-1, ' ', false, json::error_handler_t::replace).empty()) << sent;
  }
  EXPECT_EQ(IncidentJson(Of({Rank(0, "[]", "")})).at("ranks")[0].at("dump").at("problem"),
            "what it sent is no JSON object");
  EXPECT_EQ(IncidentJson(Of({})).at("finding").at("why"), "no rank was asked");
}

// Invariant incidents-2.
TEST(IncidentJsonTest, IsBoundedHoweverMuchRanksSay) {
  json dump = {{"last_done_seq", 7}, {"commands", json::array()}};
  for (int i = 0; i < 256; ++i)
    dump["commands"].push_back({{"seq", i}, {"x", std::string(900, 'x')}});
  std::vector<gang::RankDump> ranks;
  for (int rank = 0; rank < 64; ++rank) {
    ranks.push_back(Rank(rank, dump.dump(),
                         At(absl::StrCat("Function", rank, std::string(90'000, 'f')).c_str())));
  }
  ranks[5].answer->set_json("{\"x\":\"" + std::string(1'000'000, 'x') + "\"}");
  const json document = IncidentJson(Of(std::move(ranks)));
  EXPECT_LE(document.dump().size(), size_t{10} << 20);
  const json& first = document.at("ranks")[0].at("dump");
  EXPECT_EQ(first.at("commands").size(), 8u);
  EXPECT_EQ(first.at("commands")[7].at("seq"), 255);  // the newest stay
  EXPECT_EQ(first.at("older_commands"), 248);
  EXPECT_NE(document.at("ranks")[5].at("dump").at("problem").get<std::string>().find(" bytes"),
            std::string::npos);
  EXPECT_EQ(document.at("groups").size(), kMostGroups);
}

TEST(IncidentJsonTest, ThreadsThatStandAlikeEverywhereAreCounted) {
  const std::string idle = "Thread 2 (LWP 2 \"idle\"):\n#0  0x1 in coxswain::Idle ()\n";
  const json document =
      IncidentJson(Of({Rank(0, "{}", At("Wait") + idle), Rank(1, "{}", At("Multiply") + idle)}));
  const auto text = document.at("explanation").get<std::string>();
  EXPECT_EQ(text.find("Idle"), std::string::npos) << text;
  EXPECT_NE(text.find("(and 1 other threads)"), std::string::npos) << text;
}

}  // namespace

}  // namespace coxswain::incidents
