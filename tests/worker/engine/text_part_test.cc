// The text part of a model that reads images trains as the text model by itself.
#include <gtest/gtest.h>

#include "tests/support/image_text_folder.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/same_losses.h"
#include "tests/worker/engine/support/test_plan.h"

namespace coxswain::engine {
namespace text_part_test {
namespace {

TEST(TextPartTest, TrainsAsTheTextModelByItself) {
  const GoldenCase golden = LoadGoldenCase("gemma3_text_full");
  const support::ScratchFolder folder;
  support::WriteImageTextModel(folder.path());
  PlanOptions options;
  options.model_path = folder.path();
  const plan::Plan part = MakePlan(options);
  ExpectLossesOf(golden, part);
}

}  // namespace
}  // namespace text_part_test
}  // namespace coxswain::engine
