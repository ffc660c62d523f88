// Invariant incidents-1.
#include "controller/incidents/incident_files.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/sim/fakes/memory_files.h"

namespace coxswain::incidents {
namespace {

Incident At(int64_t unix_ms, Reason reason, const std::string& job = "a") {
  return {.job = job, .epoch = 3, .unix_ms = unix_ms, .reason = reason};
}

class IncidentFilesTest : public testing::Test {
 protected:
  std::string Keep(const Incident& incident) {
    const auto path = kept_.Keep(incident, absl::StrCat("{\"at\":", incident.unix_ms, "}"));
    EXPECT_TRUE(path.ok()) << path.status();
    return path.value_or("");
  }
  sim::MemoryFiles files_;
  const IncidentFiles kept_{&files_, "/state/incidents"};
};

TEST_F(IncidentFilesTest, TheNewestOfAReasonIsFound) {
  EXPECT_EQ(kept_.Newest("a").status().code(), absl::StatusCode::kNotFound);
  const std::string failure = Keep(At(1'700'000'000'001, Reason::kFailure));
  const std::string asked = Keep(At(1'700'000'000'002, Reason::kAsked));
  EXPECT_EQ(failure, "/state/incidents/a/1700000000001-gang-3-failure.json");
  EXPECT_EQ(kept_.Newest("a")->path, asked);
  EXPECT_EQ(kept_.Newest("a")->document, "{\"at\":1700000000002}");
  EXPECT_EQ(kept_.Newest("a", Reason::kFailure)->path, failure);
  EXPECT_EQ(kept_.Newest("b").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(IncidentFilesTest, WhatUsersAskForTakesNoPlaceOfAFailure) {
  const std::string failure = Keep(At(1, Reason::kFailure));
  std::vector<std::string> asked;
  for (size_t i = 0; i < kMostAsked + 3; ++i) {
    asked.push_back(Keep(At(2 + static_cast<int64_t>(i), Reason::kAsked)));
  }
  EXPECT_TRUE(files_.Exists(failure));
  for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(files_.Exists(asked[i]), i >= 3) << i;
}

TEST_F(IncidentFilesTest, ThoseOfAJobGoWithIt) {
  Keep(At(1, Reason::kFailure));
  const std::string other = Keep(At(1, Reason::kFailure, "b"));
  kept_.Forget("a");
  EXPECT_FALSE(kept_.Newest("a").ok());
  EXPECT_EQ(kept_.Newest("b")->path, other);
}

TEST_F(IncidentFilesTest, WithoutADirectoryNothingIsKept) {
  const IncidentFiles nowhere(&files_, "");
  EXPECT_EQ(*nowhere.Keep(At(1, Reason::kAsked), "{}"), "");
  EXPECT_FALSE(nowhere.Newest("a").ok());
  nowhere.Forget("a");
}

TEST_F(IncidentFilesTest, AStorageThatIsFullIsTold) {
  files_.FailWrites("/state", absl::ResourceExhaustedError("no space left"));
  EXPECT_EQ(kept_.Keep(At(1, Reason::kAsked), "{}").status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace coxswain::incidents
