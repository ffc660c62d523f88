// cox push, against a Hub on loopback.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "controller/cli/text/exit_code.h"
#include "tests/controller/cli/run_cox.h"
#include "tests/support/hub_server.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

constexpr char kWritingToken[] = "hf_TheSecretOfThisTest";

class PushVerbTest : public testing::Test {
 protected:
  PushVerbTest() {
    std::filesystem::create_directories(folder_.path() + "/hub/models/org/other/@main");
    folder_.Write("hub/models/org/other/@main/config.json", "{}");
    std::filesystem::create_directories(folder_.path() + "/adapter");
    folder_.Write("adapter/adapter_config.json", R"({"base_model_name_or_path": "Qwen/Qwen2.5"})");
    folder_.Write("adapter/adapter_model.safetensors", std::string(5000, 'w'));
    folder_.Write("adapter/coxswain_manifest.json", "{}");
    hub_ = std::make_unique<support::HubServer>(folder_.path() + "/hub");
    setenv("HF_ENDPOINT", hub_->endpoint().c_str(), 1);
    setenv("HF_HOME", (folder_.path() + "/hf").c_str(), 1);
    setenv("HF_TOKEN", kWritingToken, 1);
  }
  ~PushVerbTest() override {
    for (const char* name : {"HF_ENDPOINT", "HF_HOME", "HF_TOKEN"}) unsetenv(name);
  }
  Ran Push(std::vector<std::string> more = {}, const std::string& id = "org/tuned") const {
    more.insert(more.begin(), {"push", folder_.path() + "/adapter", id});
    return RunInProcess(more);
  }
  std::string There(const std::string& path) const {
    return support::ReadFile(folder_.path() + "/hub/models/org/tuned/@main/" + path);
  }

  const support::ScratchFolder folder_;
  std::unique_ptr<support::HubServer> hub_;
};

bool SaysOfPush(const Ran& ran, const std::string& part) {
  return (ran.out + ran.err).find(part) != std::string::npos;
}

TEST_F(PushVerbTest, PrintsTheCommitAndOnStderrWhatWasSent) {
  const Ran ran = Push();
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(ran.out,
            hub_->endpoint() + "/org/tuned/commit/" + hub_->CommitOf("models/org/tuned") + "\n");
  EXPECT_TRUE(SaysOfPush(ran, "3 files, of which 5.")) << ran.err;
  EXPECT_EQ(There("adapter_model.safetensors"), std::string(5000, 'w'));
  EXPECT_EQ(There("README.md").find("---\nbase_model: Qwen/Qwen2.5\nlibrary_name: peft\n"), 0u);
  EXPECT_EQ(There("coxswain_manifest.json"), "") << "it tells of this disk";
  const Ran again = Push({"--progress", "none"});
  EXPECT_EQ(again.out, ran.out);
  EXPECT_EQ(again.err, "");
  EXPECT_TRUE(SaysOfPush(Push(), "it had them all"));
  EXPECT_EQ(hub_->counters().commits, 1);
}

TEST_F(PushVerbTest, AsJson) {
  const Ran ran = Push({"-o", "json", "--revision", "v2", "--message", "Second"});
  EXPECT_EQ(ran.code, kOk) << ran.err;
  const nlohmann::json said = nlohmann::json::parse(ran.out);
  EXPECT_EQ(said.at("repository"), "org/tuned");
  EXPECT_EQ(said.at("revision"), "v2");
  EXPECT_EQ(said.at("commit"), hub_->CommitOf("models/org/tuned", "v2"));
  EXPECT_EQ(said.at("committed"), true);
}

TEST_F(PushVerbTest, OnlyPublicGoesToWhatIsPublic) {
  const Ran refused = Push({}, "org/other");
  EXPECT_EQ(refused.code, kFailed);
  EXPECT_TRUE(SaysOfPush(refused, "is public")) << refused.err;
  EXPECT_EQ(Push({"--public"}, "org/other").code, kOk);
  EXPECT_EQ(Push({"--public", "--private"}).code, kUsage);
}

TEST_F(PushVerbTest, ExitCodesSayWhatWasWrong) {
  EXPECT_EQ(RunInProcess({"push", folder_.path() + "/adapter"}).code, kUsage);
  EXPECT_EQ(Push({}, "tuned").code, kUsage);
  EXPECT_EQ(RunInProcess({"push", folder_.path() + "/none", "org/tuned"}).code, kNotFound);
  EXPECT_EQ(RunInProcess({"push", folder_.path() + "/hub", "org/tuned"}).code, kUsage);
}

// Invariant hub-1.
TEST_F(PushVerbTest, ATokenThatMayNotWriteIsRefusedAndNotShown) {
  hub_->Change([](support::HubBehaviour* hub) {
    hub->may_write = false;
    hub->says_token = true;
  });
  const Ran ran = Push();
  EXPECT_EQ(ran.code, kUnreachable);
  EXPECT_TRUE(SaysOfPush(ran, "take one with write permission")) << ran.err;
  EXPECT_FALSE(SaysOfPush(ran, kWritingToken));
  unsetenv("HF_TOKEN");
  EXPECT_TRUE(SaysOfPush(Push(), "needs a token with write permission: HF_TOKEN"));
}

TEST_F(PushVerbTest, SaysWhenOthersCannotLoadTheAdapter) {
  folder_.Write("adapter/adapter_config.json", R"({"base_model_name_or_path": "/home/me/base"})");
  EXPECT_TRUE(SaysOfPush(Push(), "names the base by a path of this machine, /home/me/base"));
}

}  // namespace
}  // namespace coxswain::cli
