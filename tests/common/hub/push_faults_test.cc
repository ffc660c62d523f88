// PushFolder against a Hub on loopback that refuses, fails and is cut off.
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "common/hub/upload/push.h"
#include "common/hub/upload/push_file.h"
#include "tests/common/hub/hub_fixture.h"

namespace coxswain::hub {
namespace {

constexpr char kFaultToken[] = "hf_TheSecretOfThisTest";
constexpr size_t kFaultWeightBytes = 400'000;

class PushFaultsTest : public testing::Test {
 protected:
  PushFaultsTest() {
    hub_.Put("models/org/other", "config.json", "{}");
    hub_.Start();
    folder_.Write("config.json", "{\"a\": 1}");
    folder_.Write("model.safetensors", Noise(kFaultWeightBytes, 5));
    Change([](support::HubBehaviour* hub) { hub->part_bytes = 100'000; });
  }

  void Change(const std::function<void(support::HubBehaviour*)>& change) {
    hub_.server().Change(change);
  }
  absl::StatusOr<Pushed> PushIt(const std::string& token = kFaultToken,
                                const PushHooks& hooks = {}) const {
    Settings settings = hub_.settings();
    settings.token = *Token::Parse(token, "the test");
    return PushFolder(settings,
                      {.repository = Model("org/new"),
                       .folder = folder_.path(),
                       .files = *FilesOf(folder_.path())},
                      hooks);
  }
  // Pushed whole by one commit.
  void ExpectOneCommit(const absl::StatusOr<Pushed>& pushed) {
    ASSERT_TRUE(pushed.ok()) << pushed.status();
    const std::string branch = hub_.folder() + "/hub/models/org/new/@main/";
    EXPECT_EQ(support::ReadFile(branch + "model.safetensors"),
              support::ReadFile(folder_.path() + "/model.safetensors"));
    EXPECT_EQ(support::ReadFile(branch + "config.json"),
              support::ReadFile(folder_.path() + "/config.json"));
    EXPECT_EQ(pushed->commit, hub_.server().CommitOf("models/org/new"));
    EXPECT_TRUE(pushed->committed);
    EXPECT_EQ(hub_.server().counters().commits, 1);
  }
  // The status of a push, with hub-1: it shows no token.
  absl::Status Refused(const std::string& part, const std::string& token = kFaultToken) {
    const absl::Status status = PushIt(token).status();
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
    EXPECT_EQ(status.message().find(token), std::string::npos) << status;
    EXPECT_EQ(hub_.server().counters().commits, 0);
    return status;
  }

  SmallHub hub_;
  const support::ScratchFolder folder_;
};

TEST_F(PushFaultsTest, AWrongTokenIsRefusedBeforeAnythingIsSent) {
  Change([](support::HubBehaviour* hub) {
    hub->token = "another";
    hub->says_token = true;
  });
  EXPECT_EQ(Refused("does not accept the token").code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(hub_.server().counters().received_bytes, 0);
}

// Invariant hub-9.
TEST_F(PushFaultsTest, ATokenThatMayOnlyReadIsRefusedBeforeAnythingIsSent) {
  Change([](support::HubBehaviour* hub) { hub->may_write = false; });
  EXPECT_EQ(Refused("write permission").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(hub_.server().counters().received_bytes, 0);
}

TEST_F(PushFaultsTest, AServerThatFailsIsAskedAgain) {
  Change([](support::HubBehaviour* hub) {
    hub->fail_api = 3;
    hub->fail_uploads = 3;
  });
  ExpectOneCommit(PushIt());
}

TEST_F(PushFaultsTest, AServerThatStaysAwayIsToldOf) {
  Change([](support::HubBehaviour* hub) { hub->fail_api = 1000; });
  EXPECT_EQ(Refused("it answered 503").code(), absl::StatusCode::kUnavailable);
  Change([](support::HubBehaviour* hub) {
    hub->fail_api = 1000;
    hub->status = 429;
    hub->retry_after = "3600";
  });
  EXPECT_EQ(Refused("asks to wait 3600 s").code(), absl::StatusCode::kUnavailable);
}

TEST_F(PushFaultsTest, AStoreThatStaysAwayIsToldOf) {
  Change([](support::HubBehaviour* hub) { hub->fail_uploads = 1000; });
  EXPECT_EQ(Refused("cannot send model.safetensors").code(), absl::StatusCode::kUnavailable);
}

TEST_F(PushFaultsTest, OnlyThePartOfABrokenConnectionIsSentAgain) {
  Change([](support::HubBehaviour* hub) {
    hub->cut_uploads = 1;
    hub->cut_after = 50'000;
  });
  const absl::StatusOr<Pushed> pushed = PushIt();
  ExpectOneCommit(pushed);
  EXPECT_LE(pushed->sent_bytes, static_cast<int64_t>(kFaultWeightBytes) + 100'000 + 8);
  EXPECT_EQ(hub_.server().counters().uploads, 4);
}

TEST_F(PushFaultsTest, AnAddressThatExpiredIsAskedForAgain) {
  Change([](support::HubBehaviour* hub) { hub->refuse_uploads = 1; });
  ExpectOneCommit(PushIt());
}

TEST_F(PushFaultsTest, AStoreThatRefusesAlwaysEndsThePush) {
  Change([](support::HubBehaviour* hub) { hub->refuse_uploads = 1000; });
  EXPECT_EQ(Refused("the Hub's store does not take it").code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(PushFaultsTest, ACommitWhoseAnswerIsLostIsNotMadeTwice) {
  Change([](support::HubBehaviour* hub) { hub->lose_commits = 1; });
  ExpectOneCommit(PushIt());
}

TEST_F(PushFaultsTest, ACommitOfOthersInBetweenStays) {
  Change([](support::HubBehaviour* hub) { hub->interfere = 2; });
  ExpectOneCommit(PushIt());
  EXPECT_EQ(support::ReadFile(hub_.folder() + "/hub/models/org/new/@main/theirs.txt"),
            "theirs\ntheirs\n");
  Change([](support::HubBehaviour* hub) { hub->interfere = 1000; });
  folder_.Write("config.json", "{\"a\": 2}");
  EXPECT_EQ(PushIt().status().code(), absl::StatusCode::kAborted);
}

TEST_F(PushFaultsTest, TwoAtOnceMakeOneCommit) {
  for (int round = 0; round < 10; ++round) {  // they meet at different times
    folder_.Write("config.json", "{\"a\": " + std::to_string(round) + "}");
    absl::StatusOr<Pushed> first, second;
    std::thread other([&] { first = PushIt(); });
    second = PushIt();
    other.join();
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(first->commit, second->commit);
    EXPECT_EQ(hub_.server().counters().commits, round + 1);
  }
}

TEST_F(PushFaultsTest, WhatCameBeforeACancellationIsNotSentAgain) {
  Change([](support::HubBehaviour* hub) { hub->part_bytes = 0; });
  folder_.Write("model.safetensors", Noise(20 << 20, 5));
  folder_.Write("first.safetensors", Noise(1000, 6));
  Change([](support::HubBehaviour* hub) { hub->hold_received = 1 << 20; });
  const absl::Status stopped =
      PushIt(kFaultToken, {.cancelled = [this] { return hub_.server().counters().uploads >= 1; }})
          .status();
  EXPECT_EQ(stopped.code(), absl::StatusCode::kCancelled) << stopped;
  Change([](support::HubBehaviour* hub) { hub->hold_received = -1; });
  const absl::StatusOr<Pushed> pushed = PushIt();
  ExpectOneCommit(pushed);
  EXPECT_EQ(pushed->sent_bytes, (20 << 20) + 8) << "the small weights were there";
}

// Invariant hub-8.
TEST_F(PushFaultsTest, AFileThatChangesMeanwhileIsNotCommitted) {
  Change([](support::HubBehaviour* hub) { hub->hold_received = 1; });
  bool changed = false;
  const auto change = [&] {
    if (!changed && hub_.server().counters().received_bytes > 0) {
      changed = true;
      folder_.Write("model.safetensors", Noise(kFaultWeightBytes, 9));
      Change([](support::HubBehaviour* hub) { hub->hold_received = -1; });
    }
    return false;
  };
  const absl::Status status = PushIt(kFaultToken, {.cancelled = change}).status();
  EXPECT_TRUE(changed);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_NE(status.message().find("model.safetensors changed"), std::string::npos) << status;
  EXPECT_EQ(hub_.server().counters().commits, 0);
  ExpectOneCommit(PushIt());
}

}  // namespace
}  // namespace coxswain::hub
