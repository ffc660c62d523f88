// The rank that this process is, and groups of it.
#ifndef COXSWAIN_TESTS_WORKER_COMM_CUDA_NCCL_RANK_H_
#define COXSWAIN_TESTS_WORKER_COMM_CUDA_NCCL_RANK_H_

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device.h"
#include "tests/worker/comm/file_rendezvous.h"
#include "tests/worker/comm/rank_processes.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {

inline RankProcess& ThisRank() {
  static RankProcess rank;
  return rank;
}

// The meeting place `name` of the test that runs.
inline std::unique_ptr<FileRendezvous> MeetAt(const std::string& name) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return std::make_unique<FileRendezvous>(
      absl::StrCat(ThisRank().folder, "/", test->test_suite_name(), "-",
                   absl::StrReplaceAll(test->name(), {{"/", "-"}}), "-", name));
}

inline GroupConfig ConfigOf(int shard, std::chrono::milliseconds timeout,
                            const std::string& host_id = "") {
  GroupConfig config;
  config.host_id = host_id;
  config.rank = ThisRank().rank;
  config.world_size = ThisRank().world;
  config.shard = shard;
  config.timeout = timeout;
  return config;
}

// A group of all ranks; fails the test when it does not form.
inline std::unique_ptr<Collectives> Form(
    const std::string& name, int shard = 1,
    std::chrono::milliseconds timeout = std::chrono::milliseconds(60000),
    const std::string& host_id = "") {
  auto group = Collectives::Form(ConfigOf(shard, timeout, host_id), MeetAt(name).get());
  EXPECT_TRUE(group.ok()) << group.status();
  return group.ok() ? std::move(*group) : nullptr;
}

// Waits until the group is in a collective; false: not within 20 seconds.
inline bool InCollective(const Collectives& group) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (group.progress().operation.empty()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace coxswain::comm

#endif  // COXSWAIN_TESTS_WORKER_COMM_CUDA_NCCL_RANK_H_
