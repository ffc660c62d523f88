// The page over a simulated cluster: routes, headers, what it costs the loop.
#include "controller/status_page/status_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::status_page {
namespace {

class StatusPageTest : public support::JobTest {
 protected:
  StatusPageTest() : sim_(sim::Simulation::Options()) {
    context_.deps = sim_.deps();
    context_.jobs = &sim_.jobs();
    context_.build.set_version("1.2.3");
    page_ = std::make_unique<StatusPage>(&context_, &sim_.clock(),
                                         [this](const StatusPage::Task& task) {
                                           ++tasks_;
                                           if (loop_answers_) task();
                                         });
  }
  // Not from what is kept.
  HttpResponse Fresh(const std::string& path) {
    sim_.RunFor(StatusPage::kKeep.count());
    return page_->Answer(path);
  }
  static std::string Header(const HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return "";
  }

  sim::Simulation sim_;
  api::Context context_;
  int tasks_ = 0;
  bool loop_answers_ = true;
  std::unique_ptr<StatusPage> page_;
};

TEST_F(StatusPageTest, RoutesToPagesAndNowhereElse) {
  const std::string id = sim_.Submit({.name = "alpha"});
  EXPECT_EQ(page_->Answer("/").status, 200);
  EXPECT_EQ(page_->Answer("/jobs/" + id).status, 200);
  EXPECT_EQ(page_->Answer("/jobs/alpha").status, 200);  // by name, as cox takes it
  EXPECT_EQ(page_->Answer("/jobs/" + id + ".json").content_type, "application/json");
  const HttpResponse picture = page_->Answer("/jobs/" + id + ".svg");
  EXPECT_EQ(picture.content_type, "image/svg+xml");
  EXPECT_NE(picture.body.find(">" + id + "<"), std::string::npos) << picture.body;
  EXPECT_EQ(picture.headers.front().second, "default-src 'none'");
  for (const char* path : {"/jobs/", "/jobs/none", "/jobs/none.json", "/jobs", "/x", "//", ""}) {
    const HttpResponse response = page_->Answer(path);
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_EQ(response.content_type, "text/plain; charset=utf-8") << path;
  }
}

TEST_F(StatusPageTest, SendsThePolicyAndIsNotCachedByBrowsers) {
  const HttpResponse response = page_->Answer("/");
  EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
  EXPECT_EQ(Header(response, "Content-Security-Policy").rfind("default-src 'none'", 0), 0u);
  EXPECT_EQ(Header(response, "Cache-Control"), "no-store");
  EXPECT_EQ(Header(response, "Referrer-Policy"), "no-referrer");
}

TEST_F(StatusPageTest, ShowsAJobFromTheQueueToItsEnd) {
  const std::string first = sim_.Submit({.name = "first"});
  ASSERT_TRUE(sim_.RunUntilState(first, v1::JOB_STATE_RUNNING));
  const std::string second = sim_.Submit({.name = "second"});
  ASSERT_TRUE(sim_.RunUntilState(second, v1::JOB_STATE_READY));
  const std::string busy = page_->Answer("/").body;
  EXPECT_NE(busy.find("id=\"now-" + first), std::string::npos) << "it has a gang";
  EXPECT_EQ(busy.find("id=\"now-" + second), std::string::npos) << "it waits";
  EXPECT_NE(busy.find("Jobs that wait for workers"), std::string::npos);
  EXPECT_EQ(busy.find("No job waits"), std::string::npos);

  ASSERT_TRUE(sim_.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  const std::string idle = Fresh("/").body;
  EXPECT_EQ(idle.find("id=\"now-"), std::string::npos);
  EXPECT_NE(idle.find("No job waits"), std::string::npos);
  const auto points = nlohmann::json::parse(Fresh("/jobs/" + second + ".json").body);
  const int64_t total = sim_.Job(second).progress().total_steps();
  ASSERT_EQ(points["step"].size(), static_cast<size_t>(total));
  EXPECT_EQ(points["step"].back(), total);
  EXPECT_EQ(points["loss"].back(), sim_.Job(second).progress().loss());
  EXPECT_FALSE(points["evals"].empty());
}

// The curve of a job that a restarted controller finds in its store.
TEST_F(StatusPageTest, HistoryOutlivesTheController) {
  const std::string id = sim_.Submit({.name = "a"});
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim_.CrashController();
  sim_.StartController();
  context_.deps = sim_.deps();
  context_.jobs = &sim_.jobs();
  StatusPage again(&context_, &sim_.clock(), [](const StatusPage::Task& task) { task(); });
  const auto points = nlohmann::json::parse(again.Answer("/jobs/" + id + ".json").body);
  EXPECT_EQ(points["step"].size(), static_cast<size_t>(sim_.Job(id).progress().total_steps()));
}

// Invariant page-1.
TEST_F(StatusPageTest, AThousandReadersCostTheLoopNoMoreThanOne) {
  const std::string id = sim_.Submit({.name = "a"});
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  page_->Answer("/");
  const int of_one = tasks_;
  for (int i = 0; i < 1000; ++i) page_->Answer("/");
  EXPECT_EQ(tasks_, of_one);
  Fresh("/");
  EXPECT_GT(tasks_, of_one);
  EXPECT_LE(tasks_, 2 * of_one);  // what was read is not read again
}

// Invariant page-1: the events come in slices.
TEST_F(StatusPageTest, ALongHistoryIsReadInSlices) {
  const std::string id = sim_.Submit({.name = "a"}, /*paused=*/true);
  store::Batch batch;
  for (int64_t step = 0; step < 10 * StatusPage::kEventsOfATask; ++step) {
    v1::JobEvent event;
    event.set_job(id);
    event.set_type("StepDone");
    event.mutable_step_done()->set_step(step);
    event.mutable_step_done()->set_loss(1);
    batch.events.push_back(event);
  }
  ASSERT_TRUE(sim_.store().Commit(batch).ok());
  const auto points = nlohmann::json::parse(page_->Answer("/jobs/a.json").body);
  EXPECT_EQ(points["step"].back(), 10 * StatusPage::kEventsOfATask);
  EXPECT_GE(tasks_, 11);
}

// Invariant page-5.
TEST_F(StatusPageTest, AStuckLoopIsToldAndHoldsUpOnlyTheFirst) {
  loop_answers_ = false;
  const HttpResponse response = page_->Answer("/");
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.body.find("2000 ms"), std::string::npos) << response.body;
  EXPECT_EQ(page_->Answer("/").status, 503);
  EXPECT_EQ(tasks_, 1);
  loop_answers_ = true;
  sim_.RunFor(StatusPage::kPatience.count());
  EXPECT_EQ(page_->Answer("/").status, 200);
}

TEST_F(StatusPageTest, ManyJobsAreCountedAndTheNewestListed) {
  std::vector<std::string> ids;
  for (int i = 0; i < 60; ++i) {
    ids.push_back(sim_.Submit({.name = absl::StrCat("j", i)}, /*paused=*/true));
  }
  sim_.RunFor(1000);
  const Overview page = TakeOverview(context_);
  EXPECT_EQ(page.jobs.size(), kMaxJobs);
  EXPECT_EQ(page.jobs_left_out, 60 - static_cast<int64_t>(kMaxJobs));
  EXPECT_EQ(page.jobs[0].job.id(), ids.back());
  EXPECT_EQ(page.jobs_by_state.at("PAUSED"), 60);
  EXPECT_TRUE(page.jobs[0].job.yaml().empty());
}

}  // namespace
}  // namespace coxswain::status_page
