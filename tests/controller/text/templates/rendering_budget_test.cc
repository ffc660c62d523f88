#include "controller/text/templates/rendering_budget.h"

#include <gtest/gtest.h>

#include "controller/text/templates/conversation_template.h"
#include "tests/controller/text/templates/conversation.h"

namespace coxswain::data {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RenderingBudgetTest, GivesSoMuchOnceAndSoMuchForEachRendering) {
  RenderingBudget budget;
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(budget.Charge(RenderingBudget::kTimeOfOne, RenderingBudget::kBytesOfOne).ok());
  }
  int more = 0;
  while (budget.Charge(seconds(6), 0).ok()) ++more;
  EXPECT_EQ(more, 100);  // 600 s, and 50 ms for each of these
}

TEST(RenderingBudgetTest, NamesBothSumsAndBothBounds) {
  RenderingBudget budget;
  ASSERT_TRUE(budget.Charge(milliseconds(1), RenderingBudget::kBytes).ok());
  const absl::Status used_up = budget.Charge(milliseconds(1), (2 << 20) + 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(used_up));
  EXPECT_EQ(used_up.message(),
            "the chat template took 0 s and wrote 1075838977 bytes for the 2 renderings of its "
            "dataset so far; at most 600 s and 1075838976 bytes are given to so many. Give another "
            "chat_template");
}

TEST(RenderingBudgetTest, APauseOfTheMachineUsesLittleOfIt) {
  RenderingBudget budget;
  EXPECT_TRUE(budget.Charge(hours(10), 0).ok());
}

}  // namespace
}  // namespace coxswain::data
