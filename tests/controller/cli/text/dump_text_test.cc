// cox dump's tables.
#include "controller/cli/text/dump_text.h"

#include <gtest/gtest.h>

namespace coxswain::cli {
namespace {

using nlohmann::ordered_json;

ordered_json Dump() {
  return ordered_json::parse(R"json({
    "id": "a-1", "state": "RUNNING", "epoch": 2, "step": 5, "total_steps": 40, "restarts": 1,
    "time_unix_ms": 10000, "file": "/s/x.json", "explanation": "Dump of gang 2\n",
    "groups": [{"ranks": [0], "stacks": ""}, {"ranks": [1], "stacks": ""}],
    "ranks": [
      {"rank": 0, "worker": "h/0",
       "controller": {"phase": "RUNNING", "silent_seconds": 3.25},
       "dump": {"waiting": [{"seq": 6, "command": "train step 5, 2 bins", "begun_unix_ms": 7000}],
                "collectives": {"started": 12, "operation": "all_reduce of 7 float32 over world",
                                "in_it_ms": 2900},
                "memory": {"weights": 1024, "peak": 2048},
                "device": {"gpu": {"busy_percent": 100, "power_milliwatts": 512300,
                                   "throttle_reasons": 4, "xid": ["Xid 79"]}}},
       "process": {"pid": 11, "state": "S (sleeping)", "resident_bytes": 1048576}},
      {"rank": 1, "worker": "h/1", "error": "no answer within 5000 ms",
       "controller": {"phase": "RUNNING", "silent_seconds": 400, "done_seq": 5,
                      "collectives": {"started": 11, "operation": ""}},
       "process": {"pid": 12, "state": "T (stopped)", "resident_bytes": 0}}]})json");
}

TEST(DumpTextTest, ShowsEachRankByWhatIsKnownOfIt) {
  const std::string text = DumpText(Dump());
  for (const char* part :
       {"job a-1, RUNNING, gang 2, step 5 of 40, restarts 1\n",
        "RANK   WORKER   STATE     SILENT   COMMAND                         COLLECTIVE",
        "train step 5, 2 bins for 3.0s", "#12 all_reduce of 7 float32 over world for 2.9s",
        "11 S (sleeping)", "#11 done", "5 done", "6m40s", "12 T (stopped)",
        "rank 1 gave no dump: no answer within 5000 ms\n", "Dump of gang 2\n  Kept in /s/x.json\n",
        "RANK   WEIGHTS", "1.00 KiB", "GPU BUSY %", "512", "0x4", "Xid 79"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST(DumpTextTest, WithoutAGangTheLastFailureIsShown) {
  ordered_json dump = {{"id", "a-1"}, {"state", "FAILED"}, {"ranks", ordered_json::array()}};
  EXPECT_NE(DumpText(dump).find("it has no gang"), std::string::npos);
  dump["last_failure"]["explanation"] = "Dump of gang 1\n";
  EXPECT_NE(DumpText(dump).find("The last failure. Dump of gang 1\n"), std::string::npos);
}

TEST(DumpTextTest, WhatIsMissingOrOfAnotherKindIsLeftOut) {
  EXPECT_FALSE(DumpText(ordered_json()).empty());
  EXPECT_FALSE(DumpText(ordered_json::parse("[]")).empty());
  EXPECT_FALSE(DumpText(ordered_json::parse(R"({"ranks": 7})")).empty());
  EXPECT_FALSE(DumpText(ordered_json::parse(R"({"ranks": [7, {"rank": "x", "dump": []}],
                                                "groups": {"a": 1}})"))
                   .empty());
}

}  // namespace
}  // namespace coxswain::cli
