// Reduce-scatter, all-gather and the communicators of a mesh of shard x replicate ranks.
#include <bit>
#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "tests/worker/comm/test_ranks.h"
#include "worker/comm/collectives.h"
#include "worker/comm/rank_order_sum.h"

namespace coxswain::comm {
namespace {

using kernels::DType;

constexpr DType kFloat = DType::kFloat32, kHalf = DType::kBFloat16;

std::vector<BFloat16> Rounded(const std::vector<float>& values) {
  std::vector<BFloat16> out(values.size());
  for (size_t i = 0; i < values.size(); ++i) Store(values[i], &out[i]);
  return out;
}

// What the ranks' Rounded(Contribution) add up to, in float32 and rounded once.
std::vector<BFloat16> RoundedSum(int world, int64_t n) {
  std::vector<float> sum(n, 0.0f);
  for (int r = 0; r < world; ++r) {
    const std::vector<BFloat16> part = Rounded(Contribution<float>(r, n));
    for (int64_t i = 0; i < n; ++i) sum[i] = r == 0 ? float{part[i]} : sum[i] + float{part[i]};
  }
  return Rounded(sum);
}

template <typename T>
std::vector<T> Part(const std::vector<T>& whole, int index, int64_t n) {
  return {whole.begin() + index * n, whole.begin() + (index + 1) * n};
}

// Lengths of a part: none, one, odd, around a segment of 65,536 float32, several segments.
const int64_t kLengths[] = {0, 1, 7, 4097, 65535, 65537, 200003};

class Sharded : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(World, Sharded, testing::Values(1, 2, 3, 4));

// Invariant comm-1: the bits of AllReduceSum, part by part.
TEST_P(Sharded, ReduceScatterGivesThisRanksPartOfTheSum) {
  const int world = GetParam();
  for (int64_t n : kLengths) {
    const auto expected = SumInRankOrder<float>(world, world * n);
    const auto expected_half = RoundedSum(world, world * n);
    WithRanks(world, [&](Collectives& group) {
      const int rank = group.rank();
      auto send = Contribution<float>(rank, world * n);
      std::vector<float> receive(n);
      ASSERT_TRUE(group
                      .ReduceScatterSum(Communicator::kWorld, send.data(), receive.data(), n,
                                        kFloat, nullptr)
                      .ok());
      EXPECT_TRUE(SameBits(receive, Part(expected, rank, n))) << "n " << n << " rank " << rank;
      EXPECT_TRUE(SameBits(send, Contribution<float>(rank, world * n)));
      ASSERT_TRUE(group
                      .ReduceScatterSum(Communicator::kWorld, send.data(), send.data() + rank * n,
                                        n, kFloat, nullptr)
                      .ok());
      EXPECT_TRUE(SameBits(Part(send, rank, n), receive)) << "in place, n " << n;
      auto half = Rounded(Contribution<float>(rank, world * n));
      ASSERT_TRUE(group
                      .ReduceScatterSum(Communicator::kWorld, half.data(), half.data() + rank * n,
                                        n, kHalf, nullptr)
                      .ok());
      EXPECT_TRUE(SameBits(Part(half, rank, n), Part(expected_half, rank, n))) << "n " << n;
    });
  }
}

TEST_P(Sharded, ReduceScatterAddsToATotal) {
  const int world = GetParam();
  for (int64_t n : kLengths) {
    const auto sum = SumInRankOrder<float>(world, world * n);
    const auto half_sum = RoundedSum(world, world * n);
    WithRanks(world, [&](Collectives& group) {
      const int rank = group.rank();
      std::vector<float> before = Contribution<float>(rank + 7, n), total = before;
      auto send = Contribution<float>(rank, world * n);
      ASSERT_TRUE(
          group
              .ReduceScatterAdd(Communicator::kWorld, send.data(), total.data(), n, kFloat, nullptr)
              .ok());
      auto half = Rounded(Contribution<float>(rank, world * n));
      ASSERT_TRUE(
          group.ReduceScatterAdd(Communicator::kWorld, half.data(), total.data(), n, kHalf, nullptr)
              .ok());
      for (int64_t i = 0; i < n; ++i) {
        const int64_t place = rank * n + i;
        ASSERT_EQ(total[i], before[i] + sum[place] + float{half_sum[place]}) << i << " of " << n;
      }
    });
  }
}

TEST_P(Sharded, AllReduceOfBFloat16RoundsOnce) {
  const int world = GetParam();
  for (int64_t n : kLengths) {
    const auto expected = RoundedSum(world, n);
    WithRanks(world, [&](Collectives& group) {
      auto data = Rounded(Contribution<float>(group.rank(), n));
      ASSERT_TRUE(group.AllReduceSum(Communicator::kWorld, data.data(), n, kHalf, nullptr).ok());
      EXPECT_TRUE(SameBits(data, expected)) << "n " << n;
    });
  }
}

TEST_P(Sharded, AllGatherPutsEveryPartInItsPlace) {
  const int world = GetParam();
  for (int64_t n : kLengths) {
    std::vector<float> expected;
    for (int r = 0; r < world; ++r) {
      const auto part = Contribution<float>(r, n);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    WithRanks(world, [&](Collectives& group) {
      const int rank = group.rank();
      const auto send = Contribution<float>(rank, n);
      std::vector<float> receive(world * n);
      ASSERT_TRUE(
          group.AllGather(Communicator::kWorld, send.data(), receive.data(), n, kFloat, nullptr)
              .ok());
      EXPECT_TRUE(SameBits(receive, expected)) << "n " << n << " rank " << rank;
      std::vector<float> in_place(world * n, 0.0f);
      std::copy(send.begin(), send.end(), in_place.begin() + rank * n);
      ASSERT_TRUE(group
                      .AllGatherBytes(Communicator::kWorld, in_place.data() + rank * n,
                                      in_place.data(), 4 * n, nullptr)
                      .ok());
      EXPECT_TRUE(SameBits(in_place, expected)) << "in place, n " << n << " rank " << rank;
    });
  }
}

TEST_P(Sharded, ReduceScatterThenAllGatherIsAllReduce) {
  const int world = GetParam();
  const int64_t n = 30011;
  WithRanks(world, [&](Collectives& group) {
    auto sum = Contribution<float>(group.rank(), world * n), parts = sum;
    float* const own = parts.data() + group.rank() * n;
    ASSERT_TRUE(Sum(group, sum.data(), world * n).ok());
    ASSERT_TRUE(
        group.ReduceScatterSum(Communicator::kWorld, parts.data(), own, n, kFloat, nullptr).ok());
    ASSERT_TRUE(group.AllGather(Communicator::kWorld, own, parts.data(), n, kFloat, nullptr).ok());
    EXPECT_TRUE(SameBits(parts, sum));
  });
}

// Sums over each communicator of a value that names the rank, in one order on all ranks.
TEST(ShardedTest, CommunicatorsHoldTheRanksOfTheMesh) {
  for (auto [world, shard] : {std::pair{4, 2}, {6, 3}, {4, 4}, {4, 1}}) {
    const int replicas = world / shard;
    WithRanks(
        world,
        [&, world = world, shard = shard](Collectives& group) {
          const int index = group.rank() % shard, replica = group.rank() / shard;
          EXPECT_EQ(group.rank(Communicator::kShard), index);
          EXPECT_EQ(group.size(Communicator::kShard), shard);
          EXPECT_EQ(group.rank(Communicator::kReplicate), replica);
          EXPECT_EQ(group.size(Communicator::kReplicate), replicas);
          double expected_shard = 0, expected_replicate = 0;
          for (int s = 0; s < shard; ++s) expected_shard += 1 << (replica * shard + s);
          for (int r = 0; r < replicas; ++r) expected_replicate += 1 << (r * shard + index);
          for (int round = 0; round < 20; ++round) {
            double mine = 1 << group.rank();
            ASSERT_TRUE(group.AllReduceSum(Communicator::kShard, &mine, 1, nullptr).ok());
            EXPECT_EQ(mine, expected_shard);
            mine = 1 << group.rank();
            ASSERT_TRUE(group.AllReduceSum(Communicator::kReplicate, &mine, 1, nullptr).ok());
            EXPECT_EQ(mine, expected_replicate);
            mine = 1 << group.rank();
            ASSERT_TRUE(group.AllReduceSum(Communicator::kWorld, &mine, 1, nullptr).ok());
            EXPECT_EQ(mine, (1 << world) - 1);
          }
          EXPECT_EQ(group.progress().finished, 60u);
        },
        std::chrono::milliseconds(30000), shard);
  }
}

TEST(ShardedTest, ProgressNamesTheCallInProgress) {
  std::promise<void> seen;
  auto released = seen.get_future().share();
  WithRanks(2, [&](Collectives& group) {
    std::vector<float> part(3, 1.0f), whole(6);
    if (group.rank() == 1) {
      released.wait();
      EXPECT_TRUE(
          group.AllGather(Communicator::kWorld, part.data(), whole.data(), 3, kFloat, nullptr)
              .ok());
      return;
    }
    auto call = std::async(std::launch::async, [&] {
      return group.AllGather(Communicator::kWorld, part.data(), whole.data(), 3, kFloat, nullptr);
    });
    Progress progress;
    while ((progress = group.progress()).operation.empty()) std::this_thread::yield();
    EXPECT_EQ(progress.operation, "all_gather of 12 bytes over world");
    EXPECT_EQ(progress.started, 1u);
    EXPECT_EQ(progress.finished, 0u);
    ASSERT_FALSE(progress.communicators.empty());
    const CommunicatorProgress& world = progress.communicators[0];
    EXPECT_EQ(world.name, "world");
    EXPECT_EQ(world.size, 2);
    EXPECT_EQ(world.started, 1u);
    EXPECT_EQ(world.finished, 0u);
    EXPECT_EQ(world.operation, progress.operation);
    EXPECT_EQ(world.bytes, 12);
    EXPECT_TRUE(group.Poll().ok());
    seen.set_value();
    EXPECT_TRUE(call.get().ok());
    progress = group.progress();
    EXPECT_EQ(progress.finished, 1u);
    EXPECT_EQ(progress.operation, "");
    EXPECT_EQ(progress.communicators[0].finished, 1u);
    EXPECT_EQ(progress.communicators[0].operation, "all_gather of 12 bytes over world");
  });
}

// Invariant comm-3: of three peers it is the silent one that is named. Comm-2: Poll after Abort.
TEST(ShardedTest, AHungPeerIsNamed) {
  std::promise<void> done;
  auto finished = done.get_future().share();
  std::atomic<int> waiting{3};
  WithRanks(
      4,
      [&](Collectives& group) {
        if (group.rank() == 2) return finished.wait();
        std::vector<float> send(4 * 70001, 1.0f), receive(70001);
        const absl::Status status = group.ReduceScatterSum(Communicator::kWorld, send.data(),
                                                           receive.data(), 70001, kFloat, nullptr);
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
        EXPECT_NE(status.message().find("#1 (reduce_scatter of 70001 float32 over world), rank "),
                  std::string::npos)
            << status;
        EXPECT_EQ(group.Poll(), status);
        if (status.message().find("closed") == std::string::npos) {
          // On a busy machine a living rank may be late as well.
          const size_t named = status.message().find("; waiting for rank ");
          EXPECT_NE(status.message().find('2', named), std::string::npos) << status;
        }
        if (--waiting == 0) done.set_value();
        finished.wait();
        group.Abort();
        EXPECT_EQ(group.Poll().code(), absl::StatusCode::kCancelled);
      },
      std::chrono::milliseconds(5000));  // the group is formed within it too
}

TEST(ShardedTest, RefusesAShardThatDoesNotDivideTheWorld) {
  for (int shard : {0, 3}) {
    GroupConfig config;
    config.world_size = 4;
    config.shard = shard;
    EXPECT_EQ(Collectives::Form(config, nullptr).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace coxswain::comm
