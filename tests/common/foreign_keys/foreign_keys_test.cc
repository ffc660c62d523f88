#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "common/config/schema/schema.h"
#include "common/foreign_keys/key_tables.h"
#include "common/foreign_keys/reference.h"

namespace coxswain::foreign_keys {
namespace {

constexpr Tool kTools[] = {Tool::kAxolotl, Tool::kLlamaFactory, Tool::kTrl};

TEST(ForeignKeysTest, NamesAreUniqueInATool) {
  for (const Tool tool : kTools) {
    std::set<std::string_view> names;
    for (const ForeignKey& row : ForeignKeys(tool)) {
      EXPECT_TRUE(names.insert(row.name).second) << ToolName(tool) << ": " << row.name;
    }
  }
}

TEST(ForeignKeysTest, EachFateHasWhatItNeeds) {
  for (const Tool tool : kTools) {
    for (const ForeignKey& row : ForeignKeys(tool)) {
      const bool copied = row.fate == Fate::kCopied;
      const bool translated = row.fate == Fate::kTranslated;
      EXPECT_TRUE(copied ? !row.ours.empty() : translated || !row.reason.empty()) << row.name;
      EXPECT_TRUE(row.preset.empty() || copied) << row.name;
      EXPECT_NE(row.reason.empty() ? 'x' : row.reason.back(), '.') << row.name;
    }
  }
}

// A top-level key of ours that a copied row names is in the schema; keys of data sources grow.
TEST(ForeignKeysTest, CopiedKeysAreOurs) {
  std::set<std::string_view> paths;
  for (const config::Key& key : config::Schema()) paths.insert(key.path);
  for (const Tool tool : kTools) {
    for (const ForeignKey& row : ForeignKeys(tool)) {
      if (row.fate != Fate::kCopied || row.ours.find("spec.datasets") == 0) continue;
      if (row.ours == "spec.chat_template_kwargs") continue;
      EXPECT_EQ(paths.count(row.ours), 1u) << row.name << " -> " << row.ours;
    }
  }
}

TEST(ForeignKeysTest, RowsThatLeadSomewhereComeFirst) {
  ASSERT_NE(FindForeignKey("load_in_4bit"), nullptr);
  EXPECT_EQ(FindForeignKey("load_in_4bit")->ours, "spec.adapter: qlora");
  EXPECT_EQ(FindForeignKey("dataset_name")->ours, "spec.datasets[].path");
  EXPECT_EQ(FindForeignKey("ray_num_workers")->ours, "spec.resources.workers");
  EXPECT_EQ(FindForeignKey("wandb_project")->fate, Fate::kNoEffect);
  EXPECT_EQ(FindForeignKey("no_such_key"), nullptr);
  EXPECT_EQ(FindForeignKey(Tool::kAxolotl, "cutoff_len"), nullptr);
}

TEST(ForeignKeysTest, ReferenceIsCurrent) {
  std::ifstream file("common/foreign_keys/REFERENCE.md");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), ForeignKeyReference())
      << "run: build/cpu/bin/foreign_key_reference > common/foreign_keys/REFERENCE.md";
}

}  // namespace
}  // namespace coxswain::foreign_keys
