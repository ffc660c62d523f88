// Ranks as threads over loopback, and vectors whose sum depends on the order of addition.
#ifndef COXSWAIN_TESTS_WORKER_COMM_TEST_RANKS_H_
#define COXSWAIN_TESTS_WORKER_COMM_TEST_RANKS_H_

#include <signal.h>

#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/worker/comm/in_process_rendezvous.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {

// Runs `body` on one thread per rank with a group formed over loopback. A body may destroy its
// group; those that are left live until every body has returned: a rank that has its result may be
// ahead of one whose part of it is still on its way.
inline void WithGroups(int world, const std::function<void(std::unique_ptr<Collectives>&)>& body,
                       std::chrono::milliseconds timeout = std::chrono::milliseconds(30000),
                       int shard = 1) {
  signal(SIGPIPE, SIG_IGN);  // as a worker does
  InProcessRendezvous rendezvous;
  std::vector<std::unique_ptr<Collectives>> groups(static_cast<size_t>(world));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      GroupConfig config;
      config.rank = rank;
      config.world_size = world;
      config.shard = shard;
      config.timeout = timeout;
      auto group = Collectives::Form(config, world == 1 ? nullptr : &rendezvous);
      ASSERT_TRUE(group.ok()) << group.status();
      std::unique_ptr<Collectives>& own = groups[static_cast<size_t>(rank)];
      own = std::move(*group);
      body(own);
    });
  }
  for (auto& thread : ranks) thread.join();
}

inline void WithRanks(int world, const std::function<void(Collectives&)>& body,
                      std::chrono::milliseconds timeout = std::chrono::milliseconds(30000),
                      int shard = 1) {
  WithGroups(
      world, [&](std::unique_ptr<Collectives>& group) { body(*group); }, timeout, shard);
}

inline absl::Status Sum(Collectives& group, float* data, int64_t n) {
  return group.AllReduceSum(Communicator::kWorld, data, n, kernels::DType::kFloat32, nullptr);
}
inline absl::Status Sum(Collectives& group, double* data, int64_t n) {
  return group.AllReduceSum(Communicator::kWorld, data, n, nullptr);
}

// Values whose sum depends on the order of addition.
template <typename T>
T Element(int rank, int64_t i) {
  const uint64_t bits =
      (static_cast<uint64_t>(rank) << 40 | static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15u;
  return static_cast<T>(static_cast<double>(bits >> 11) * 0x1p-53 - 0.5) *
         static_cast<T>(bits % 7 == 0 ? 1e6 : 1.0);
}

template <typename T>
std::vector<T> Contribution(int rank, int64_t n) {
  std::vector<T> data(n);
  for (int64_t i = 0; i < n; ++i) data[i] = Element<T>(rank, i);
  return data;
}

template <typename T>
std::vector<T> SumInRankOrder(int world, int64_t n) {
  std::vector<T> sum = Contribution<T>(0, n);
  for (int r = 1; r < world; ++r) {
    for (int64_t i = 0; i < n; ++i) sum[i] += Element<T>(r, i);
  }
  return sum;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace coxswain::comm

#endif  // COXSWAIN_TESTS_WORKER_COMM_TEST_RANKS_H_
