// Collectives over NCCL, a process and a GPU for each rank.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/worker/comm/cuda/device_vectors.h"
#include "tests/worker/comm/cuda/nccl_rank.h"

namespace coxswain::comm {
namespace nccl_test {
namespace {

using kernels::DType;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr DType kFloat = DType::kFloat32, kHalf = DType::kBFloat16;
constexpr Communicator kWorld = Communicator::kWorld;
const int64_t kLengths[] = {1, 7, 4097, 65537, 1000003};

template <typename T>
void TestAllReduce(Collectives& group, DType dtype, kernels::Stream* stream) {
  for (int64_t n : kLengths) {
    OnDevice<T> data(Wholes<T>(group.rank(), n));
    ASSERT_EQ(group.AllReduceSum(kWorld, data.data(), n, dtype, stream), absl::OkStatus());
    Finish(group, stream);
    ExpectSums(data.Read(), Everyone(), 0);
  }
}

TEST(NcclTest, AllReduceSums) {
  const auto group = Form("group");
  ASSERT_NE(group, nullptr);
  const StreamHandle stream(kernels::CreateStream());
  TestAllReduce<float>(*group, kFloat, stream.get());
  TestAllReduce<BFloat16>(*group, kHalf, stream.get());
  OnDevice<double> scalar(std::vector<double>{0.1 * (group->rank() + 1)});
  ASSERT_TRUE(group->AllReduceSum(kWorld, scalar.data(), 1, stream.get()).ok());
  Finish(*group, stream.get());
  EXPECT_NEAR(scalar.Read()[0], 0.05 * group->world_size() * (group->world_size() + 1), 1e-12);
}

// Two groups of one process after the other add up alike, and every rank says so.
TEST(NcclTest, TheFingerprintIsThatOfEveryGroupOfTheseRanks) {
  const auto one = Form("one");
  ASSERT_NE(one, nullptr);
  const std::string fingerprint = one->fingerprint(), settings = Collectives::Fingerprint();
  EXPECT_EQ(fingerprint.rfind(absl::StrCat("transport=nccl hosts=0*", one->world_size()), 0), 0u)
      << fingerprint;
  EXPECT_NE(fingerprint.find(" sums="), std::string::npos) << fingerprint;
  const auto other = Form("other");
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->fingerprint(), fingerprint);
  EXPECT_EQ(Collectives::Fingerprint(), settings);
  const auto meeting = MeetAt("fingerprints");
  ASSERT_TRUE(meeting->Set(absl::StrCat("of", one->rank()), fingerprint).ok());
  for (int r = 0; r < one->world_size(); ++r) {
    const auto theirs = meeting->Get(absl::StrCat("of", r), milliseconds(60000));
    ASSERT_TRUE(theirs.ok()) << theirs.status();
    EXPECT_EQ(*theirs, fingerprint) << r;
  }
}

template <typename T>
void TestScatter(Collectives& group, DType dtype, bool in_place, kernels::Stream* stream) {
  const int64_t world = group.world_size(), rank = group.rank();
  for (int64_t n : kLengths) {
    OnDevice<T> send(Wholes<T>(group.rank(), world * n)), apart(n);
    T* const receive = in_place ? send.data() + rank * n : apart.data();
    ASSERT_EQ(group.ReduceScatterSum(kWorld, send.data(), receive, n, dtype, stream),
              absl::OkStatus());
    Finish(group, stream);
    std::vector<T> part = in_place ? send.Read() : apart.Read();
    if (in_place) part = {part.begin() + rank * n, part.begin() + (rank + 1) * n};
    ExpectSums(part, Everyone(), rank * n);
  }
}

TEST(NcclTest, ReduceScatterGivesThisRanksPart) {
  const auto group = Form("group");
  ASSERT_NE(group, nullptr);
  const StreamHandle stream(kernels::CreateStream());
  for (bool in_place : {false, true}) {
    TestScatter<float>(*group, kFloat, in_place, stream.get());
    TestScatter<BFloat16>(*group, kHalf, in_place, stream.get());
  }
}

TEST(NcclTest, ReduceScatterAddsToATotal) {
  const auto group = Form("group");
  ASSERT_NE(group, nullptr);
  const StreamHandle stream(kernels::CreateStream());
  for (int64_t n : kLengths) {
    n = (n + 7) / 8 * 8;  // the part that is added begins at 16 bytes
    const OnDevice<float> send(group->world_size() * n);
    const OnDevice<BFloat16> half(group->world_size() * n);
    TestScatterAdd(*group, kFloat, send.data(), n, stream.get());
    TestScatterAdd(*group, kHalf, half.data(), n, stream.get());
  }
}

TEST(NcclTest, AllGatherPutsEveryPartInItsPlace) {
  const auto group = Form("group");
  ASSERT_NE(group, nullptr);
  const StreamHandle stream(kernels::CreateStream());
  const int64_t world = group->world_size(), rank = group->rank();
  for (int64_t n : kLengths) {
    for (bool in_place : {false, true}) {
      OnDevice<float> part(Wholes<float>(group->rank(), n)), whole(world * n);
      float* const own = whole.data() + rank * n;
      if (in_place) kernels::CopyMemory(own, part.data(), n * 4, stream.get());
      ASSERT_TRUE(group
                      ->AllGather(kWorld, in_place ? own : part.data(), whole.data(), n, kFloat,
                                  stream.get())
                      .ok());
      Finish(*group, stream.get());
      const std::vector<float> values = whole.Read();
      for (int r = 0; r < world; ++r) {
        const std::vector<float> expected = Wholes<float>(r, n);
        EXPECT_EQ(std::memcmp(values.data() + r * n, expected.data(), expected.size() * 4), 0)
            << "part " << r << " of " << n << (in_place ? " in place" : "");
      }
    }
  }
}

// Sums over each communicator of 2^rank.
TEST(NcclTest, CommunicatorsHoldTheRanksOfTheMesh) {
  const int world = ThisRank().world;
  for (int shard = 1; shard <= world; ++shard) {
    if (world % shard != 0) continue;
    const auto group = Form(absl::StrCat("shard", shard), shard);
    ASSERT_NE(group, nullptr);
    const StreamHandle stream(kernels::CreateStream());
    const int index = group->rank() % shard, replica = group->rank() / shard;
    double in_shard = 0, in_replicate = 0;
    for (int s = 0; s < shard; ++s) in_shard += 1 << (replica * shard + s);
    for (int r = 0; r < world / shard; ++r) in_replicate += 1 << (r * shard + index);
    const std::vector<double> expected = {(1 << world) - 1.0, in_shard, in_replicate};
    OnDevice<double> sums(std::vector<double>(3, 1 << group->rank()));
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(
          group->AllReduceSum(static_cast<Communicator>(i), sums.data() + i, 1, stream.get()).ok());
    }
    Finish(*group, stream.get());
    EXPECT_EQ(sums.Read(), expected) << "shard " << shard;
    EXPECT_EQ(group->rank(Communicator::kShard), index);
    EXPECT_EQ(group->size(Communicator::kReplicate), world / shard);
  }
}

// The bits of a sum that rounds are those of rank 0, in a second run too.
TEST(NcclTest, SumsHaveTheSameBitsOnEveryRankAndInEveryRun) {
  const auto group = Form("group");
  ASSERT_NE(group, nullptr);
  const StreamHandle stream(kernels::CreateStream());
  const int64_t n = 300007;
  std::vector<float> mine(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    mine[static_cast<size_t>(i)] =
        1.0f / static_cast<float>(1 + (i * 7919 + group->rank() * 104729) % 10007);
  }
  OnDevice<float> first(mine), second(mine), all(n * group->world_size());
  ASSERT_TRUE(group->AllReduceSum(kWorld, first.data(), n, kFloat, stream.get()).ok());
  ASSERT_TRUE(group->AllReduceSum(kWorld, second.data(), n, kFloat, stream.get()).ok());
  ASSERT_TRUE(group->AllGather(kWorld, first.data(), all.data(), n, kFloat, stream.get()).ok());
  Finish(*group, stream.get());
  const std::vector<float> sums = first.Read(), gathered = all.Read();
  EXPECT_EQ(std::memcmp(sums.data(), second.Read().data(), sums.size() * 4), 0);
  for (int r = 0; r < group->world_size(); ++r) {
    EXPECT_EQ(std::memcmp(sums.data(), gathered.data() + r * n, sums.size() * 4), 0) << r;
  }
}

TEST(NcclTest, AGraphReplaysCollectives) {
  const auto group = Form("group", ThisRank().world);
  ASSERT_NE(group, nullptr);
  const StreamHandle stream(kernels::CreateStream());
  const int64_t n = 100003, world = group->world_size(), rank = group->rank();
  OnDevice<float> source(Wholes<float>(group->rank(), world * n)), data(world * n);
  absl::Status status;
  kernels::Graph* graph = kernels::CaptureGraph(
      [&] {
        kernels::CopyMemory(data.data(), source.data(), world * n * 4, stream.get());
        float* const own = data.data() + rank * n;
        status = group->ReduceScatterSum(Communicator::kShard, data.data(), own, n, kFloat,
                                         stream.get());
        if (status.ok()) {
          status =
              group->AllGather(Communicator::kShard, own, data.data(), n, kFloat, stream.get());
        }
      },
      stream.get());
  ASSERT_EQ(status, absl::OkStatus());
  const uint64_t last = group->progress().finished;
  for (int round = 0; round < 3; ++round) {
    kernels::SetMemory(data.data(), 0, world * n * 4, stream.get());
    kernels::LaunchGraph(graph, stream.get());
    Finish(*group, stream.get());
    ExpectSums(data.Read(), Everyone(), 0);
  }
  EXPECT_EQ(group->progress().finished, last + 2);
  EXPECT_EQ(group->progress().operation, "");
  kernels::DestroyGraph(graph);
}

// What a step of small calls costs the host: told, not judged.
TEST(NcclTest, ManyCallsInARow) {
  const auto group = Form("group");
  ASSERT_NE(group, nullptr);
  const StreamHandle stream(kernels::CreateStream());
  constexpr int kCalls = 500;
  OnDevice<float> data(std::vector<float>(1024, 0.0f));
  const auto start = Clock::now();
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(group->AllReduceSum(kWorld, data.data(), 1024, kFloat, stream.get()).ok());
  }
  const auto enqueued = Clock::now();
  Finish(*group, stream.get());
  const auto us = [](Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count() / kCalls;
  };
  if (group->rank() == 0) {
    std::printf("all_reduce of 4 KiB: %.1f us of the host, %.1f us in all\n", us(enqueued - start),
                us(Clock::now() - start));
  }
}

// Invariant comm-2 on GPUs: the kernel that waits for the last rank is ended.
TEST(NcclTest, AbortEndsWhatTheStreamWaitsFor) {
  const auto group = Form("group");
  ASSERT_NE(group, nullptr);
  const auto meeting = MeetAt("aborted");
  const int last = group->world_size() - 1;
  if (group->rank() == last) {  // takes no part
    for (int r = 0; r < last; ++r) {
      EXPECT_TRUE(meeting->Get(absl::StrCat("done", r), milliseconds(60000)).ok());
    }
    return;
  }
  const StreamHandle stream(kernels::CreateStream());
  OnDevice<float> data(std::vector<float>(1 << 20, 1.0f));
  ASSERT_TRUE(group->AllReduceSum(kWorld, data.data(), 1 << 20, kFloat, stream.get()).ok());
  ASSERT_TRUE(InCollective(*group));
  EXPECT_EQ(group->progress().operation, "all_reduce of 1048576 float32 over world");
  const auto start = Clock::now();
  group->Abort();
  kernels::Synchronize(stream.get());
  EXPECT_LT(Clock::now() - start, milliseconds(5000));
  EXPECT_EQ(group->Poll().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(group->AllReduceSum(kWorld, data.data(), 1, kFloat, stream.get()).code(),
            absl::StatusCode::kCancelled);
  ASSERT_TRUE(meeting->Set(absl::StrCat("done", group->rank()), "1").ok());
}

// Invariant comm-3 on GPUs.
TEST(NcclTest, ARankThatDoesNotComeIsToldAfterTheTimeout) {
  const auto group = Form("group", 1, milliseconds(20000));
  ASSERT_NE(group, nullptr);
  const auto meeting = MeetAt("late");
  const int last = group->world_size() - 1;
  if (group->rank() == last) {
    for (int r = 0; r < last; ++r) {
      EXPECT_TRUE(meeting->Get(absl::StrCat("done", r), milliseconds(90000)).ok());
    }
    return;
  }
  const StreamHandle stream(kernels::CreateStream());
  OnDevice<float> data(std::vector<float>(4096, 1.0f));
  const uint64_t before = group->progress().finished;
  ASSERT_TRUE(group->AllReduceSum(kWorld, data.data(), 4096, kFloat, stream.get()).ok());
  kernels::Synchronize(stream.get());
  const absl::Status status = group->Poll();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("(all_reduce of 4096 float32 over world)"), std::string::npos)
      << status;
  EXPECT_GE(group->progress().started, before);
  ASSERT_TRUE(meeting->Set(absl::StrCat("done", group->rank()), "1").ok());
}

// Invariant comm-4 on GPUs: of one rank more than there is.
TEST(NcclTest, AGroupThatDoesNotFormNamesTheMissingRank) {
  GroupConfig config = ConfigOf(1, milliseconds(2000));
  config.world_size = ThisRank().world + 1;
  const auto group = Collectives::Form(config, MeetAt("group").get());
  ASSERT_FALSE(group.ok());
  EXPECT_NE(group.status().message().find(
                absl::StrCat("rank ", ThisRank().world, " did not come within 2000 ms")),
            std::string::npos)
      << group.status();
}

}  // namespace
}  // namespace nccl_test
}  // namespace coxswain::comm
