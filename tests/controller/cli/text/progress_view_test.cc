// What stands above the bar of a job that is watched on a terminal.
#include <sstream>

#include <gtest/gtest.h>

#include "controller/cli/command/follow.h"
#include "controller/cli/text/clean_stream.h"
#include "controller/cli/text/progress_view.h"
#include "controller/cli/text/status_line.h"
#include "tests/controller/cli/run_cox.h"

namespace coxswain::cli {
namespace {

constexpr const char* kClear = "\r\033[K";

v1::JobEvent Event(const std::string& type, const std::string& message) {
  v1::JobEvent event;
  event.set_type(type);
  event.set_message(message);
  return event;
}

class BarTest : public testing::Test {
 protected:
  BarTest() : err_(&raw_) {
    terminal_.err = &err_;
    terminal_.columns = 60;
    job_.set_id("tiny-1");
    job_.set_state(v1::JOB_STATE_RUNNING);
    job_.mutable_progress()->set_total_steps(4);
  }
  // What was drawn since the last call.
  std::string Drawn() {
    err_.flush();
    std::string text = raw_.str();
    raw_.str("");
    return text;
  }

  std::ostringstream raw_;
  CleanStream err_;
  Terminal terminal_;
  v1::Job job_;
};

TEST_F(BarTest, EventsStandAboveItAndItIsDrawnAgain) {
  ProgressView view(terminal_, ProgressMode::kBar);
  view.Event(Event("Warning", "116 of 300 records dropped"), 0);
  EXPECT_EQ(Drawn(), "Warning: 116 of 300 records dropped\n") << "there is no bar yet";
  view.Job(job_);
  const std::string bar = ProgressLine(job_, {}, 59);
  EXPECT_EQ(Drawn(), "\r" + bar + "\033[K");
  for (const char* type : {"EvalDone", "Resuming", "CheckpointCommitted", "RecoveryStage"}) {
    view.Event(Event(type, "text\nmore"), 0);
    EXPECT_EQ(Drawn(), kClear + std::string(type) + ": text\\nmore\n" + bar);
  }
  view.Job(job_);
  EXPECT_EQ(Drawn(), "") << "the bar stands there already";
}

TEST_F(BarTest, AnswersComeWithTheirTexts) {
  ProgressView view(terminal_, ProgressMode::kBar);
  v1::JobEvent event = Event("PromptAnswered", "prompt 1 at step 4: 9 tokens");
  event.mutable_prompt_answered()->set_text("Why?");
  event.mutable_prompt_answered()->set_answer("No\nreason\033[2J");
  const std::string text =
      "PromptAnswered: prompt 1 at step 4: 9 tokens\n    prompt\n      Why?\n    answer\n      No\n"
      "      reason\\x1b[2J\n";
  view.Event(event, 0);
  EXPECT_EQ(Drawn(), text);
  ProgressView plain(terminal_, ProgressMode::kPlain);
  plain.Event(event, 0);
  EXPECT_EQ(Drawn(), text);
}

TEST_F(BarTest, StepsAndStatesAreOfTheBar) {
  ProgressView view(terminal_, ProgressMode::kBar);
  for (const char* type : {"StepDone", "StateChanged", "AnswerWritten"}) {
    view.Event(Event(type, "text"), 0);
  }
  EXPECT_EQ(Drawn(), "");
}

TEST(StatusPageTest, IsNamedWhereTheControllerServesOne) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_SUCCEEDED);
  fake.Edit(id, [&](v1::Job* job) { job->set_status_page("http://0.0.0.0:7071/jobs/" + id); });
  std::ostringstream err;
  Cox cox;
  cox.terminal.err = &err;
  cox.flags.server = fake.address();
  cox.now_unix_ms = [] { return FakeJobs::kNow; };
  FollowOptions options;
  options.progress = ProgressMode::kPlain;
  ASSERT_TRUE(FollowJob(&cox, "tiny", options).ok());
  EXPECT_EQ(err.str().find("status page: http://127.0.0.1:7071/jobs/" + id + "\n"), 0u)
      << err.str();
}

TEST(StatusPageTest, IsThereWhereThisMachineReachesIt) {
  v1::Job job;
  EXPECT_EQ(PageLine(job, "10.0.0.7:7070"), "");
  job.set_status_page("http://0.0.0.0:7071/jobs/a");
  EXPECT_EQ(PageLine(job, "10.0.0.7:7070"), "status page: http://10.0.0.7:7071/jobs/a");
  EXPECT_EQ(PageLine(job, "[::1]:7070"), "status page: http://[::1]:7071/jobs/a");
  job.set_status_page("http://127.0.0.1:7071/jobs/a");
  EXPECT_EQ(PageLine(job, "localhost:7070"), "status page: http://127.0.0.1:7071/jobs/a");
  EXPECT_EQ(PageLine(job, "trainer:7070"),
            "status page: http://127.0.0.1:7071/jobs/a on the controller's machine");
  job.set_status_page("javascript:alert(1)");
  EXPECT_EQ(PageLine(job, "trainer:7070"), "");
}

}  // namespace
}  // namespace coxswain::cli
