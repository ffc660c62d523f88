// 20,000 seeded schedules of faults against the real controller. On failure the seed and its
// transcript are printed: COXSWAIN_SIM_SEED=n plays it again, with COXSWAIN_SIM_FAULTS=0,3 only
// those of its faults; COXSWAIN_SIM_FIRST=n begins with seed n. Invariants sim-1, sim-2, sim-3,
// sim-4, sim-5, sim-6, sim-7, sim-8, sim-9, sim-10, sim-11: tests/sim/README.md.
#include "tests/sim/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/logging.h"
#include "tests/sim/coverage_rows.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kShards = 8;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kSchedules = 130 * kShards;
#else
constexpr int64_t kSchedules = 20'000;
#endif
constexpr int64_t kShare = kSchedules / kShards;
// Played with fewer than two checkpoints: one in 500, and one where the share is smaller than that.
constexpr int64_t kMostWithFewCheckpoints = (kShare + 499) / 500;
constexpr int64_t kMostHits = 100;  // of every row of the coverage table, over all shards

std::set<size_t> KeptFaults() {
  std::set<size_t> kept;
  const char* list = std::getenv("COXSWAIN_SIM_FAULTS");
  if (list == nullptr) return kept;
  for (const auto& part : absl::StrSplit(list, ',')) {
    size_t place = 0;
    if (absl::SimpleAtoi(part, &place)) kept.insert(place);
  }
  return kept;
}

class ScheduleTest : public testing::TestWithParam<int64_t> {
 protected:
  static void SetUpTestSuite() { log::Init("sim", log::Level::kError); }
};

Played PlaySeed(uint64_t seed, Coverage* coverage) {
  Played played = Play(DrawSchedule(seed), KeptFaults(), coverage);
  EXPECT_TRUE(played.violations.empty())
      << "seed " << seed << ":\n"
      << absl::StrJoin(played.violations, "\n") << "\n"
      << played.transcript << "play it again with COXSWAIN_SIM_SEED=" << seed;
  return played;
}

// Each shard its share of the hits: together they are enough whatever process played which.
void CheckCoverage(const Coverage& coverage) {
  constexpr int64_t kHits = (kMostHits + kShards - 1) / kShards;
  for (const std::string& row : CoverageRows()) {
    EXPECT_GE(coverage.hits(row), kHits) << row;
  }
}

TEST_P(ScheduleTest, EveryScheduleOfFaultsKeepsTheRules) {
  if (const char* seed = std::getenv("COXSWAIN_SIM_SEED")) {
    if (GetParam() > 0) GTEST_SKIP() << "one seed is played";
    std::printf("%s", PlaySeed(std::strtoull(seed, nullptr, 10), nullptr).transcript.c_str());
    return;
  }
  const char* from = std::getenv("COXSWAIN_SIM_FIRST");
  const int64_t first = GetParam() * kShare + (from != nullptr ? std::atoll(from) : 1);
  const bool table = std::getenv("COXSWAIN_SIM_TABLE") != nullptr;
  Coverage coverage;
  int64_t long_ones = 0, few_checkpoints = 0;
  uint64_t gangs = 0;
  for (int64_t seed = first; seed < first + kShare; ++seed) {
    if (HasFailure() && !table) break;
    const Played played = PlaySeed(static_cast<uint64_t>(seed), &coverage);
    gangs += played.gangs;
    long_ones += DrawSchedule(static_cast<uint64_t>(seed)).kind == ScheduleKind::kLong;
    few_checkpoints += played.checkpoints < 2;
  }
  for (const auto& [row, hits] : coverage.rows()) {
    if (table) std::printf("%8ld  %s\n", hits, row.c_str());
  }
  if (HasFailure()) return;
  EXPECT_EQ(long_ones, kShare / 10);
  EXPECT_LE(few_checkpoints, kMostWithFewCheckpoints)
      << "few jobs end while a late save keeps back the next";
  if (kSchedules >= 20'000 && from == nullptr) CheckCoverage(coverage);
  std::printf("%ld schedules, %ld of them long: %lu gangs\n", kShare, long_ones, gangs);
}

INSTANTIATE_TEST_SUITE_P(Shards, ScheduleTest, testing::Range<int64_t>(0, kShards));

}  // namespace
}  // namespace coxswain::sim
