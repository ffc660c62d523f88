#include "common/web/fetch_url.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "common/files/hash.h"
#include "tests/common/web/web_fixture.h"

namespace coxswain::web {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr int64_t kBytes = 700'001;

class FetchUrlTest : public testing::Test {
 protected:
  FetchUrlTest() { server_.Put("/data/train.jsonl", {.content = content_}); }
  std::string Url() const { return server_.Url("/data/train.jsonl"); }
  UrlSource Source() const { return *MakeUrlSource(UrlKind::kFile, Url()); }
  absl::StatusOr<UrlCopy> BringFile(const UrlHooks& hooks = {}) {
    return Bring(server_.settings(), UrlKind::kFile, Url(), hooks);
  }
  absl::Status Refusal(const std::string& path, WebFile file) {
    server_.Put(path, std::move(file));
    return Bring(server_.settings(), UrlKind::kFile, server_.Url(path)).status();
  }
  void ExpectWhole(const absl::StatusOr<UrlCopy>& copy) const {
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(fs::path(copy->path).filename(), "train.jsonl");
    EXPECT_EQ(support::ReadFile(copy->path), content_);
  }

  const std::string content_ = WebNoise(kBytes, 1);
  WebServer server_;
};

bool SaysOf(const absl::Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

// Invariants web-1 and web-3.
TEST_F(FetchUrlTest, AFileIsFetchedOnceAndFoundWithoutANetwork) {
  hub::Settings settings = server_.settings();
  settings.token = *hub::Token::Parse("hf_secret", "a test");
  const auto resolved = ResolveUrl(settings, Source());
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(FindUrl(settings, Source(), resolved->revision).status().code(), StatusCode::kNotFound);
  hub::Progress last;
  const auto copy = FetchUrl(settings, Source(), resolved->revision,
                             {.progress = [&](const hub::Progress& now) { last = now; }});
  ExpectWhole(copy);
  EXPECT_EQ(copy->fetched_bytes, kBytes);
  EXPECT_EQ(last.bytes, kBytes);
  EXPECT_EQ(last.bytes_total, kBytes);
  EXPECT_EQ(last.files, 1);
  const WebCounters before = server_.counters();
  EXPECT_EQ(before.tokens, 0);
  EXPECT_EQ(FetchUrl(settings, Source(), resolved->revision, {})->fetched_bytes, 0);
  EXPECT_EQ(FindUrl(settings, Source(), resolved->revision)->path, copy->path);
  EXPECT_EQ(server_.counters().requests, before.requests) << "the cache had it";
  int noted = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(copy->path).parent_path().parent_path())) {
    if (!entry.is_regular_file()) continue;
    noted += support::ReadFile(entry.path()).find(ToHex(Sha256(content_))) != std::string::npos;
  }
  EXPECT_EQ(noted, 1) << "its SHA-256 is kept";
}

// Invariant web-4.
TEST_F(FetchUrlTest, ADownloadThatStoppedGoesOn) {
  constexpr int64_t kCame = 80'000;
  int64_t came = 0;
  server_.HoldAfter(100'000);
  const auto stopped = BringFile({.cancelled = [&] { return came >= kCame; },
                                  .progress = [&](const hub::Progress& p) { came = p.bytes; }});
  server_.HoldAfter(-1);
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled) << stopped.status();
  const auto rest = BringFile();
  ExpectWhole(rest);
  EXPECT_LE(rest->fetched_bytes, kBytes - kCame);
}

TEST_F(FetchUrlTest, BodiesThatAreCutAreContinued) {
  server_.Cut(5, 10'000);
  ExpectWhole(BringFile());
  server_.Put("/data/train.jsonl", {.content = content_, .etag = "\"two\"", .no_ranges = true});
  ExpectWhole(BringFile());
  server_.Put("/data/train.jsonl", {.content = content_, .etag = "\"three\""});
  server_.Cut(1000, 0);
  const absl::Status cut = BringFile().status();
  EXPECT_EQ(cut.code(), StatusCode::kUnavailable) << cut;
  EXPECT_TRUE(SaysOf(cut, Url())) << cut;
}

// Invariant web-1.
TEST_F(FetchUrlTest, AFileThatChangedIsRefusedByName) {
  const std::string revision = ResolveUrl(server_.settings(), Source())->revision;
  server_.Put("/data/train.jsonl", {.content = WebNoise(kBytes, 2), .etag = "\"two\""});
  const absl::Status changed = FetchUrl(server_.settings(), Source(), revision, {}).status();
  EXPECT_EQ(changed.code(), StatusCode::kFailedPrecondition);
  for (const std::string& said : {Url(), std::string("\"one\""), std::string("\"two\""),
                                  std::string("submit the job again")}) {
    EXPECT_TRUE(SaysOf(changed, said)) << changed;
  }
  // Where the cache forgot what it was, too.
  fs::remove_all(server_.settings().cache);
  EXPECT_EQ(FetchUrl(server_.settings(), Source(), revision, {}).status().code(),
            StatusCode::kFailedPrecondition);
  // Submitted again it is another revision, beside the old one.
  const auto now = ResolveUrl(server_.settings(), Source());
  EXPECT_NE(now->revision, revision);
  EXPECT_TRUE(FetchUrl(server_.settings(), Source(), now->revision, {}).ok());
}

TEST_F(FetchUrlTest, TheDateTellsAChangeWhereThereIsNoStrongTag) {
  const auto revision_with = [&](const std::string& etag, const std::string& modified) {
    server_.Put("/data/train.jsonl", {.content = content_, .etag = etag, .modified = modified});
    return ResolveUrl(server_.settings(), Source())->revision;
  };
  const std::string first = revision_with("W/\"a\"", "Tue, 01 Jul 2025 10:00:00 GMT");
  EXPECT_EQ(revision_with("W/\"b\"", "Tue, 01 Jul 2025 10:00:00 GMT"), first);
  EXPECT_NE(revision_with("W/\"b\"", "Tue, 01 Jul 2025 10:00:01 GMT"), first);
  EXPECT_NE(revision_with("W/\"b\"", ""), revision_with("W/\"a\"", ""));
  const std::string strong = revision_with("\"a\"", "Tue, 01 Jul 2025 10:00:00 GMT");
  EXPECT_EQ(revision_with("\"a\"", "Tue, 01 Jul 2025 10:00:01 GMT"), strong);
}

TEST_F(FetchUrlTest, WhatCannotBeVerifiedIsRefused) {
  const absl::Status nameless = Refusal("/a", {.content = "x", .etag = ""});
  EXPECT_EQ(nameless.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(SaysOf(nameless, "neither ETag nor Last-Modified")) << nameless;
  const absl::Status endless = Refusal("/b", {.content = "x", .no_size = true});
  EXPECT_EQ(endless.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(SaysOf(endless, "tells no size")) << endless;
}

TEST_F(FetchUrlTest, RefusalsOfTheServerHaveTheirCodes) {
  EXPECT_EQ(Refusal("/a", {.content = "x", .status = 403}).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Refusal("/b", {.content = "x", .status = 503}).code(), StatusCode::kUnavailable);
  const absl::Status secret =
      Bring(server_.settings(), UrlKind::kFile, server_.Url("/none?sig=s3cr3t")).status();
  EXPECT_EQ(secret.code(), StatusCode::kNotFound);
  EXPECT_FALSE(SaysOf(secret, "s3cr3t")) << secret;
}

// Invariant web-2.
TEST_F(FetchUrlTest, NoUrlLeadsToThisMachineOrItsLink) {
  hub::Settings product = server_.settings();
  product.own_machine = false;
  for (const std::string host : {"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0",
                                 "127.1", "2130706433"}) {
    const absl::Status refused =
        Bring(product, UrlKind::kFile, server_.Url("/data/train.jsonl", host)).status();
    EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << host << ": " << refused;
    EXPECT_TRUE(SaysOf(refused, "an address of this machine")) << refused;
  }
  EXPECT_EQ(server_.counters().requests, 0);
  const absl::Status link =
      Refusal("/moved", {.content = "x", .leads_to = "https://169.254.169.254/latest"});
  EXPECT_EQ(link.code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(SaysOf(link, "169.254.169.254 is a link-local address")) << link;
}

TEST_F(FetchUrlTest, RedirectsAreFollowedOverHttpsAlone) {
  server_.Put("/moved/train.jsonl", {.content = "", .leads_to = "/data/train.jsonl"});
  ExpectWhole(Bring(server_.settings(), UrlKind::kFile, server_.Url("/moved/train.jsonl")));
  const absl::Status plain = Refusal("/plain", {.content = "", .leads_to = "http://127.0.0.1:1/"});
  EXPECT_EQ(plain.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(SaysOf(plain, "from https to http://")) << plain;
}

TEST_F(FetchUrlTest, WithoutTheServerItIsWhatTheCacheHas) {
  hub::Settings offline = server_.settings();
  offline.offline = true;
  EXPECT_EQ(ResolveUrl(offline, Source()).status().code(), StatusCode::kNotFound);
  ExpectWhole(BringFile());
  const int asked = server_.counters().requests;
  ExpectWhole(Bring(offline, UrlKind::kFile, Url()));
  EXPECT_FALSE(ResolveUrl(offline, Source())->from_cache.ok());
  EXPECT_EQ(server_.counters().requests, asked);
  server_.Put("/data/train.jsonl", {.content = content_, .status = 503});
  const auto resolved = ResolveUrl(server_.settings(), Source());
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->from_cache.code(), StatusCode::kUnavailable);
  ExpectWhole(FetchUrl(server_.settings(), Source(), resolved->revision, {}));
}

// Invariant web-3.
TEST_F(FetchUrlTest, TwoAtOnceDownloadItOnce) {
  const std::string revision = ResolveUrl(server_.settings(), Source())->revision;
  const int64_t before = server_.counters().body_bytes;
  absl::StatusOr<UrlCopy> first, second;
  std::thread other([&] { second = FetchUrl(server_.settings(), Source(), revision, {}); });
  first = FetchUrl(server_.settings(), Source(), revision, {});
  other.join();
  ExpectWhole(first);
  ExpectWhole(second);
  EXPECT_EQ(server_.counters().body_bytes - before, kBytes);
}

TEST_F(FetchUrlTest, AnEmptyFileIsAFile) {
  server_.Put("/empty", {.content = ""});
  const auto copy = Bring(server_.settings(), UrlKind::kFile, server_.Url("/empty"));
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(fs::file_size(copy->path), 0u);
}

}  // namespace
}  // namespace coxswain::web
