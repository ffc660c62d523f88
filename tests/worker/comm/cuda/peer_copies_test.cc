// Gathers and reductions by copies between the GPUs of a host, a process and a GPU for each rank.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "tests/worker/comm/cuda/device_vectors.h"
#include "tests/worker/comm/cuda/nccl_rank.h"

namespace coxswain::comm {
namespace peer_copies_test {
namespace {

using kernels::DType;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr Communicator kWorld = Communicator::kWorld;

// Elements of a part: about what is copied at all, a block's, more than the staging buffer holds.
const int64_t kParts[] = {131072, 1000000, 20000000};

// A group that copies what lies in `bytes` bytes of each rank.
class PeerCopies : public testing::Test {
 protected:
  void Open(int64_t bytes, milliseconds timeout = milliseconds(60000), int shard = 1) {
    group_ = Form("group", shard, timeout);
    ASSERT_NE(group_, nullptr);
    memory_ = std::make_unique<OnDevice<char>>(bytes);
    const std::vector<DeviceRegion> regions = {{memory_->data(), bytes}};
    ASSERT_EQ(group_->Share(regions), absl::OkStatus());
    if (group_->transport().rfind("copies", 0) != 0) GTEST_SKIP() << group_->transport();
  }
  bool Closed() const { return IsSkipped() || HasFatalFailure(); }
  void TearDown() override {
    if (group_ != nullptr && group_->Poll().ok()) (void)group_->Barrier();
    group_.reset();
  }
  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(memory_->data());
  }
  template <typename T>
  void Fill(const std::vector<T>& values, int64_t first = 0) {
    kernels::CopyMemory(data<T>() + first, values.data(),
                        static_cast<int64_t>(values.size() * sizeof(T)), nullptr);
  }
  template <typename T>
  std::vector<T> Read(int64_t first, int64_t n) const {
    std::vector<T> values(static_cast<size_t>(n));
    kernels::CopyMemory(values.data(), data<T>() + first, n * static_cast<int64_t>(sizeof(T)),
                        nullptr);
    return values;
  }

  template <typename T>
  void TestScatter(DType dtype, bool in_place) {
    const int64_t world = group_->world_size(), rank = group_->rank();
    for (const int64_t n : kParts) {
      Fill(Wholes<T>(group_->rank(), world * n));
      const int64_t place = in_place ? rank * n : world * n;
      ASSERT_EQ(
          group_->ReduceScatterSum(kWorld, data<T>(), data<T>() + place, n, dtype, stream_.get()),
          absl::OkStatus());
      Finish(*group_, stream_.get());
      ExpectSums(Read<T>(place, n), Everyone(), rank * n);
    }
  }

  const StreamHandle stream_{kernels::CreateStream()};
  std::unique_ptr<OnDevice<char>> memory_;
  std::unique_ptr<Collectives> group_;
};

TEST_F(PeerCopies, ReduceScatterGivesThisRanksPart) {
  Open(4 * 20000000 * int64_t{ThisRank().world + 1});
  if (Closed()) return;
  for (bool in_place : {false, true}) {
    TestScatter<float>(DType::kFloat32, in_place);
    TestScatter<BFloat16>(DType::kBFloat16, in_place);
  }
}

TEST_F(PeerCopies, ReduceScatterAddsToATotal) {
  Open(4 * 20000000 * int64_t{ThisRank().world});
  if (Closed()) return;
  for (const int64_t n : kParts) {
    TestScatterAdd(*group_, DType::kFloat32, data<float>(), n, stream_.get());
    TestScatterAdd(*group_, DType::kBFloat16, data<BFloat16>(), n, stream_.get());
  }
}

TEST_F(PeerCopies, AllGatherPutsEveryPartInItsPlace) {
  Open(4 * 20000000 * int64_t{ThisRank().world + 1});
  if (Closed()) return;
  const int64_t world = group_->world_size(), rank = group_->rank();
  for (const int64_t n : kParts) {
    for (const bool in_place : {false, true}) {
      const int64_t place = in_place ? rank * n : world * n;
      Fill(Wholes<float>(group_->rank(), n), place);
      ASSERT_TRUE(group_
                      ->AllGather(kWorld, data<float>() + place, data<float>(), n, DType::kFloat32,
                                  stream_.get())
                      .ok());
      Finish(*group_, stream_.get());
      for (int r = 0; r < world; ++r) {
        const std::vector<float> expected = Wholes<float>(r, n), got = Read<float>(r * n, n);
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size() * 4), 0)
            << "part " << r << " of " << n << (in_place ? " in place" : "");
      }
    }
  }
}

// Replicas of two ranks: a reduction inside them and one over them, on two streams, piece by piece.
TEST_F(PeerCopies, TwoCommunicatorsReduceAtOneTime) {
  const int64_t n = 20000000, world = ThisRank().world;
  if (world < 4 || world % 2 != 0) GTEST_SKIP() << "needs an even number of GPUs, four or more";
  const int64_t replicas = world / 2, rank = ThisRank().rank, second = 2 * n;
  Open(4 * n * (2 + replicas), milliseconds(60000), /*shard=*/2);
  if (Closed()) return;
  const StreamHandle other{kernels::CreateStream()};
  const auto value = [](int64_t of, int64_t i) { return static_cast<float>((of + 1) * (i % 13)); };
  std::vector<float> mine(static_cast<size_t>((2 + replicas) * n));
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = value(rank, static_cast<int64_t>(i));
  for (int run = 0; run < 5; ++run) {
    Fill(mine);
    float* const in_replica = data<float>() + rank % 2 * n;
    float* const over_replicas = data<float>() + second + rank / 2 * n;
    ASSERT_EQ(group_->ReduceScatterSum(Communicator::kShard, data<float>(), in_replica, n,
                                       DType::kFloat32, stream_.get()),
              absl::OkStatus());
    ASSERT_EQ(group_->ReduceScatterSum(Communicator::kReplicate, data<float>() + second,
                                       over_replicas, n, DType::kFloat32, other.get()),
              absl::OkStatus());
    Finish(*group_, stream_.get());
    Finish(*group_, other.get());
    const int64_t at = in_replica - data<float>(), beside = over_replicas - data<float>();
    const std::vector<float> first_sums = Read<float>(at, n), sums = Read<float>(beside, n);
    for (int64_t i = 0; i < n; ++i) {
      float within = 0, over = 0;
      for (int64_t r = rank / 2 * 2; r < rank / 2 * 2 + 2; ++r) within += value(r, at + i);
      for (int64_t r = rank % 2; r < world; r += 2) over += value(r, beside + i);
      ASSERT_EQ(first_sums[static_cast<size_t>(i)], within) << i;
      ASSERT_EQ(sums[static_cast<size_t>(i)], over) << i;
    }
  }
}

// Fractions whose float32 sum depends on the order: that of the ranks, rounded after each.
TEST_F(PeerCopies, SumsAreThoseOfRankOrder) {
  const int64_t n = 300000, world = ThisRank().world;
  Open(4 * n * world);
  if (Closed()) return;
  const auto fraction = [](int64_t rank, int64_t i) {
    return 1.0f / static_cast<float>(1 + (i * 7919 + rank * 104729) % 10007);
  };
  std::vector<float> mine;
  for (int64_t i = 0; i < world * n; ++i) mine.push_back(fraction(group_->rank(), i));
  Fill(mine);
  float* const own = data<float>() + group_->rank() * n;
  ASSERT_TRUE(
      group_->ReduceScatterSum(kWorld, data<float>(), own, n, DType::kFloat32, stream_.get()).ok());
  Finish(*group_, stream_.get());
  const std::vector<float> sums = Read<float>(group_->rank() * n, n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t element = group_->rank() * n + i;
    float sum = fraction(0, element);
    for (int64_t r = 1; r < world; ++r) sum += fraction(r, element);
    ASSERT_EQ(sums[static_cast<size_t>(i)], sum) << i;
  }
}

TEST_F(PeerCopies, TheFingerprintNamesThem) {
  Open(int64_t{4} << 20);
  if (Closed()) return;
  const std::string start =
      absl::StrCat("transport=copies,nccl copies=0*", group_->world_size(), " hosts=0*");
  EXPECT_EQ(group_->fingerprint().rfind(start, 0), 0u) << group_->fingerprint();
}

// Played hosts: nobody opens memory of a rank that says it is elsewhere.
TEST_F(PeerCopies, RanksOfOtherHostsShareNothing) {
  group_ = Form("group", 1, milliseconds(60000), absl::StrCat("host-", ThisRank().rank));
  ASSERT_NE(group_, nullptr);
  const int64_t n = 400000;
  memory_ = std::make_unique<OnDevice<char>>(4 * n * ThisRank().world);
  ASSERT_EQ(group_->Share({{memory_->data(), 4 * n * ThisRank().world}}), absl::OkStatus());
  EXPECT_EQ(group_->transport().rfind("NCCL (", 0), 0u) << group_->transport();
  EXPECT_EQ(group_->fingerprint().rfind("transport=nccl ", 0), 0u) << group_->fingerprint();
  Fill(Wholes<float>(group_->rank(), n), group_->rank() * n);
  ASSERT_TRUE(group_
                  ->AllGather(kWorld, data<float>() + group_->rank() * n, data<float>(), n,
                              DType::kFloat32, stream_.get())
                  .ok());
  Finish(*group_, stream_.get());
  for (int r = 0; r < group_->world_size(); ++r) {
    EXPECT_EQ(Read<float>(r * n, n), Wholes<float>(r, n)) << r;
  }
}

// Replays meet on the same words; ranks that run ahead must not read what is not ready.
TEST_F(PeerCopies, AGraphReplaysCopies) {
  const int64_t n = 400000, world = ThisRank().world;
  Open(4 * n * world);
  if (Closed()) return;
  const std::vector<float> start = Wholes<float>(group_->rank(), world * n);
  const OnDevice<float> source(start);
  float* const own = data<float>() + group_->rank() * n;
  absl::Status status;
  kernels::Graph* graph = kernels::CaptureGraph(
      [&] {
        kernels::CopyMemory(data<float>(), source.data(), world * n * 4, stream_.get());
        status =
            group_->ReduceScatterSum(kWorld, data<float>(), own, n, DType::kFloat32, stream_.get());
        if (!status.ok()) return;
        status = group_->AllGather(kWorld, own, data<float>(), n, DType::kFloat32, stream_.get());
      },
      stream_.get());
  ASSERT_EQ(status, absl::OkStatus());
  for (int round = 0; round < 20; ++round) {
    for (int launch = 0; launch <= round % 3; ++launch) {
      kernels::LaunchGraph(graph, stream_.get());
    }
    Finish(*group_, stream_.get());
    ExpectSums(Read<float>(0, world * n), Everyone(), 0);
  }
  kernels::DestroyGraph(graph);
}

// Invariant comm-2: a rank that is waited for in vain is named, and the wait ends with the group.
class PeerCopiesAborted : public PeerCopies, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Launches, PeerCopiesAborted, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Graph" : "Stream");
});

TEST_P(PeerCopiesAborted, EndsTheWaits) {
  Open(int64_t{16} << 20);
  if (Closed()) return;
  const auto meeting = MeetAt("aborted");
  const int last = group_->world_size() - 1;
  const int64_t n = (int64_t{16} << 20) / 4 / group_->world_size();
  absl::Status status;
  const auto gather_twice = [&] {
    float* const own = data<float>() + group_->rank() * n;
    for (int i = 0; i < 2 && status.ok(); ++i) {
      status = group_->AllGather(kWorld, own, data<float>(), n, DType::kFloat32, stream_.get());
    }
  };
  kernels::Graph* graph = GetParam() ? kernels::CaptureGraph(gather_twice, stream_.get()) : nullptr;
  if (group_->rank() == last) {  // takes no part
    for (int r = 0; r < last; ++r) {
      EXPECT_TRUE(meeting->Get(absl::StrCat("done", r), milliseconds(60000)).ok());
    }
    if (graph != nullptr) kernels::DestroyGraph(graph);
    group_->Abort();
    return;
  }
  if (graph != nullptr) kernels::LaunchGraph(graph, stream_.get());
  if (graph == nullptr) gather_twice();
  ASSERT_EQ(status, absl::OkStatus());
  ASSERT_TRUE(InCollective(*group_));
  EXPECT_EQ(group_->progress().operation,
            absl::StrCat("all_gather of ", 4 * n, " bytes over world"));
  const auto start = Clock::now();
  group_->Abort();
  kernels::Synchronize(stream_.get());
  EXPECT_LT(Clock::now() - start, milliseconds(5000));
  EXPECT_EQ(group_->Poll().code(), absl::StatusCode::kCancelled);
  if (graph != nullptr) kernels::DestroyGraph(graph);
  gather_twice();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(meeting->Set(absl::StrCat("done", group_->rank()), "1").ok());
}

}  // namespace
}  // namespace peer_copies_test
}  // namespace coxswain::comm
