#include "kernels/experts/expert_rows.h"

#include <stdexcept>

#include "kernels/experts/route.h"
#include "tests/kernels/cuda/expert_pairs.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_sort_by_expert_test {
namespace {

// Outputs start as -7, so that what is not written is found.
SortedPairs SortOnDevice(int64_t experts, int64_t chosen, const Ints& ids) {
  const SortByExpertSpec spec{.experts = experts, .chosen = chosen};
  const auto tokens = static_cast<int64_t>(ids.size()) / chosen;
  SortedPairs out(experts, {});
  const Ints unwritten(ids.size(), -7);
  const DeviceValues<int32_t> device_ids(ids), order(unwritten), places(unwritten);
  const DeviceValues<int32_t> offsets(Ints(Size(experts + 1), -7)), counts(Ints(Size(experts), -7));
  const Scratch scratch(SortByExpertWorkspaceBytes(spec, tokens));
  SortByExpert({.spec = spec,
                .tokens = tokens,
                .ids = device_ids.data(),
                .order = order.data(),
                .places = places.data(),
                .offsets = offsets.data(),
                .counts = counts.data(),
                .workspace = scratch.workspace()},
               TestStream());
  out.order = order.Read();
  out.places = places.Read();
  out.offsets = offsets.Read();
  out.counts = counts.Read();
  return out;
}

void CheckSort(int64_t experts, int64_t chosen, const Ints& ids) {
  const SortedPairs got = SortOnDevice(experts, chosen, ids), want(experts, ids);
  const std::string what = std::to_string(ids.size()) + " pairs of " + std::to_string(experts);
  EXPECT_EQ(got.counts, want.counts) << what;
  EXPECT_EQ(got.offsets, want.offsets) << what;
  EXPECT_TRUE(got.order == want.order) << what;
  EXPECT_TRUE(got.places == want.places) << what;
  const SortedPairs again = SortOnDevice(experts, chosen, ids);
  EXPECT_TRUE(again.order == got.order && again.places == got.places) << what << ", again";
}

TEST(SortByExpertGpuTest, SortsPairsStably) {
  CheckSort(3, 2, {2, 0, 0, 1, 2, 0});
  CheckSort(3, 2, {2, 0, -1, -1, 2, 1});
  CheckSort(1, 1, {0});
  CheckSort(1, 1, {-1});
  CheckSort(5, 1, {});
}

// Around warps, tiles of 1024 pairs, and 512 blocks of one tile; experts around the threads.
TEST(SortByExpertGpuTest, EveryTailOfTilesAndBlocks) {
  for (const int64_t experts : {1, 7, 128, 257, 1024}) {
    for (const int64_t pairs : {1, 31, 33, 127, 129, 1023, 1024, 1025, 5003, 65536}) {
      for (const bool left_out : {false, true}) {
        CheckSort(experts, 1, ExpertIds(pairs, experts, 1, left_out));
      }
    }
  }
  for (const int64_t tokens : {65535, 65536, 65537, 200003}) {
    CheckSort(128, 8, ExpertIds(tokens * 8, 128, 2, true));
  }
}

TEST(SortByExpertGpuTest, AllToOneExpertAndNoneAtAll) {
  for (const int32_t id : {-1, 0, 77, 127}) CheckSort(128, 8, Ints(Size(8 * 4099), id));
}

// Every pair goes to expert 0, so that places are the pairs: 24 GiB.
TEST(SortByExpertGpuTest, ReachesTheLastPlaceOf31Bits) {
  const SortByExpertSpec spec{.experts = 2, .chosen = 8};
  const int64_t tokens = (int64_t{1} << 28) - 1, pairs = tokens * 8, bytes = pairs * 4;
  if (FreeMemoryBytes() < 3 * bytes + (int64_t{1} << 30)) GTEST_SKIP() << "needs 25 GiB";
  const DeviceBytes ids(bytes), order(bytes), places(bytes);
  SetMemory(ids.data(), 0, bytes, nullptr);
  const DeviceValues<int32_t> offsets(Ints(3, -7)), counts(Ints(2, -7));
  const Scratch scratch(SortByExpertWorkspaceBytes(spec, tokens));
  SortByExpert({.spec = spec,
                .tokens = tokens,
                .ids = static_cast<const int32_t*>(ids.data()),
                .order = static_cast<int32_t*>(order.data()),
                .places = static_cast<int32_t*>(places.data()),
                .offsets = offsets.data(),
                .counts = counts.data(),
                .workspace = scratch.workspace()},
               TestStream());
  const auto all = static_cast<int32_t>(pairs);
  EXPECT_EQ(offsets.Read(), (Ints{0, all, all}));
  EXPECT_EQ(counts.Read(), (Ints{all, 0}));
  for (const DeviceBytes* index : {&order, &places}) {
    for (const int32_t at : {0, all / 2, all - 1}) {
      int32_t value = -7;
      CopyMemory(&value, static_cast<const char*>(index->data()) + int64_t{at} * 4, 4, nullptr);
      EXPECT_EQ(value, at);
    }
  }
}

TEST(SortByExpertGpuTest, WorkspaceStaysBelowTwoMebibytes) {
  for (const int64_t tokens : {0, 1, 8192, 1 << 28}) {
    EXPECT_LE(SortByExpertWorkspaceBytes({.experts = 1024, .chosen = 8}, tokens), 2 << 20);
  }
}

TEST(SortByExpertGpuTest, RefusesWhatItCannotSort) {
  EXPECT_FALSE(SortByExpertSupports({.experts = kMostExperts + 1, .chosen = 1}));
  EXPECT_FALSE(SortByExpertSupports({.experts = 4, .chosen = 0}));
  SortByExpertArgs args{.spec = {.experts = 4, .chosen = 8}, .tokens = int64_t{1} << 28};
  EXPECT_THROW(SortByExpert(args, TestStream()), std::invalid_argument);
  args.tokens = 1;  // and no workspace
  EXPECT_THROW(SortByExpert(args, TestStream()), std::invalid_argument);
  args.tokens = -1;
  EXPECT_THROW(SortByExpert(args, TestStream()), std::invalid_argument);
}

}  // namespace
}  // namespace gpu_sort_by_expert_test
}  // namespace coxswain::kernels
