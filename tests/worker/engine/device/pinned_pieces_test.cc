// Host memory that is page-locked beside other work, and let go beside it.
#include "worker/engine/device/pinned_pieces.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <atomic>
#include <memory>

#include "kernels/device.h"
#include "tests/support/eventually.h"

namespace coxswain::engine {
namespace pinned_pieces_test {
namespace {

constexpr int64_t kBytes = 2 * PinnedPieces::kPieceBytes + 4096;

// Page-aligned; `live` counts those that are not let go yet.
std::shared_ptr<char> Pages(std::atomic<int>* live) {
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  ++*live;
  return {static_cast<char*>(memory), [live](char* data) {
            ::munmap(data, kBytes);
            --*live;
          }};
}

TEST(PinnedPiecesTest, KeepsItsMemoryUntilThatIsUnlocked) {
  kernels::Synchronize(nullptr);
  std::atomic<int> live{0};
  {
    PinnedPieces pieces;
    pieces.Start(Pages(&live), kBytes);
    EXPECT_TRUE(support::Eventually([&] { return pieces.pinned() == kBytes; }));
    EXPECT_EQ(live, 1);
  }
  EXPECT_TRUE(support::Eventually([&] { return live == 0; }));
}

TEST(PinnedPiecesTest, TheNextIsLockedWhereTheOneBeforeWas) {
  kernels::Synchronize(nullptr);
  std::atomic<int> live{0};
  for (int i = 0; i < 4; ++i) {
    PinnedPieces pieces;
    pieces.Start(Pages(&live), kBytes);
    if (i % 2 == 1) {
      EXPECT_TRUE(support::Eventually([&] { return pieces.pinned() == kBytes; }));
      EXPECT_EQ(live, 1) << "what the one before left locked goes first";
    }
  }
  EXPECT_TRUE(support::Eventually([&] { return live == 0; }));
}

TEST(PinnedPiecesTest, NothingToLockIsNothing) {
  PinnedPieces pieces;
  pieces.Start(nullptr, kBytes);
  EXPECT_EQ(pieces.pinned(), 0);
}

}  // namespace
}  // namespace pinned_pieces_test
}  // namespace coxswain::engine
