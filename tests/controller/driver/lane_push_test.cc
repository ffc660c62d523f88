// What the lane of exports sends to the Hub: the export that the job made, and no other.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "controller/driver/preparation/lane_work.h"
#include "controller/folders/seal_folder.h"
#include "tests/support/hub_server.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::driver {
namespace {

class LanePushTest : public testing::Test {
 protected:
  LanePushTest() {
    std::filesystem::create_directories(folder_.path() + "/hub");
    std::filesystem::create_directories(folder_.path() + "/out/model");
    folder_.Write("out/model/config.json", "{}");
    folder_.Write("out/model/model.safetensors", std::string(4000, 'w'));
    digest_ = *SealFolder(&files_, folder_.path() + "/out/model", {.job = "j-1", .step = 12});
    hub_ = std::make_unique<support::HubServer>(folder_.path() + "/hub");
    setenv("HF_ENDPOINT", hub_->endpoint().c_str(), 1);
    setenv("HF_HOME", (folder_.path() + "/hf").c_str(), 1);
    setenv("HF_TOKEN", "hf_TheSecretOfThisTest", 1);
  }
  ~LanePushTest() override {
    for (const char* name : {"HF_ENDPOINT", "HF_HOME", "HF_TOKEN"}) unsetenv(name);
  }
  absl::StatusOr<PushedTo> Push(
      const std::function<bool()>& cancelled = [] { return false; },
      const std::string& owner = "") {
    return work_.push({.to = {.repo = "org/tuned", .is_private = true, .revision = "main"},
                       .directory = folder_.path() + "/out/model",
                       .digest = digest_,
                       .job = "tune",
                       .owner = owner,
                       .cancelled = cancelled});
  }
  std::string There(const std::string& path) const {
    return support::ReadFile(folder_.path() + "/hub/models/org/tuned/@main/" + path);
  }

  const support::ScratchFolder folder_;
  DiskFiles files_;
  const LaneWork work_ = MakeLaneWork(folder_.path() + "/cache", &files_);
  std::string digest_;
  std::unique_ptr<support::HubServer> hub_;
};

TEST_F(LanePushTest, SendsWhatTheManifestNamesAndACard) {
  folder_.Write("out/model/notes.txt", "of somebody");
  const absl::StatusOr<PushedTo> pushed = Push();
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(pushed->commit, hub_->CommitOf("models/org/tuned"));
  EXPECT_EQ(There("model.safetensors"), std::string(4000, 'w'));
  EXPECT_EQ(There("README.md").find("---\nlibrary_name: transformers\n"), 0u);
  EXPECT_EQ(There("notes.txt"), "");
  EXPECT_EQ(There("coxswain_manifest.json"), "");
  EXPECT_EQ(Push()->sent_bytes, 0);
  EXPECT_EQ(hub_->counters().commits, 1);
}

TEST_F(LanePushTest, RefusesTheExportOfAnother) {
  ASSERT_TRUE(SealFolder(&files_, folder_.path() + "/out/model", {.job = "j-2", .step = 3}).ok());
  const absl::Status refused = Push().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(refused.message().find("holds the export of job j-2 by now"), std::string::npos)
      << refused;
  EXPECT_EQ(hub_->counters().api, 0);
}

TEST_F(LanePushTest, TheTokenOfTheControllerServesOperatorsAlone) {
  const absl::Status refused = Push([] { return false; }, "alice").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated) << refused;
  EXPECT_EQ(hub_->counters().tokens, 0);
}

TEST_F(LanePushTest, EndsSoonWhenItIsCancelled) {
  EXPECT_EQ(Push([] { return true; }).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace coxswain::driver
