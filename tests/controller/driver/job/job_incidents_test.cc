// Dumps of a gang, without the job that they are of: what is kept, told and answered.
#include "controller/driver/job/job_incidents.h"

#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/job_part_test.h"

namespace coxswain::driver {
namespace {

class JobIncidentsTest : public support::JobPartTest {
 protected:
  void SetUp() override {
    MakeGang(2);
    incidents_ = std::make_unique<JobIncidents>(job());
  }
  void Take() {
    incidents_->Take(
        *job().session,
        {.ranks = {0, 1},
         .timeout = std::chrono::milliseconds(1000),
         .taken = [this] { ++taken_; },
         .kept = [this](std::shared_ptr<const IncidentReport> report) { report_ = *report; }});
  }

  std::unique_ptr<JobIncidents> incidents_;
  int taken_ = 0;
  std::optional<IncidentReport> report_;
};

TEST_F(JobIncidentsTest, ADumpIsKeptAnsweredAndInTheHistory) {
  Take();
  RunFor(1000);
  EXPECT_EQ(taken_, 1);
  ASSERT_TRUE(report_.has_value());
  EXPECT_EQ(report_->document.at("ranks").size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(*files_.Read(report_->path)), report_->document);
  ASSERT_EQ(Told("IncidentKept").size(), 1u);
  EXPECT_NE(Told("IncidentKept")[0].find("gang 1 were doing is in " + report_->path),
            std::string::npos)
      << Told("IncidentKept")[0];
}

// Whoever asked gets what the ranks said; the history says that it is not on disk.
TEST_F(JobIncidentsTest, ADumpThatCannotBeKeptIsAnsweredAllTheSame) {
  files_.FailWrites("/state/incidents", absl::ResourceExhaustedError("disk full"));
  Take();
  RunFor(1000);
  EXPECT_EQ(taken_, 1);
  ASSERT_TRUE(report_.has_value());
  EXPECT_EQ(report_->path, "");
  EXPECT_EQ(report_->document.at("ranks").size(), 2u);
  EXPECT_TRUE(Told("IncidentKept").empty());
  ASSERT_EQ(Told("Warning").size(), 1u);
  EXPECT_NE(Told("Warning")[0].find("the dump of gang 1 cannot be kept: "), std::string::npos)
      << Told("Warning")[0];
}

TEST_F(JobIncidentsTest, TheRanksMayBeAbortedBeforeTheDumpIsOnDisk) {
  std::string order;
  incidents_->Take(*job().session, {.ranks = {1},
                                    .timeout = std::chrono::milliseconds(1000),
                                    .taken = [&] { order += "taken "; },
                                    .kept = [&](const auto&) { order += "kept"; }});
  RunFor(1000);
  EXPECT_EQ(order, "taken kept");
}

// The job is deleted while its ranks are asked.
TEST_F(JobIncidentsTest, AJobThatIsGoneIsAnsweredAndGetsNoEvent) {
  Take();
  incidents_.reset();
  RunFor(1000);
  ASSERT_TRUE(report_.has_value());
  EXPECT_TRUE(files_.Exists(report_->path));
  EXPECT_TRUE(Told("IncidentKept").empty());
}

}  // namespace
}  // namespace coxswain::driver
