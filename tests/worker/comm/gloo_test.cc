#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/worker/comm/in_process_rendezvous.h"
#include "tests/worker/comm/largest_allocation.h"
#include "tests/worker/comm/test_ranks.h"
#include "worker/comm/collectives.h"
#include "worker/comm/members.h"
#include "worker/comm/sum_probe.h"

namespace coxswain::comm {
namespace {

using std::chrono::milliseconds;

class GlooSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(World, GlooSizes, testing::Values(1, 2, 3, 4, 7));

// Invariant comm-1. Lengths around the switch from direct to scattered exchange (16 KiB), around a
// segment (256 KiB x world), and odd tails.
TEST_P(GlooSizes, AllReduceAddsInRankOrderOnEveryRank) {
  const int world = GetParam();
  const int64_t segment = 65536 * world;
  for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4096}, int64_t{4097},
                    segment - 1, segment, segment + 1, int64_t{1} << 20}) {
    const auto expected = SumInRankOrder<float>(world, n);
    const auto expected_double = SumInRankOrder<double>(world, n);
    WithRanks(world, [&](Collectives& group) {
      auto data = Contribution<float>(group.rank(), n);
      ASSERT_TRUE(Sum(group, data.data(), n).ok());
      EXPECT_TRUE(SameBits(data, expected)) << "n " << n << " rank " << group.rank();
      auto wide = Contribution<double>(group.rank(), n);
      ASSERT_TRUE(Sum(group, wide.data(), n).ok());
      EXPECT_TRUE(SameBits(wide, expected_double)) << "n " << n << " rank " << group.rank();
      EXPECT_EQ(group.progress().finished, 2u);
    });
  }
}

// However the ranks lie on hosts: that is no part of it.
TEST_P(GlooSizes, TheFingerprintIsTheTransport) {
  WithRanks(GetParam(), [](Collectives& group) {
    EXPECT_EQ(group.fingerprint(), group.world_size() > 1 ? "transport=gloo" : "");
  });
}

TEST(MembersTest, GroupsAreNumberedByTheirFirstRank) {
  EXPECT_EQ(GroupsOf({}), "");
  EXPECT_EQ(GroupsOf({"b", "b", "a", "a"}), "0*2,1*2");
  EXPECT_EQ(GroupsOf({"a", "b", "a"}), "0*1,1*1,0*1");
  EXPECT_EQ(GroupsOf({"a", "a", "a", "b"}), "0*3,1*1");
}

TEST(MembersTest, BytesOfAnOperationFollowFromItsName) {
  EXPECT_EQ(OperationBytes(OperationName("all_reduce", 7, "float32", Communicator::kWorld)), 28);
  EXPECT_EQ(OperationBytes(OperationName("all_reduce", 7, "bfloat16", Communicator::kShard)), 14);
  EXPECT_EQ(OperationBytes(OperationName("all_reduce", 7, "float64", Communicator::kWorld)), 56);
  EXPECT_EQ(OperationBytes(OperationName("all_gather", 7, "bytes", Communicator::kReplicate)), 7);
  EXPECT_EQ(OperationBytes(""), 0);
  EXPECT_EQ(OperationBytes("a collective"), 0);
}

// Of the numbers of four ranks, added one after the other or in two halves.
class SumProbeTest : public testing::Test {
 protected:
  std::string DigestOfSums(bool halves) {
    std::vector<const float*> x;
    for (const SumProbe& rank : ranks_) {
      x.push_back(static_cast<const float*>(rank.Numbers(kernels::DType::kFloat32)));
    }
    std::vector<float> sums;
    for (int64_t i = 0; i < SumProbe::kNumbers; ++i) {
      sums.push_back(halves ? (x[0][i] + x[1][i]) + (x[2][i] + x[3][i])
                            : ((x[0][i] + x[1][i]) + x[2][i]) + x[3][i]);
    }
    SumProbe probe(0);
    probe.Take(sums.data(), static_cast<int64_t>(sums.size() * sizeof(float)));
    return probe.Digest();
  }
  const std::vector<SumProbe> ranks_ = {SumProbe(0), SumProbe(1), SumProbe(2), SumProbe(3)};
};

TEST_F(SumProbeTest, AnotherOrderOfAddingIsAnotherDigest) {
  EXPECT_EQ(DigestOfSums(false).size(), 16u);
  EXPECT_EQ(DigestOfSums(false), DigestOfSums(false));
  EXPECT_NE(DigestOfSums(false), DigestOfSums(true));
}

TEST_F(SumProbeTest, EveryResultCountsInItsPlace) {
  const float numbers[] = {1, 2};
  SumProbe none(0), forth(0), back(0);
  for (int i : {0, 1}) {
    forth.Take(&numbers[i], sizeof(float));
    back.Take(&numbers[1 - i], sizeof(float));
  }
  EXPECT_NE(none.Digest(), forth.Digest());
  EXPECT_NE(forth.Digest(), back.Digest());
}

TEST(GlooTest, ManyCallsOfOneGroupStayInStep) {
  WithRanks(3, [](Collectives& group) {
    for (int round = 0; round < 50; ++round) {
      const int64_t n = 1 + round * 997;
      std::vector<float> data(n, static_cast<float>(group.rank() + round));
      ASSERT_TRUE(Sum(group, data.data(), n).ok());
      ASSERT_EQ(data.front(), 3.0f * round + 3.0f);
      ASSERT_EQ(data.back(), 3.0f * round + 3.0f);
      ASSERT_TRUE(group.Barrier().ok());
    }
    EXPECT_EQ(group.progress().finished, 100u);
  });
}

// Invariant comm-5. A call moves 4 MiB through scratch that is there already.
TEST(GlooTest, ACallAllocatesNoScratch) {
  WithRanks(2, [](Collectives& group) {
    std::vector<float> data(1 << 20, 1.0f);
    ASSERT_TRUE(group.Barrier().ok());  // both ranks are formed and have their data
    TakeLargestAllocation();
    ASSERT_TRUE(Sum(group, data.data(), static_cast<int64_t>(data.size())).ok());
    EXPECT_LT(TakeLargestAllocation(), size_t{16} << 10);
    EXPECT_EQ(data.front(), 2.0f);
    ASSERT_TRUE(group.Barrier().ok());
  });
}

TEST(GlooTest, NonFiniteValuesReachEveryRank) {
  WithRanks(2, [](Collectives& group) {
    std::vector<float> data(5000, 1.0f);
    if (group.rank() == 1) data[4999] = std::nanf("");
    ASSERT_TRUE(Sum(group, data.data(), 5000).ok());
    EXPECT_EQ(data[0], 2.0f);
    EXPECT_TRUE(std::isnan(data[4999]));
  });
}

TEST(GlooTest, NoRankLeavesABarrierBeforeAllEnter) {
  std::atomic<int> entered{0};
  WithRanks(4, [&](Collectives& group) {
    for (int round = 1; round <= 20; ++round) {
      ++entered;
      ASSERT_TRUE(group.Barrier().ok());
      EXPECT_GE(entered.load(), 4 * round);
      ASSERT_TRUE(group.Barrier().ok());
    }
  });
}

// Invariant comm-2. Rank 1 never calls: rank 0 waits until its own Abort.
TEST(GlooTest, AbortWakesACallInProgressAndEndsTheGroup) {
  for (int64_t n : {int64_t{10}, int64_t{1} << 20}) {
    std::promise<void> done;
    auto finished = done.get_future().share();
    WithRanks(2, [&](Collectives& group) {
      if (group.rank() == 1) {
        finished.wait();
        return;
      }
      std::vector<float> data(n, 1.0f);
      auto result = std::async(std::launch::async, [&] { return Sum(group, data.data(), n); });
      EXPECT_EQ(result.wait_for(milliseconds(50)), std::future_status::timeout);
      group.Abort();
      ASSERT_EQ(result.wait_for(milliseconds(20000)), std::future_status::ready);
      EXPECT_EQ(result.get().code(), absl::StatusCode::kCancelled);
      EXPECT_EQ(group.Barrier().code(), absl::StatusCode::kCancelled);
      done.set_value();
    });
  }
}

TEST(GlooTest, AbortOfOneRankFailsTheOthersAtOnce) {
  WithRanks(3, [](Collectives& group) {
    if (group.rank() == 2) {
      group.Abort();
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(group.Barrier().code(), absl::StatusCode::kUnavailable);
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(20000));  // below the timeout
  });
}

// Invariant comm-3.
TEST(GlooTest, DeadPeerGivesUnavailableNamingOperationAndOrdinal) {
  WithGroups(2, [](std::unique_ptr<Collectives>& own) {
    Collectives& group = *own;
    ASSERT_TRUE(group.Barrier().ok());
    if (group.rank() == 1) return own.reset();  // its sockets close
    std::vector<float> data(100000, 1.0f);
    const absl::Status status = Sum(group, data.data(), 100000);
    ASSERT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("#2 (all_reduce of 100000 float32 over world), rank 0 of 2"),
              std::string::npos)
        << status;
    EXPECT_NE(status.message().find("; waiting for rank 1"), std::string::npos) << status;
    EXPECT_EQ(group.Barrier(), status);  // the group stays broken, with its first cause
    EXPECT_EQ(group.Poll(), status);
  });
}

TEST(GlooTest, LatePeerGivesUnavailableAfterTheTimeout) {
  std::promise<void> done;
  auto finished = done.get_future().share();
  WithRanks(
      2,
      [&](Collectives& group) {
        if (group.rank() == 1) {
          finished.wait();
          return;
        }
        float value = 1.0f;
        const absl::Status status = Sum(group, &value, 1);
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
        EXPECT_NE(status.message().find("#1"), std::string::npos) << status;
        done.set_value();
      },
      milliseconds(5000));  // the group is formed within it too
}

// Invariant comm-4: no group without all ranks.
TEST(GlooTest, MissingRankFailsFormationAfterTheTimeout) {
  InProcessRendezvous rendezvous;
  GroupConfig config;
  config.world_size = 2;
  config.timeout = milliseconds(100);
  const auto group = Collectives::Form(config, &rendezvous);
  EXPECT_EQ(group.status().code(), absl::StatusCode::kDeadlineExceeded) << group.status();
}

TEST(GlooTest, CancelledRendezvousEndsFormation) {
  InProcessRendezvous rendezvous;
  GroupConfig config;
  config.world_size = 2;
  auto group =
      std::async(std::launch::async, [&] { return Collectives::Form(config, &rendezvous); });
  rendezvous.Cancel();
  EXPECT_EQ(group.get().status().code(), absl::StatusCode::kCancelled);
}

TEST(GlooTest, RefusesARankOutsideTheWorld) {
  for (auto [rank, world] : {std::pair{-1, 2}, {2, 2}, {0, 0}}) {
    GroupConfig config;
    config.rank = rank;
    config.world_size = world;
    EXPECT_EQ(Collectives::Form(config, nullptr).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(GlooTest, AbortOfAGroupOfOneCancelsLaterCalls) {
  WithRanks(1, [](Collectives& group) {
    float value = 3.0f;
    ASSERT_TRUE(Sum(group, &value, 1).ok());
    EXPECT_EQ(value, 3.0f);
    group.Abort();
    EXPECT_EQ(Sum(group, &value, 1).code(), absl::StatusCode::kCancelled);
  });
}

}  // namespace
}  // namespace coxswain::comm
