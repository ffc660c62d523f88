#include "controller/gang/command_window.h"

#include <gtest/gtest.h>

namespace coxswain::gang {
namespace {

TEST(CommandWindowTest, IsFullAtTheCreditsAndOpensWithTheSlowestRank) {
  CommandWindow window(2);
  window.Push(Turn::kStep, "train", 0);
  EXPECT_FALSE(window.full(2));
  window.Push(Turn::kStep, "train", 1);
  EXPECT_TRUE(window.full(2));
  EXPECT_EQ(window.Receive(0, 1, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_EQ(window.Receive(0, 2, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_FALSE(window.PopComplete());
  EXPECT_TRUE(window.full(2));
  EXPECT_EQ(window.Receive(1, 1, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_EQ(window.PopComplete()->seq, 1u);
  EXPECT_FALSE(window.full(2));
}

// Invariant driver-2.
TEST(CommandWindowTest, RefusesDuplicatesAndGapsWithoutChange) {
  CommandWindow window(1);
  window.Push(Turn::kStep, "train", 0);
  window.Push(Turn::kStep, "train", 1);
  EXPECT_EQ(window.Receive(0, 2, {}), CommandWindow::Receipt::kOutOfOrder);
  EXPECT_EQ(window.Receive(0, 1, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_EQ(window.Receive(0, 1, {}), CommandWindow::Receipt::kDuplicate);
  EXPECT_EQ(window.Receive(0, 3, {}), CommandWindow::Receipt::kOutOfOrder);
  EXPECT_EQ(window.PopComplete()->step, 0);
}

TEST(CommandWindowTest, GoesOnBehindWhatAnotherControllerTook) {
  CommandWindow window(2);
  window.GoOnBehind(7, 9);
  for (const bool again : {true, true, false}) {
    EXPECT_EQ(window.Push(Turn::kStep, "train", 0).again, again);
  }
  EXPECT_EQ(window.oldest()->seq, 8u);
  EXPECT_EQ(window.Receive(0, 7, {}), CommandWindow::Receipt::kDuplicate);
  EXPECT_EQ(window.Receive(0, 8, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_EQ(window.Receive(1, 8, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_EQ(window.PopComplete()->seq, 8u);
}

}  // namespace
}  // namespace coxswain::gang
