#include "controller/planner/model/long_documents.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/controller/planner/job_fixture.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::planner {
namespace {

class LongDocumentsTest : public testing::Test {
 protected:
  LongDocumentsTest() {
    job_.model_path = folder_.path();
    job_.sequence_len = 64;
  }
  std::vector<std::string> Warnings(const std::string& config) {
    std::ofstream(folder_.path() + "/config.json") << config;
    return LongDocumentWarnings(job_, model_, DataOf({10, 33, 50}, {40}));
  }
  const support::ScratchFolder folder_;
  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
};

TEST_F(LongDocumentsTest, NamesHowManyAreLongerThanThePositions) {
  const auto warnings = Warnings(R"({"max_position_embeddings": 32})");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find("3 documents are longer than the 32 positions of the model"), 0u);
  EXPECT_NE(warnings[0].find("the longest has 50 tokens"), std::string::npos);
}

TEST_F(LongDocumentsTest, IsSilentWhereTheyFitOrNothingIsSaid) {
  EXPECT_TRUE(Warnings(R"({"max_position_embeddings": 50})").empty());
  EXPECT_TRUE(Warnings(R"({"max_position_embeddings": "many"})").empty());
  EXPECT_TRUE(Warnings("{").empty());
}

TEST_F(LongDocumentsTest, TheRotationsScaleCounts) {
  model_.rope.type = "yarn";
  model_.rope.factor = 4;
  model_.rope.original_max_position = 8;
  EXPECT_EQ(Warnings(R"({"max_position_embeddings": 8})").size(), 1u);  // 32
  model_.rope.original_max_position = 16;
  EXPECT_TRUE(Warnings(R"({"text_config": {"max_position_embeddings": 16}})").empty());
  model_.rope.type = "linear";
  EXPECT_TRUE(Warnings(R"({"max_position_embeddings": 16})").empty());
}

}  // namespace
}  // namespace coxswain::planner
