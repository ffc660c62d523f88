// The recovery of a job alone: what it tells, asks and waits for.
#include "controller/driver/job/job_recovery.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "controller/driver/records/make_events.h"
#include "controller/failure/errors.h"
#include "tests/support/job_part_test.h"

namespace coxswain::driver {
namespace {

class JobRecoveryTest : public support::JobPartTest {
 protected:
  JobRecoveryTest() {
    row_.job.set_state(v1::JOB_STATE_RUNNING);
    row_.job.set_started_unix_ms(1);
    spec_.max_restarts = spec_.max_restarts_total = 3;
    spec_.workers = 2;
  }
  JobRecovery& recovery() {
    if (recovery_ == nullptr) recovery_ = std::make_unique<JobRecovery>(job(), &incidents());
    return *recovery_;
  }
  JobIncidents& incidents() {
    if (incidents_ == nullptr) incidents_ = std::make_unique<JobIncidents>(job());
    return *incidents_;
  }
  static v1::Error ErrorOf(v1::ErrorKind kind, const std::string& phase = "step") {
    v1::Error error = failure::MakeError(absl::InternalError("broke"), {.phase = phase});
    error.set_kind(kind);
    return error;
  }
  static failure::Verdict WaitOf(std::chrono::milliseconds wait) {
    return {.course = failure::Course::kWaits,
            .error = ErrorOf(v1::ERROR_KIND_STORAGE),
            .wait = wait,
            .reason = "storage is away"};
  }

 private:
  std::unique_ptr<JobIncidents> incidents_;
  std::unique_ptr<JobRecovery> recovery_;
};

TEST_F(JobRecoveryTest, WithoutAGangAnAttemptIsJudgedAtOnce) {
  recovery().Failed(ErrorOf(v1::ERROR_KIND_SYSTEM), /*set_aside=*/false);
  ASSERT_EQ(heard_.told(), std::vector<std::string>{"judged"});
  EXPECT_EQ(heard_.verdict().course, failure::Course::kTriesAgain);
  EXPECT_EQ(Told("AttemptFailed").size(), 1u);
  EXPECT_TRUE(Told("RecoveryStage").empty());
}

// Invariant failure-1.
TEST_F(JobRecoveryTest, AGangWithoutAnExplanationIsDumpedBeforeItIsJudged) {
  MakeGang(2);
  recovery().Failed(ErrorOf(v1::ERROR_KIND_SYSTEM), false);
  EXPECT_TRUE(recovery().Dumps());
  EXPECT_TRUE(heard_.told().empty());
  RunFor(1000);
  EXPECT_FALSE(recovery().Dumps());
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"judged"});
  EXPECT_EQ(Told("IncidentKept").size(), 1u);
}

TEST_F(JobRecoveryTest, AGangWhoseErrorExplainsItselfIsJudgedWithoutADump) {
  MakeGang(2);
  recovery().Failed(ErrorOf(v1::ERROR_KIND_STORAGE), false);
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"judged"});
  EXPECT_EQ(heard_.verdict().course, failure::Course::kWaits);
}

TEST_F(JobRecoveryTest, AGangThatAUserStopsCostsNoRestart) {
  spec_.max_restarts = spec_.max_restarts_total = 0;
  MakeGang(1);
  recovery().StopAsked();
  ASSERT_EQ(heard_.told(), std::vector<std::string>{"judged"});
  EXPECT_EQ(heard_.verdict().course, failure::Course::kWaits);
  EXPECT_FALSE(recovery().Facts().asked_to_stop) << "it is honoured once";
}

TEST_F(JobRecoveryTest, AHostThatIsLeftOutIsToldWithTheWorkersThatAreLeft) {
  std::string failed;
  hooks_.host_failed = [&](const std::string& id, const v1::Error& error) {
    failed = id + ": " + error.message();
    return HostLeftOutEvent("bad", 3, {});
  };
  recovery().Failed(ErrorOf(v1::ERROR_KIND_HOST), false);
  EXPECT_EQ(failed, "job: broke");
  ASSERT_EQ(Told("HostLeftOut").size(), 1u);
  EXPECT_NE(Told("HostLeftOut")[0].find("0 workers of device cpu are left, the job needs 2"),
            std::string::npos)
      << Told("HostLeftOut")[0];
}

TEST_F(JobRecoveryTest, RanksThatDifferAreTheFaultOfNoHost) {
  hooks_.host_failed = [](const std::string&, const v1::Error&) -> std::optional<v1::JobEvent> {
    ADD_FAILURE() << "it was asked";
    return std::nullopt;
  };
  recovery().Failed(ErrorOf(v1::ERROR_KIND_HOST, "form"), false);
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"judged"});
}

TEST_F(JobRecoveryTest, AWaitEndsInARetryAndIsShown) {
  recovery().HeldUp(WaitOf(std::chrono::milliseconds(1000)));
  EXPECT_TRUE(recovery().Waits());
  EXPECT_EQ(job().record.job().retry_unix_ms(), clock_.UnixMs() + 1000);
  RunFor(999);
  EXPECT_TRUE(heard_.told().empty());
  RunFor(2);
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"retry due"});
  EXPECT_FALSE(recovery().Waits());
}

TEST_F(JobRecoveryTest, WaitsInARowAreCountedUntilSomethingIsWritten) {
  recovery().HeldUp(WaitOf(std::chrono::milliseconds(1)));
  recovery().HeldUp(WaitOf(std::chrono::milliseconds(1)));
  EXPECT_EQ(recovery().Facts().held_up, 2);
  recovery().HeldUpNoMore();
  EXPECT_EQ(recovery().Facts().held_up, 0);
}

TEST_F(JobRecoveryTest, TheTableIsToldWhenWorkersAreKeptNoMore) {
  recovery().Keep();
  RunFor(deps_.settings.keep_workers.count() - 1);
  EXPECT_TRUE(recovery().Keeps());
  EXPECT_EQ(reschedules_, 0);
  RunFor(2);
  EXPECT_FALSE(recovery().Keeps());
  EXPECT_EQ(reschedules_, 1);
}

}  // namespace
}  // namespace coxswain::driver
