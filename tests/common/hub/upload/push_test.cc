// PushFolder against a Hub on loopback: what is made, sent, left alone, and not sent again.
#include "common/hub/upload/push.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/hub/download.h"
#include "common/hub/upload/push_file.h"
#include "tests/common/hub/hub_fixture.h"

namespace coxswain::hub {
namespace {

constexpr char kPushToken[] = "hf_TheSecretOfThisTest";
constexpr size_t kPushedWeightBytes = 300'001;

// A Hub, and a folder that is pushed to it.
class PushTest : public testing::Test {
 protected:
  PushTest() {
    hub_.Put("models/org/other", "config.json", "{}");
    hub_.Start();
    Write("config.json", R"({"model_type": "tiny"})");
    Write("tokenizer.json", Noise(2000, 4));
    Write("model.safetensors", Noise(kPushedWeightBytes, 5));
    Write("sub/more.safetensors", Noise(1000, 6));
    Write("empty.bin", "");
  }

  void Write(const std::string& path, std::string_view bytes) {
    std::filesystem::create_directories(
        std::filesystem::path(folder_.path() + "/" + path).parent_path());
    folder_.Write(path, bytes);
  }
  Settings PushSettings() const {
    Settings settings = hub_.settings();
    settings.token = *Token::Parse(kPushToken, "the test");
    return settings;
  }
  PushRequest Request(const std::string& id = "org/new",
                      const std::string& revision = kDefaultRevision) const {
    return {.repository = Model(id, revision),
            .folder = folder_.path(),
            .files = *FilesOf(folder_.path())};
  }
  absl::StatusOr<Pushed> PushIt(const PushRequest& request) const {
    return PushFolder(PushSettings(), request, {});
  }
  std::string There(const std::string& path, const std::string& id = "org/new",
                    const std::string& revision = "main") const {
    return support::ReadFile(hub_.folder() + "/hub/models/" + id + "/@" + revision + "/" + path);
  }
  void ExpectThere(const std::string& id = "org/new", const std::string& revision = "main") const {
    const std::vector<std::string> paths = *FilesOf(folder_.path());
    for (const std::string& path : paths) {
      EXPECT_EQ(There(path, id, revision), support::ReadFile(folder_.path() + "/" + path)) << path;
    }
  }
  support::HubCounters Counted() { return hub_.server().counters(); }

  SmallHub hub_;
  const support::ScratchFolder folder_;
};

TEST_F(PushTest, MakesAPrivateRepositoryWithOneCommit) {
  std::vector<Progress> told;
  const absl::StatusOr<Pushed> pushed = PushFolder(
      PushSettings(), Request(), {.progress = [&](const Progress& at) { told.push_back(at); }});
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  ExpectThere();
  EXPECT_EQ(pushed->commit, hub_.server().CommitOf("models/org/new"));
  EXPECT_EQ(pushed->url, hub_.server().endpoint() + "/org/new/commit/" + pushed->commit);
  EXPECT_TRUE(pushed->committed);
  EXPECT_EQ(pushed->files, 5);
  EXPECT_TRUE(std::filesystem::exists(hub_.folder() + "/hub/models/org/new/.private"));
  EXPECT_EQ(Counted().commits, 1);
  EXPECT_EQ(Counted().strayed_tokens, 0) << "hub-2";
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().bytes, told.back().bytes_total);
  EXPECT_EQ(told.back().files, 5);
}

// Invariant hub-7.
TEST_F(PushTest, ASecondPushSendsAndCommitsNothing) {
  const absl::StatusOr<Pushed> first = PushIt(Request());
  ASSERT_TRUE(first.ok()) << first.status();
  const support::HubCounters before = Counted();
  const absl::StatusOr<Pushed> second = PushIt(Request());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->commit, first->commit);
  EXPECT_FALSE(second->committed);
  EXPECT_EQ(second->sent_bytes, 0);
  EXPECT_EQ(Counted().commits, before.commits);
  EXPECT_EQ(Counted().received_bytes, before.received_bytes);
}

TEST_F(PushTest, AChangedFileIsSentAlone) {
  ASSERT_TRUE(PushIt(Request()).ok());
  Write("config.json", R"({"model_type": "other"})");
  const int64_t received = Counted().received_bytes;
  const absl::StatusOr<Pushed> pushed = PushIt(Request());
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(Counted().received_bytes, received);
  EXPECT_EQ(Counted().commits, 2);
  ExpectThere();
}

TEST_F(PushTest, WhatAnotherRepositoryHasIsNotSent) {
  ASSERT_TRUE(PushIt(Request()).ok());
  const int64_t received = Counted().received_bytes;
  ASSERT_TRUE(PushIt(Request("org/second")).ok());
  EXPECT_EQ(Counted().received_bytes, received);
  ExpectThere("org/second");
}

TEST_F(PushTest, OtherFilesOfARepositoryStay) {
  hub_.Put("models/org/other", "notes.txt", "mine");
  hub_.server().Load();
  PushRequest request = Request("org/other");
  request.is_private = false;
  ASSERT_TRUE(PushIt(request).ok());
  ExpectThere("org/other");
  EXPECT_EQ(There("notes.txt", "org/other"), "mine");
}

// Invariant hub-9.
TEST_F(PushTest, APublicRepositoryIsNotTakenForAPrivateOne) {
  const absl::Status refused = PushIt(Request("org/other")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("is public"), std::string::npos) << refused;
  EXPECT_EQ(Counted().received_bytes, 0);
}

TEST_F(PushTest, ABranchIsMade) {
  const absl::StatusOr<Pushed> pushed = PushIt(Request("org/new", "v2"));
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  ExpectThere("org/new", "v2");
  EXPECT_EQ(There("config.json"), "") << "main stays as it was";
}

TEST_F(PushTest, LargeContentsComeInParts) {
  hub_.server().Change([](support::HubBehaviour* hub) { hub->part_bytes = 64 << 10; });
  ASSERT_TRUE(PushIt(Request()).ok());
  ExpectThere();
  EXPECT_EQ(Counted().uploads, 5 + 1) << "five parts, and the small one";
}

TEST_F(PushTest, ACardIsMadeWhereThereIsNone) {
  PushRequest request = Request();
  request.card = "made";
  ASSERT_TRUE(PushIt(request).ok());
  EXPECT_EQ(There("README.md"), "made");
  request.card = "made anew";
  const absl::StatusOr<Pushed> again = PushIt(request);
  EXPECT_FALSE(again->committed);
  EXPECT_EQ(There("README.md"), "made") << "what the repository has stays";
  Write("README.md", "the folder's");
  request.files = *FilesOf(folder_.path());
  ASSERT_TRUE(PushIt(request).ok());
  EXPECT_EQ(There("README.md"), "the folder's");
}

TEST_F(PushTest, WhatTheRepositoryIgnoresIsTold) {
  hub_.Put("models/org/other", ".gitignore", "tokenizer.json\n");
  hub_.server().Load();
  PushRequest request = Request("org/other");
  request.is_private = false;
  const absl::StatusOr<Pushed> pushed = PushIt(request);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(pushed->ignored, std::vector<std::string>{"tokenizer.json"});
  EXPECT_EQ(There("tokenizer.json", "org/other"), "");
}

TEST_F(PushTest, PullFindsWhatWasPushed) {
  const absl::StatusOr<Pushed> pushed = PushIt(Request());
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  const absl::StatusOr<Snapshot> snapshot =
      Download(PushSettings(), Model("org/new"), pushed->commit, {.include = {"*"}});
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  for (const std::string& path : Request().files) {
    EXPECT_EQ(support::ReadFile(snapshot->path + "/" + path),
              support::ReadFile(folder_.path() + "/" + path))
        << path;
  }
}

TEST_F(PushTest, RefusesWhatCannotBePushed) {
  EXPECT_EQ(PushIt(Request("gpt2")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PushIt(Request("org/new", std::string(40, 'a'))).status().code(),
            absl::StatusCode::kInvalidArgument);
  PushRequest none = Request();
  none.files.clear();
  EXPECT_EQ(PushIt(none).status().code(), absl::StatusCode::kInvalidArgument);
  Settings settings = PushSettings();
  settings.offline = true;
  EXPECT_EQ(PushFolder(settings, Request(), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PushFolder(hub_.settings(), Request(), {}).status().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Counted().api, 0);
}

TEST_F(PushTest, HiddenFilesAndLinksAreNotPushed) {
  Write(".git/config", "secret");
  Write(".env", "secret");
  EXPECT_EQ(*FilesOf(folder_.path()),
            (std::vector<std::string>{"config.json", "empty.bin", "model.safetensors",
                                      "sub/more.safetensors", "tokenizer.json"}));
  std::filesystem::create_symlink("/etc/hostname", folder_.path() + "/name");
  const absl::Status refused = FilesOf(folder_.path()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("is a link"), std::string::npos) << refused;
  EXPECT_EQ(PushFile::OnDisk(folder_.path(), "name").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace coxswain::hub
