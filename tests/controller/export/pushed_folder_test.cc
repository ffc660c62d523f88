// What of an export goes to the Hub, and the card that says what it is.
#include "controller/export/pushed_folder.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

namespace coxswain::exports {
namespace {

TEST(PushedFolderTest, LeavesOutTheManifestAndWhatIsHidden) {
  const support::ScratchFolder folder;
  for (const char* name : {"config.json", "coxswain_manifest.json", ".gitattributes", "a.json"}) {
    folder.Write(name, "{}");
  }
  EXPECT_EQ(*FilesToPush(folder.path()), (std::vector<std::string>{"a.json", "config.json"}));
}

TEST(PushedFolderTest, RefusesAFolderThatIsNoModel) {
  const support::ScratchFolder folder;
  folder.Write("notes.txt", "mine");
  const absl::Status refused = FilesToPush(folder.path()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("no adapter_config.json and no config.json"), std::string::npos)
      << refused;
}

TEST(PushedFolderTest, TheCardOfAnAdapterNamesItsBase) {
  const support::ScratchFolder folder;
  folder.Write("adapter_config.json", R"({"base_model_name_or_path": "Qwen/Qwen2.5-0.5B"})");
  const std::string card = ModelCard(folder.path());
  EXPECT_EQ(card.find("---\nbase_model: Qwen/Qwen2.5-0.5B\nlibrary_name: peft\n"), 0u) << card;
  EXPECT_EQ(BaseByPath(folder.path()), "");
}

// A path is no id, and tells strangers how this machine is made.
TEST(PushedFolderTest, TheCardNamesNoPath) {
  const support::ScratchFolder folder;
  folder.Write("adapter_config.json", R"({"base_model_name_or_path": "/home/me/base"})");
  EXPECT_EQ(ModelCard(folder.path()).find("/home"), std::string::npos);
  EXPECT_EQ(ModelCard(folder.path()).find("base_model"), std::string::npos);
  EXPECT_EQ(BaseByPath(folder.path()), "/home/me/base");
}

TEST(PushedFolderTest, AModelIsOfTransformers) {
  const support::ScratchFolder folder;
  folder.Write("config.json", "{}");
  EXPECT_EQ(ModelCard(folder.path()).find("---\nlibrary_name: transformers\n"), 0u);
}

}  // namespace
}  // namespace coxswain::exports
