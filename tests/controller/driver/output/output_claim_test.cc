#include "controller/driver/output/output_claim.h"

#include <gtest/gtest.h>

#include "tests/sim/fakes/memory_files.h"
#include "tests/support/job_part_test.h"

namespace coxswain::driver {
namespace {

class OutputClaimTest : public testing::Test {
 protected:
  static OutputOwner Owner(const std::string& store, uint64_t term, const std::string& boot = "b") {
    return {.store = store,
            .term = term,
            .job = "job-of-" + store,
            .host = "host-" + boot,
            .boot = boot,
            .pid = 7};
  }
  // What a controller leaves that died under this lock.
  void Leave(const OutputOwner& owner, double age_seconds = 0) {
    ASSERT_TRUE(files_.MakeDirs("/out").ok());
    ASSERT_TRUE(files_.WriteDurably(path_, ToJson(owner)).ok());
    files_.SetAge(path_, age_seconds);
  }
  absl::StatusCode TakenBy(const OutputOwner& me) {
    OutputClaim claim(&files_, "/out", me);
    const absl::StatusCode looked = CheckUnclaimed(&files_, "/out", me).code();
    const absl::Status taken = claim.Take();
    EXPECT_EQ(taken.code(), looked) << taken;
    if (taken.ok()) {
      EXPECT_EQ(ParseOwner(*files_.Read(path_)), me);
    }
    return taken.code();
  }

  const std::string path_ = std::string("/out/") + kClaimName;
  sim::MemoryFiles files_;
};

TEST_F(OutputClaimTest, IsTakenRenewedAndReleasedWithoutATrace) {
  EXPECT_TRUE(CheckUnclaimed(&files_, "/out", Owner("a", 1)).ok());
  OutputClaim claim(&files_, "/out", Owner("a", 1));
  EXPECT_TRUE(absl::IsAborted(claim.WhileHeld([] { return absl::OkStatus(); })));
  ASSERT_TRUE(claim.Take().ok());
  ASSERT_TRUE(claim.Take().ok());
  EXPECT_TRUE(claim.Renew().ok());
  EXPECT_TRUE(claim.WhileHeld([] { return absl::OkStatus(); }).ok());
  claim.Release();
  EXPECT_FALSE(files_.Exists(path_));
  EXPECT_TRUE(absl::IsAborted(claim.WhileHeld([] { return absl::OkStatus(); })));
}

TEST_F(OutputClaimTest, ALivingOwnerIsNamedWithTheOneThatIsRefused) {
  OutputClaim claim(&files_, "/out", Owner("aaaaaaaa11", 3, "x"));
  ASSERT_TRUE(claim.Take().ok());
  files_.Link("/alias", "/out");
  const OutputOwner other = Owner("bbbbbbbb22", 5, "y");
  const absl::Status refused = OutputClaim(&files_, "/alias", other).Take();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"job-of-aaaaaaaa11", "host-x", "store aaaaaaaa", "term 3",
                           "job-of-bbbbbbbb22", "host-y", "store bbbbbbbb", "term 5",
                           "another checkpoint.output_dir", "remove /alias/.coxswain-owner"}) {
    EXPECT_NE(refused.message().find(part), absl::string_view::npos) << part << "\n" << refused;
  }
  EXPECT_EQ(CheckUnclaimed(&files_, "/alias", other).code(), refused.code());
  EXPECT_TRUE(claim.Renew().ok());
}

// Another job of one controller: to be tried again, nobody's fault.
TEST_F(OutputClaimTest, ALivingOwnerOfOnesOwnControllerIsWaitedFor) {
  OutputClaim claim(&files_, "/out", Owner("a", 3));
  ASSERT_TRUE(claim.Take().ok());
  EXPECT_EQ(TakenBy(Owner("a", 3)), absl::StatusCode::kUnavailable);
}

TEST_F(OutputClaimTest, AnEarlierStartOfTheSameControllerIsTakenOver) {
  Leave(Owner("a", 3, "x"));
  EXPECT_EQ(TakenBy(Owner("a", 2, "y")), absl::StatusCode::kUnavailable);  // I am the earlier
  EXPECT_EQ(TakenBy(Owner("a", 4, "y")), absl::StatusCode::kOk);
}

// The kernel would hold the lock of a living process.
TEST_F(OutputClaimTest, ADeadProcessUnderThisKernelIsTakenOver) {
  Leave(Owner("a", 3, "x"));
  EXPECT_EQ(TakenBy(Owner("b", 1, "x")), absl::StatusCode::kOk);
}

// Whoever wrote it may live where its lock is not seen.
TEST_F(OutputClaimTest, AnOwnerOfAnotherHostIsTakenOverAfterItsLease) {
  Leave(Owner("a", 3, "x"), 59);
  EXPECT_EQ(TakenBy(Owner("b", 1, "y")), absl::StatusCode::kFailedPrecondition);
  files_.SetAge(path_, 60);
  EXPECT_EQ(TakenBy(Owner("b", 1, "y")), absl::StatusCode::kOk);
}

TEST_F(OutputClaimTest, GarbageAndAnEmptyFileStopNobody) {
  for (const char* text : {"", "{}", "[1]", "{\"store\": 3}"}) {
    ASSERT_TRUE(files_.MakeDirs("/out").ok());
    ASSERT_TRUE(files_.WriteDurably(path_, text).ok());
    EXPECT_EQ(TakenBy(Owner("b", 1)), absl::StatusCode::kOk) << text;
  }
}

TEST_F(OutputClaimTest, WhoeverLosesTheFileFindsOutAndRemovesNothingOfTheNext) {
  OutputClaim claim(&files_, "/out", Owner("a", 3, "x"));
  ASSERT_TRUE(claim.Take().ok());
  ASSERT_TRUE(files_.WriteDurably(path_, ToJson(Owner("b", 1, "y"))).ok());  // no locks there
  bool ran = false;
  const auto work = [&] {
    ran = true;
    return absl::OkStatus();
  };
  const absl::Status lost = claim.WhileHeld(work);
  EXPECT_TRUE(absl::IsAborted(lost));
  EXPECT_NE(lost.message().find("job-of-b"), absl::string_view::npos);
  EXPECT_FALSE(ran);
  EXPECT_TRUE(absl::IsAborted(claim.Renew()));
  EXPECT_TRUE(claim.Renew().ok());  // said once
  claim.Release();
  EXPECT_TRUE(files_.Exists(path_));
}

TEST_F(OutputClaimTest, AClosedClaimIsNotTakenAnyMore) {
  OutputClaim claim(&files_, "/out", Owner("a", 3));
  claim.Close();
  EXPECT_TRUE(absl::IsCancelled(claim.Take()));
  EXPECT_FALSE(files_.Exists(path_));
}

// The hold of a job alone.
class OutputHoldTest : public support::JobPartTest {
 protected:
  // Another controller has taken the directory, where locks are not seen.
  void TakeByAnother() {
    ASSERT_TRUE(job().output.Claim()->Take().ok());
    const OutputOwner other{.store = "b", .term = 1, .job = "other", .host = "y", .boot = "y"};
    ASSERT_TRUE(files_.WriteDurably(std::string("/out/") + kClaimName, ToJson(other)).ok());
  }
};

// Invariant driver-10.
TEST_F(OutputHoldTest, AnotherOwnerEndsTheAttemptOfAGang) {
  MakeGang(1);
  TakeByAnother();
  RunFor(std::chrono::milliseconds(kClaimRenewal).count() - 1);
  EXPECT_TRUE(heard_.told().empty());
  RunFor(1);
  ASSERT_EQ(heard_.told().size(), 1u);
  EXPECT_NE(heard_.told()[0].find("attempt failed: "), std::string::npos);
  EXPECT_NE(heard_.told()[0].find("other"), std::string::npos) << heard_.told()[0];
}

TEST_F(OutputHoldTest, WithoutAGangNobodyIsTold) {
  TakeByAnother();
  RunFor(60'000);
  EXPECT_TRUE(heard_.told().empty());
}

TEST_F(OutputHoldTest, ADirectoryThatIsLetGoIsTakenByAnother) {
  ASSERT_TRUE(job().output.Claim()->Take().ok());
  bool gone = false;
  job().output.LetGo([&] { gone = true; });
  EXPECT_TRUE(job().output.letting_go());
  RunFor(1);
  EXPECT_TRUE(gone);
  EXPECT_FALSE(job().output.letting_go());
  EXPECT_FALSE(files_.Exists(std::string("/out/") + kClaimName));
  EXPECT_TRUE(CheckUnclaimed(&files_, "/out", OwnerHere("other", 1, "other")).ok());
}

}  // namespace
}  // namespace coxswain::driver
