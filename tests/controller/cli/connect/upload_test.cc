// cox upload, against a controller in this process.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/files/hash.h"
#include "controller/cli/text/exit_code.h"
#include "controller/server.h"
#include "controller/uploads/upload_path.h"
#include "tests/controller/cli/run_cox.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

class UploadTest : public testing::Test {
 protected:
  UploadTest() {
    setenv("COXSWAIN_RUNTIME_DIR", (folder_.path() + "/run").c_str(), 1);
    flags_.listen = "127.0.0.1:0";
    flags_.metrics = "";
    flags_.state_dir = folder_.path() + "/state";
    flags_.endpoint_file = folder_.path() + "/endpoint.json";
    Start();
  }
  ~UploadTest() override { unsetenv("COXSWAIN_RUNTIME_DIR"); }
  void Start() {
    server_ = nullptr;
    auto server = Server::Start(flags_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    std::ifstream in(flags_.endpoint_file);
    address_ = nlohmann::json::parse(in).at("grpc");
  }
  Ran RunUpload(std::vector<std::string> args) {
    args.insert(args.begin(), "upload");
    args.insert(args.end(), {"--server", address_});
    return RunInProcess(args);
  }
  std::string UploadPath() const { return "upload://" + ToHex(Sha256(content_)) + "/train.jsonl"; }
  // What an upload that was interrupted leaves.
  void LeavePart(int64_t bytes) {
    const std::string folder = uploads::OwnerFolder(uploads::UploadsFolder(flags_.state_dir), "");
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + ToHex(Sha256(content_)) + ".incomplete")
        << content_.substr(0, bytes);
  }

  const support::ScratchFolder folder_;
  const std::string content_ = std::string(3 << 20, 'r') + "end";
  const std::string file_ = folder_.Write("train.jsonl", content_);
  Flags flags_;
  std::unique_ptr<Server> server_;
  std::string address_;
};

bool UploadSays(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(UploadTest, PrintsWhatAJobWritesAndOnStderrWhatWasSent) {
  const Ran ran = RunUpload({file_});
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(ran.out, UploadPath() + "\n");
  EXPECT_TRUE(UploadSays(ran.err, "3.00 MiB, of which 3.00 MiB were sent now\n")) << ran.err;
  const auto stored = uploads::ResolveUpload(flags_.state_dir, "", UploadPath());
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(support::ReadFile(*stored), content_);

  const Ran again = RunUpload({file_, "-o", "json"});
  EXPECT_EQ(again.code, kOk) << again.err;
  const auto told = nlohmann::json::parse(again.out);
  EXPECT_EQ(told["path"], UploadPath());
  EXPECT_EQ(told["sha256"], ToHex(Sha256(content_)));
  EXPECT_EQ(told["bytes"], content_.size());
  EXPECT_EQ(told["sent_bytes"], 0);
}

TEST_F(UploadTest, TheSameCommandGoesOn) {
  LeavePart(2 << 20);
  Start();
  const Ran ran = RunUpload({file_, "-o", "json", "--progress", "none"});
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(nlohmann::json::parse(ran.out)["sent_bytes"], (1 << 20) + 3);
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(support::ReadFile(*uploads::ResolveUpload(flags_.state_dir, "", UploadPath())),
            content_);
}

TEST_F(UploadTest, TwoAtOnceBothEndWell) {
  Ran first, second;
  std::thread other([&] { second = RunUpload({file_}); });
  first = RunUpload({file_});
  other.join();
  EXPECT_EQ(first.code, kOk) << first.err;
  EXPECT_EQ(second.code, kOk) << second.err;
  EXPECT_EQ(first.out, second.out);
}

TEST_F(UploadTest, ExitCodesSayWhatWasWrong) {
  EXPECT_EQ(RunUpload({}).code, kUsage);
  EXPECT_EQ(RunUpload({folder_.path() + "/none"}).code, kNotFound);
  EXPECT_EQ(RunUpload({folder_.path()}).code, kUsage) << "a folder";
  EXPECT_EQ(RunUpload({folder_.Write("empty", "")}).code, kUsage);
  EXPECT_EQ(RunInProcess({"upload", file_, "--server", "127.0.0.1:1"}).code, kUnreachable);
  flags_.upload_gib = 0;
  Start();
  const Ran full = RunUpload({file_});
  EXPECT_EQ(full.code, kFailed);
  EXPECT_TRUE(UploadSays(full.err, "--upload-gib")) << full.err;
}

// A part that was damaged on the disk is found, and the next attempt begins anew.
TEST_F(UploadTest, ADamagedPartIsLostAndSaidSo) {
  const std::string folder = uploads::OwnerFolder(uploads::UploadsFolder(flags_.state_dir), "");
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/" + ToHex(Sha256(content_)) + ".incomplete")
      << std::string(1 << 20, 'x');
  const Ran lost = RunUpload({file_});
  EXPECT_EQ(lost.code, kFailed);
  EXPECT_TRUE(UploadSays(lost.err, "upload it again")) << lost.err;
  EXPECT_EQ(RunUpload({file_}).code, kOk);
}

}  // namespace
}  // namespace coxswain::cli
