#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "common/hub/api/http_calls.h"
#include "common/hub/api/hub_failure.h"
#include "common/hub/api/repository_listing.h"
#include "common/hub/api/retries.h"
#include "tests/common/hub/hub_fixture.h"
#include "tests/support/hub_repositories.h"

namespace coxswain::hub {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;
using support::HubBehaviour;

constexpr char kToken[] = "hf_TheSecretOfThisTest";

bool Holds(const absl::Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

class HubApiTest : public testing::Test {
 protected:
  HubApiTest() {
    hub_.PutModel();
    hub_.Start();
  }
  Settings WithToken(const std::string& token = kToken) const {
    Settings settings = hub_.settings();
    settings.token = *Token::Parse(token, "HF_TOKEN");
    return settings;
  }
  void Change(const std::function<void(HubBehaviour*)>& change) { hub_.server().Change(change); }

  struct Got {
    HttpEnd end;
    std::string body;
  };
  // One call, as it ends.
  static Got Get(const Settings& settings, HttpCall call) {
    Got got;
    const std::unique_ptr<HttpCalls> calls = *HttpCalls::Make(settings);
    call.on_bytes = [&](std::string_view bytes) {
      got.body.append(bytes);
      return absl::OkStatus();
    };
    call.on_end = [&](const HttpEnd& end) { got.end = end; };
    calls->Start(std::move(call));
    while (calls->running() > 0) EXPECT_TRUE(calls->Wait(milliseconds(100)).ok());
    return got;
  }
  std::string UrlOf(const std::string& path) {
    return FileUrl(hub_.settings().endpoint, Model(), hub_.server().CommitOf("models/org/tiny"),
                   path);
  }

  SmallHub hub_;
};

TEST_F(HubApiTest, ARevisionIsACommitAndItsFilesComeInPages) {
  const std::string commit = hub_.server().CommitOf("models/org/tiny");
  EXPECT_EQ(*AskCommit(hub_.settings(), Model()), commit);
  EXPECT_EQ(*AskCommit(hub_.settings(), Model("org/tiny", commit)), commit);
  for (const int entries : {1000, 2, 1}) {
    Change([&](HubBehaviour* hub) { hub->page_entries = entries; });
    const std::vector<HubFile> files = *AskFiles(hub_.settings(), Model(), commit);
    ASSERT_EQ(files.size(), 5u) << entries;
    EXPECT_EQ(files[1],
              (HubFile{.path = "config.json", .bytes = 2, .etag = support::GitBlobHash("{}")}));
    EXPECT_EQ(files[2].path, "model.onnx");
    EXPECT_EQ(files[3].bytes, static_cast<int64_t>(SmallHub::kWeightBytes));
    EXPECT_EQ(files[3].etag.size(), 64u);
  }
}

// Invariant hub-6.
TEST_F(HubApiTest, PathsThatLeadAwayAreRefused) {
  const std::string commit = hub_.server().CommitOf("models/org/tiny");
  for (const std::string& path :
       {std::string("../x"), std::string("a/../../x"), std::string("/etc/x"), std::string("a//b"),
        std::string("./x"), std::string("a/"), std::string("a\0b", 3), std::string(256, 'a')}) {
    Change([&](HubBehaviour* hub) { hub->path = path; });
    const absl::Status status = AskFiles(hub_.settings(), Model(), commit).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << path;
    EXPECT_TRUE(Holds(status, "refused")) << status;
  }
  for (const char* path : {"a", "a/b.c", "..a/b..", ".gitattributes"}) {
    EXPECT_TRUE(CheckPath(path).ok()) << path;
  }
}

TEST_F(HubApiTest, AnswersThatAreNoneAreSaidInASentence) {
  const auto code = [&](const Settings& settings, const Repository& repository) {
    return AskCommit(settings, repository).status();
  };
  const absl::Status repository = code(hub_.settings(), Model("org/none"));
  EXPECT_EQ(repository.code(), StatusCode::kNotFound);
  EXPECT_TRUE(Holds(repository, "model org/none does not exist")) << repository;
  const absl::Status revision = code(hub_.settings(), Model("org/tiny", "v9"));
  EXPECT_EQ(revision.code(), StatusCode::kNotFound);
  EXPECT_TRUE(Holds(revision, "no revision v9")) << revision;
  const Got file = Get(hub_.settings(), {.url = UrlOf("none.json")});
  const absl::Status none = FailureOf(file.end, hub_.settings(), Model(), "none.json");
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_TRUE(Holds(none, "none.json of model org/tiny does not exist")) << none;
}

TEST_F(HubApiTest, WithoutTheRightTokenTheMessageSaysWhatToDo) {
  Change([](HubBehaviour* hub) { hub->token = kToken; });
  const absl::Status nobody = AskCommit(hub_.settings(), Model()).status();
  EXPECT_EQ(nobody.code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(Holds(nobody, "HF_TOKEN")) << nobody;
  const absl::Status wrong = AskCommit(WithToken("hf_wrong"), Model()).status();
  EXPECT_EQ(wrong.code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(Holds(wrong, "does not accept the token")) << wrong;
  EXPECT_TRUE(AskCommit(WithToken(), Model()).ok());

  Change([](HubBehaviour* hub) { hub->gated = true; });
  const Got gated = Get(WithToken(), {.url = UrlOf("config.json")});
  const absl::Status status = FailureOf(gated.end, WithToken(), Model(), "config.json");
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(Holds(status, "accept the conditions at " + hub_.settings().endpoint + "/org/tiny"))
      << status;
}

// Invariant hub-1.
TEST_F(HubApiTest, AServerThatRepeatsTheTokenDoesNotBringItIntoAMessage) {
  Change([](HubBehaviour* hub) {
    hub->token = "another";
    hub->says_token = true;
  });
  const absl::Status status = AskCommit(WithToken(), Model()).status();
  EXPECT_TRUE(Holds(status, "You sent: Bearer [token]")) << status;
  EXPECT_FALSE(Holds(status, kToken)) << status;
}

// Invariant hub-2.
TEST_F(HubApiTest, TheTokenIsSentToTheEndpointAndNotWhereItLeads) {
  Change([](HubBehaviour* hub) { hub->token = kToken; });
  const Got weights = Get(WithToken(), {.url = UrlOf("model.safetensors")});
  EXPECT_TRUE(weights.end.ok()) << weights.end.failure << weights.end.head.status;
  EXPECT_EQ(weights.body, Noise(SmallHub::kWeightBytes, 2));
  EXPECT_EQ(hub_.server().counters().cdn, 1);
  EXPECT_EQ(hub_.server().counters().strayed_tokens, 0);
  // A redirect within the endpoint brings it again.
  EXPECT_EQ(Get(WithToken(), {.url = UrlOf("config.json")}).body, "{}");
  EXPECT_EQ(hub_.server().counters().tokens, 3);
}

TEST_F(HubApiTest, ARangeIsWhatItSays) {
  const std::string weights = Noise(SmallHub::kWeightBytes, 2);
  const Got part = Get(hub_.settings(), {.url = UrlOf("model.safetensors"), .begin = 7, .end = 99});
  EXPECT_EQ(part.end.head.status, 206);
  EXPECT_EQ(part.body, weights.substr(7, 92));
  Change([](HubBehaviour* hub) { hub->no_ranges = true; });
  const Got whole =
      Get(hub_.settings(), {.url = UrlOf("model.safetensors"), .begin = 7, .end = 99});
  EXPECT_EQ(whole.end.head.status, 200);
  EXPECT_EQ(whole.body, weights);
}

TEST_F(HubApiTest, ABodyThatIsCutShortIsAFailure) {
  Change([](HubBehaviour* hub) {
    hub->cut = 1;
    hub->cut_after = 1000;
  });
  const Got cut = Get(hub_.settings(), {.url = UrlOf("model.safetensors")});
  EXPECT_FALSE(cut.end.ok());
  EXPECT_EQ(cut.body.size(), 1000u);
  EXPECT_EQ(FailureOf(cut.end, hub_.settings(), Model(), "").code(), StatusCode::kUnavailable);
}

TEST_F(HubApiTest, WhatPassesIsTriedAgain) {
  for (const int status : {500, 502, 503, 429, 408}) {
    Change([&](HubBehaviour* hub) {
      hub->fail_api = 3;
      hub->status = status;
    });
    EXPECT_TRUE(AskCommit(hub_.settings(), Model()).ok()) << status;
  }
  Change([](HubBehaviour* hub) { hub->fail_api = 4; });
  const absl::Status last = AskCommit(hub_.settings(), Model()).status();
  EXPECT_EQ(last.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Holds(last, "answered 408")) << last;
}

TEST_F(HubApiTest, AServerThatAsksForTooMuchPatienceIsNotWaitedFor) {
  for (const bool by_rate_limit : {false, true}) {
    Change([&](HubBehaviour* hub) {
      hub->fail_api = 1;
      hub->status = 429;
      hub->retry_after = by_rate_limit ? "" : "3600";
      hub->rate_limit = by_rate_limit ? "\"api\";r=0;t=3600" : "";
    });
    const absl::Status status = AskCommit(hub_.settings(), Model()).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_TRUE(Holds(status, "it asks to wait 3600 s")) << status;
  }
}

TEST_F(HubApiTest, AnEndpointThatIsNotThereIsNamed) {
  Settings settings = hub_.settings();
  settings.endpoint = "http://127.0.0.1:1";
  const absl::Status status = AskCommit(settings, Model()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Holds(status, "http://127.0.0.1:1/")) << status;
  EXPECT_TRUE(Holds(status, "HF_ENDPOINT")) << status;
}

TEST_F(HubApiTest, ACancellationEndsTheWait) {
  Settings settings = hub_.settings();
  settings.limits.first_delay = std::chrono::hours(1);
  settings.limits.longest_delay = std::chrono::hours(1);
  Change([](HubBehaviour* hub) { hub->fail_api = 100; });
  const auto asked = [&] { return hub_.server().counters().api > 0; };
  EXPECT_EQ(AskCommit(settings, Model(), asked).status().code(), StatusCode::kCancelled);
}

TEST(HubRetriesTest, DelaysDoubleUntilTheAttemptsAreUsedUpOrBytesCome) {
  Limits limits;
  limits.attempts = 4;
  limits.first_delay = milliseconds(1000);
  limits.longest_delay = milliseconds(3000);
  HttpEnd broken;
  broken.failure = "Connection reset by peer";
  Retries retries(limits);
  EXPECT_EQ(retries.After(broken), milliseconds(1000));
  EXPECT_EQ(retries.After(broken), milliseconds(2000));
  EXPECT_EQ(retries.After(broken), milliseconds(3000));
  EXPECT_EQ(retries.After(broken), std::nullopt);
  retries.BytesCame();
  EXPECT_EQ(retries.After(broken), milliseconds(1000));
  HttpEnd busy;
  busy.head.status = 429;
  busy.retry_after = std::chrono::seconds(7);
  EXPECT_EQ(Retries(limits).After(busy), milliseconds(7000));
  for (const int status : {400, 401, 403, 404, 416}) {
    HttpEnd refused;
    refused.head.status = status;
    EXPECT_EQ(Retries(limits).After(refused), std::nullopt) << status;
  }
  broken.stays = true;
  EXPECT_EQ(Retries(limits).After(broken), std::nullopt);
}

}  // namespace
}  // namespace coxswain::hub
