#include "controller/driver/training/recipe_curriculum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>

#include "common/data/token_store_writer.h"
#include "tests/controller/planner/job_fixture.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::driver {
namespace {

// Documents of any length, so that target bits start at every offset within a byte.
TEST(AppendBinTest, JoinsTokensAndTargetBitsOfDocuments) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/append_bin.store";
  std::mt19937 random(5);
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<bool>> targets;
  {
    auto writer = *data::TokenStoreWriter::Create(path);
    for (int document = 0; document < 40; ++document) {
      const size_t length = 1 + random() % 37;
      std::vector<int32_t> ids(length);
      std::vector<bool> marks(length);
      std::vector<uint8_t> bits((length + 7) / 8);
      for (size_t t = 0; t < length; ++t) {
        ids[t] = static_cast<int32_t>(random() % 50000);
        marks[t] = t + 1 < length && random() % 3 != 0;
        if (marks[t]) bits[t / 8] |= static_cast<uint8_t>(1u << (t % 8));
      }
      ASSERT_TRUE(writer->Add(ids, bits, 1).ok());
      tokens.push_back(ids);
      targets.push_back(marks);
    }
    ASSERT_TRUE(writer->Finish().ok());
  }
  auto store = *data::TokenStore::Open(path);
  v1::Bins bins;
  const std::vector<std::vector<int64_t>> wanted = {{3, 1, 4}, {15}, {9, 2, 6, 5, 35, 8}};
  for (size_t bin = 0; bin < wanted.size(); ++bin) {
    AppendBin(*store, static_cast<int64_t>(bin) + 70, wanted[bin], BinForm::kTokens, &bins);
  }
  std::vector<int32_t> ids;
  std::vector<bool> marks;
  for (const auto& bin : wanted) {
    for (const int64_t document : bin) {
      ids.insert(ids.end(), tokens[document].begin(), tokens[document].end());
      marks.insert(marks.end(), targets[document].begin(), targets[document].end());
    }
  }
  EXPECT_EQ(bins.bin_ids(1), 71);
  EXPECT_EQ(bins.documents_per_bin(2), 6);
  ASSERT_EQ(bins.token_ids().size(), ids.size() * sizeof(int32_t));
  EXPECT_EQ(std::memcmp(bins.token_ids().data(), ids.data(), bins.token_ids().size()), 0);
  ASSERT_EQ(bins.targets().size(), (ids.size() + 7) / 8);
  for (size_t t = 0; t < marks.size(); ++t) {
    EXPECT_EQ((static_cast<uint8_t>(bins.targets()[t / 8]) >> (t % 8) & 1) != 0, marks[t]) << t;
  }
  v1::Bins by_ids;
  AppendBin(*store, 7, wanted[2], BinForm::kDocumentIds, &by_ids);
  EXPECT_EQ(by_ids.bin_ids(0), 7);
  EXPECT_EQ(by_ids.documents_per_bin(0), 6);
  EXPECT_EQ(std::vector<int64_t>(by_ids.document_ids().begin(), by_ids.document_ids().end()),
            wanted[2]);
  EXPECT_TRUE(by_ids.token_ids().empty() && by_ids.document_lengths().empty());
  std::filesystem::remove(path);
}

planner::Recipe RecipeOf(const config::JobSpec& job, const data::PreparedData& data) {
  auto recipe = planner::Recipe::Make(job, planner::SmallModel(), data);
  EXPECT_TRUE(recipe.ok()) << recipe.status();
  return *std::move(recipe);
}

// The last token before a cut has no target: the one behind it is not there.
TEST(AppendCutTest, TakesTheFirstTokensAndTheTargetsAmongThem) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/append_cut.store";
  {
    auto writer = *data::TokenStoreWriter::Create(path);
    const std::vector<uint8_t> bits = {0b11111111, 0b00000001};
    ASSERT_TRUE(writer->Add(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, bits, 9).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  auto store = *data::TokenStore::Open(path);
  v1::Bins bins;
  AppendCut(*store, 7, std::vector<int64_t>{0, 0}, std::vector<int64_t>{3, 10}, &bins);
  EXPECT_EQ(bins.bin_ids(0), 7);
  EXPECT_EQ(bins.documents_per_bin(0), 2);
  EXPECT_EQ(bins.document_lengths(0), 3);
  EXPECT_EQ(bins.document_lengths(1), 10);
  ASSERT_EQ(bins.token_ids().size(), 13 * sizeof(int32_t));
  int32_t behind = 0;
  std::memcpy(&behind, bins.token_ids().data() + 3 * sizeof(int32_t), sizeof(behind));
  EXPECT_EQ(behind, 1) << "the second document follows";
  // 110, then 1111111110, from the lowest bit on.
  EXPECT_EQ(bins.targets(), std::string("\xfb\x0f", 2));
}

TEST(RecipeCurriculumTest, PassesAfterCountsEachPassByItsOwnSteps) {
  config::JobSpec job = planner::SmallJob();
  job.train.num_epochs = 2.5;
  data::PreparedData data = planner::SmallData();
  planner::Recipe recipe = RecipeOf(job, data);
  const int64_t second = recipe.first_step_of_pass(1), third = recipe.first_step_of_pass(2);
  const int64_t total = recipe.total_steps();
  const RecipeCurriculum curriculum(planner::SmallModel(), std::move(data), std::move(recipe));
  EXPECT_EQ(curriculum.passes_after(0), 0);
  EXPECT_DOUBLE_EQ(curriculum.passes_after(1), 1.0 / static_cast<double>(second));
  EXPECT_DOUBLE_EQ(curriculum.passes_after(second), 1);
  EXPECT_DOUBLE_EQ(curriculum.passes_after(third), 2);
  EXPECT_NEAR(curriculum.passes_after(total), 2.5, 0.5 / static_cast<double>(second));
}

// A checkpoint writes the past of the whole job: a line of trainer_state.json for every step.
TEST(RecipeCurriculumTest, PassesAfterTakesNoLongerLateInALongPass) {
  config::JobSpec job = planner::SmallJob();
  job.workers = 1;
  job.train.global_batch_size = 1;
  job.packing.strategy = config::PackingStrategy::kNone;
  constexpr int kSteps = 40'000;
  data::PreparedData data = planner::SmallData(kSteps);
  planner::Recipe recipe = RecipeOf(job, data);
  ASSERT_EQ(recipe.total_steps(), kSteps);
  const RecipeCurriculum curriculum(planner::SmallModel(), std::move(data), std::move(recipe));
  const std::clock_t began = std::clock();  // CPU time: on a busy machine others' is no part of it
  double sum = 0;
  for (int64_t step = 1; step <= kSteps; ++step) sum += curriculum.passes_after(step);
  EXPECT_NEAR(sum, (kSteps + 1) / 2.0, 1e-3);
  EXPECT_LT(std::clock() - began, CLOCKS_PER_SEC / 2);
}

TEST(RecipeCurriculumTest, ARecipeThatIsCancelledStopsInItsFirstPass) {
  const data::PreparedData data = planner::SmallData();
  const auto recipe =
      planner::Recipe::Make(planner::SmallJob(), planner::SmallModel(), data, [] { return true; });
  EXPECT_EQ(recipe.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace coxswain::driver
