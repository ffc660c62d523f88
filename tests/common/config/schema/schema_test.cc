#include "common/config/schema/schema.h"

#include <set>

#include <gtest/gtest.h>

#include "common/config/config_error.h"
#include "common/config/parser/job_parser.h"
#include "common/config/schema/reference.h"
#include "tests/common/config/job_text.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::config {
namespace {

using support::ReadFile;

// Invariant config-3.
TEST(SchemaTest, ReferencePageIsCurrent) {
  EXPECT_EQ(ReadFile("common/config/REFERENCE.md"), SchemaReference())
      << "run: build/cpu/bin/config_reference > common/config/REFERENCE.md";
}

TEST(SchemaTest, RowsAreUniqueDocumentedAndBelowTheirMap) {
  std::set<std::string_view> seen;
  for (const Key& key : Schema()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.doc.empty()) << key.path;
    const size_t dot = key.path.rfind('.');
    if (dot == std::string_view::npos) continue;
    std::string_view parent = key.path.substr(0, dot);
    if (parent.substr(parent.size() - 2) == "[]") parent.remove_suffix(2);
    EXPECT_EQ(seen.count(parent), 1u) << key.path;
  }
  for (const auto& [first, second] : ExclusiveKeys())
    EXPECT_EQ(seen.count(first) + seen.count(second), 2u);
}

TEST(SchemaTest, ForeignNamesPointAtRows) {
  std::set<std::string_view> paths;
  for (const Key& key : Schema()) paths.insert(key.path);
  for (const char* name : {"lora_r", "model", "epochs", "gpus", "type", "gradient_checkpointing"}) {
    EXPECT_EQ(paths.count(KnownAs(name)), 1u) << name;
  }
}

TEST(SchemaTest, FullJobNamesEveryKey) {
  for (const Key& key : Schema()) {
    if (KeyName(key) == "warmup_steps") continue;  // excluded by warmup_ratio
    EXPECT_NE(std::string(kFullJob).find(std::string(KeyName(key)) + ":"), std::string::npos)
        << key.path;
  }
}

TEST(SchemaTest, RangeText) {
  EXPECT_EQ(RangeText({}), "");
  EXPECT_EQ(RangeText({.min = 0, .min_open = true}), "> 0");
  EXPECT_EQ(RangeText({.min = 1}), ">= 1");
  EXPECT_EQ(RangeText({.min = 0, .max = 1, .max_open = true}), "0 <= x < 1");
  EXPECT_EQ(RangeText({.max = 3}), "<= 3");
}

TEST(SuggestTest, EditDistance) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("seed", "sede"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(SuggestTest, FarWordsGetNoSuggestion) {
  EXPECT_EQ(Suggest("lerning_rate", {"learning_rate", "weight_decay"}), "learning_rate");
  EXPECT_EQ(Suggest("banana", {"seed", "eps"}), "");
  EXPECT_EQ(Suggest("r", {"q"}), "q");
  EXPECT_EQ(Suggest("xyz", {}), "");
}

}  // namespace
}  // namespace coxswain::config
