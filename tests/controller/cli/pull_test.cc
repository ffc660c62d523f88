// cox pull, against a Hub on loopback.
#include <cstdlib>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "controller/cli/text/clean_stream.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/pull_view.h"
#include "controller/cli/text/status_line.h"
#include "tests/controller/cli/run_cox.h"
#include "tests/support/hub_server.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

constexpr char kToken[] = "hf_TheSecretOfThisTest";

class PullTest : public testing::Test {
 protected:
  PullTest() {
    for (const char* folder : {"hub/models/org/tiny/@main", "hub/models/org/tiny/@v1"}) {
      std::filesystem::create_directories(folder_.path() + "/" + folder);
      folder_.Write(std::string(folder) + "/config.json", "{}");
      folder_.Write(std::string(folder) + "/model.safetensors", std::string(5000, 'w'));
    }
    folder_.Write("hub/models/org/tiny/@v1/tokenizer.json", "{}");
    hub_ = std::make_unique<support::HubServer>(folder_.path() + "/hub");
    setenv("HF_ENDPOINT", hub_->endpoint().c_str(), 1);
    setenv("HF_HOME", (folder_.path() + "/hf").c_str(), 1);
  }
  ~PullTest() override {
    for (const char* name : {"HF_ENDPOINT", "HF_HOME", "HF_TOKEN"}) unsetenv(name);
  }
  std::string Snapshot(const std::string& revision = "main") const {
    return folder_.path() + "/hf/hub/models--org--tiny/snapshots/" +
           hub_->CommitOf("models/org/tiny", revision);
  }

  const support::ScratchFolder folder_;
  std::unique_ptr<support::HubServer> hub_;
};

bool PullSays(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(PullTest, PrintsTheFolderAndOnStderrWhatCame) {
  const Ran ran = RunInProcess({"pull", "org/tiny"});
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(ran.out, Snapshot() + "\n");
  EXPECT_TRUE(PullSays(ran.err, "org/tiny 0% 0 B/4.88 KiB\n")) << ran.err;
  EXPECT_TRUE(PullSays(ran.err, "2 files, 4.88 KiB, of which 4.88 KiB were downloaded now"))
      << ran.err;
  EXPECT_FALSE(PullSays(ran.err, "\r")) << "redrawn without a terminal";
  const Ran again = RunInProcess({"pull", "org/tiny", "--progress", "none"});
  EXPECT_EQ(again.out, ran.out);
  EXPECT_EQ(again.err, "");
  const Ran other = RunInProcess({"pull", "org/tiny", "--revision", "v1", "--include", "tok*"});
  EXPECT_EQ(other.out, Snapshot("v1") + "\n");
  EXPECT_FALSE(std::filesystem::exists(Snapshot("v1") + "/config.json"));
}

TEST_F(PullTest, ExitCodesSayWhatWasWrong) {
  EXPECT_EQ(RunInProcess({"pull"}).code, kUsage);
  EXPECT_EQ(RunInProcess({"pull", "../tiny"}).code, kUsage);
  EXPECT_EQ(RunInProcess({"pull", "org/none"}).code, kNotFound);
  EXPECT_EQ(RunInProcess({"pull", "org/tiny", "--dataset"}).code, kNotFound);
  EXPECT_EQ(RunInProcess({"pull", "org/tiny", "--include", "*.gguf"}).code, kNotFound);
  setenv("HF_ENDPOINT", "ftp://hub", 1);
  EXPECT_EQ(RunInProcess({"pull", "org/tiny"}).code, kUsage);
}

// Invariant hub-1.
TEST_F(PullTest, AWrongTokenIsRefusedAndNotShown) {
  hub_->Change([](support::HubBehaviour* hub) {
    hub->token = "another";
    hub->says_token = true;
  });
  setenv("HF_TOKEN", kToken, 1);
  const Ran ran = RunInProcess({"pull", "org/tiny"});
  EXPECT_EQ(ran.code, kUnreachable);
  EXPECT_TRUE(PullSays(ran.err, "does not accept the token")) << ran.err;
  EXPECT_FALSE(PullSays(ran.out + ran.err, kToken)) << ran.err;
  unsetenv("HF_TOKEN");
  EXPECT_TRUE(PullSays(RunInProcess({"pull", "org/tiny"}).err, "give a token: HF_TOKEN"));
}

TEST_F(PullTest, WithoutTheHubItIsWhatTheCacheHas) {
  ASSERT_EQ(RunInProcess({"pull", "org/tiny"}).code, kOk);
  setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
  const Ran ran = RunInProcess({"pull", "org/tiny"});
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(ran.out, Snapshot() + "\n");
  EXPECT_TRUE(PullSays(ran.err, "what the cache has is taken")) << ran.err;
}

TEST(PullViewTest, TheBarGivesWayFirst) {
  const hub::Progress half{
      .bytes = 50 << 20, .bytes_total = 100 << 20, .bytes_per_second = 10 << 20};
  EXPECT_EQ(DownloadLine("org/tiny", half, 80),
            "org/tiny [###########           ] 50% 50.0 MiB/100.0 MiB 10.0 MiB/s 5s left");
  EXPECT_EQ(DownloadLine("org/tiny", half, 52),
            "org/tiny 50% 50.0 MiB/100.0 MiB 10.0 MiB/s 5s left");
  EXPECT_EQ(DownloadLine("org/tiny", half, 20), "org/tiny 50% 50.0 Mi");
  hub::Progress waits = half;
  waits.waits = true;
  EXPECT_TRUE(PullSays(DownloadLine("a", waits, 100), "waits for another process"))
      << "says why it stands";
}

TEST(PullViewTest, ATerminalGetsOneLineAndOthersOneAWhile) {
  std::ostringstream raw;
  CleanStream err(&raw);
  Terminal terminal;
  terminal.err = &err;
  const hub::Progress progress{.bytes = 1, .bytes_total = 2};
  PullView bar(terminal, ProgressMode::kBar, "a");
  bar.Show(progress, 0);
  bar.Show(progress, 1);
  bar.Close();
  EXPECT_EQ(raw.str(), "\ra [###########           ] 50% 1 B/2 B\033[K\n");
  raw.str("");
  PullView plain(terminal, ProgressMode::kPlain, "a");
  for (const int64_t ms : {1, 2, 5000, 5001, 5002}) plain.Show(progress, ms);
  EXPECT_EQ(raw.str(), "a 50% 1 B/2 B\na 50% 1 B/2 B\n");
}

}  // namespace
}  // namespace coxswain::cli
