// What ranks agree on where memory cannot be shared: no GPU is needed to fail together.
#include "worker/comm/peer_memory.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "controller/planner/memory/memory.h"
#include "worker/comm/peer_copies.h"

namespace coxswain::comm {
namespace peer_memory_test {
namespace {

// Strings of all ranks, round by round.
class Meeting {
 public:
  explicit Meeting(int world) : world_(world) {}

  std::vector<std::string> Exchange(int rank, const std::string& mine) {
    std::unique_lock<std::mutex> lock(mu_);
    const size_t round = rounds_[static_cast<size_t>(rank)]++;
    if (said_.size() <= round) said_.resize(round + 1);
    said_[round].resize(static_cast<size_t>(world_));
    said_[round][static_cast<size_t>(rank)] = mine;
    counts_.resize(said_.size());
    ++counts_[round];
    all_.notify_all();
    all_.wait(lock, [&] { return counts_[round] == world_; });
    return said_[round];
  }

 private:
  const int world_;
  std::mutex mu_;
  std::condition_variable all_;
  std::vector<size_t> rounds_ = std::vector<size_t>(static_cast<size_t>(world_), 0);
  std::vector<std::vector<std::string>> said_;
  std::vector<int> counts_;
};

// Status of each rank that opens one region of its `bytes`.
std::vector<absl::Status> OpenAll(const std::vector<int64_t>& bytes) {
  const int world = static_cast<int>(bytes.size());
  Meeting meeting(world);
  std::vector<absl::Status> statuses(bytes.size());
  std::vector<std::vector<char>> memory;
  for (const int64_t size : bytes) memory.emplace_back(static_cast<size_t>(size));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto place = static_cast<size_t>(rank);
      const auto exchange = [&](const std::string& mine) {
        return absl::StatusOr<std::vector<std::string>>(meeting.Exchange(rank, mine));
      };
      statuses[place] =
          PeerMemory::Open(rank, "", {{memory[place].data(), bytes[place]}}, exchange).status();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return statuses;
}

// Host memory has no handle, with and without a GPU: every rank learns it from the first.
TEST(PeerMemoryTest, RanksAgreeThatMemoryCannotBeShared) {
  for (const absl::Status& status : OpenAll({4096, 4096, 4096})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message().substr(0, 28), "rank 0: cudaIpcGetMemHandle:") << status;
  }
}

TEST(PeerCopiesTest, ThePlannerCountsTheirStagingBuffer) {
  EXPECT_EQ(static_cast<uint64_t>(PeerCopies::kStagingBytes), planner::kCopyStagingBytes);
}

TEST(PeerMemoryTest, AnExchangeThatFailsIsNoReasonToGoOn) {
  const auto exchange = [](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
    return absl::UnavailableError("rank 1 is gone");
  };
  EXPECT_EQ(PeerMemory::Open(0, "", {}, exchange).status(),
            absl::UnavailableError("rank 1 is gone"));
}

}  // namespace
}  // namespace peer_memory_test
}  // namespace coxswain::comm
