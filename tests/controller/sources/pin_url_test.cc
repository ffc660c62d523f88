// URLs and uploads of a job, against a server of TLS on loopback.
#include "controller/sources/pin_url.h"

#include <string>

#include <gtest/gtest.h>

#include "common/config/parser/job_parser.h"
#include "common/config/parser/stored_job.h"
#include "controller/data/sources/dataset_files.h"
#include "controller/sources/fetch_sources.h"
#include "controller/sources/pin_sources.h"
#include "tests/common/web/web_fixture.h"

namespace coxswain::sources {
namespace {

class PinUrlTest : public testing::Test {
 protected:
  static config::ParsedJob UrlJob(const std::string& model, const std::string& dataset) {
    config::ParsedJob job = config::ParseJob(
        "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: t}\nspec:\n  base_model: '" +
            model + "'\n  datasets: [{path: '" + dataset + "'}]\n",
        "/nowhere");
    EXPECT_TRUE(job.errors.empty()) << config::FormatErrors(job.errors, "job.yaml");
    return job;
  }

  HubCaller Caller() const { return {.settings = server_.settings()}; }

  web::WebServer server_;
};

TEST_F(PinUrlTest, AModelAndAFileOfUrlsAreFetchedAsTheyWere) {
  server_.Put("/m/config.json", {.content = "{}"});
  server_.Put("/m/model.safetensors", {.content = web::WebNoise(100'000, 1)});
  server_.Put("/d/train.jsonl", {.content = "{\"text\": \"a\"}\n"});
  const auto pinned =
      PinSources(Caller(), UrlJob(server_.Url("/m"), server_.Url("/d/train.jsonl")), {});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->sources.size(), 2u);
  EXPECT_EQ(LineOf(pinned->sources[1]), pinned->sources[1].source);
  const auto fetched = FetchSources(Caller(), pinned->job.spec, {});
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  const config::JobSpec& spec = pinned->job.spec;
  EXPECT_EQ(support::ReadFile(spec.model_path + "/model.safetensors"), web::WebNoise(100'000, 1));
  const auto files = data::ListDatasetFiles(spec.datasets[0]);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->paths, std::vector<std::string>{spec.datasets[0].path});
  EXPECT_EQ(support::ReadFile(files->paths[0]), "{\"text\": \"a\"}\n");
  // As the controller reads it after a restart.
  const config::ParsedJob stored = config::ReadStoredJob(pinned->job.effective_json, "", "/");
  ASSERT_TRUE(stored.errors.empty()) << config::FormatErrors(stored.errors, "job.yaml");
  const int asked = server_.counters().requests;
  ASSERT_TRUE(FetchSources(Caller(), stored.spec, {}).ok());
  EXPECT_EQ(server_.counters().requests, asked) << "what is there is not asked for";
  EXPECT_EQ(server_.counters().tokens, 0);
}

TEST_F(PinUrlTest, AFileThatChangedSinceIsRefused) {
  server_.Put("/d/train.jsonl", {.content = "one\n", .etag = "\"one\""});
  const auto pinned = PinSources(Caller(), UrlJob("/m", server_.Url("/d/train.jsonl")), {});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  server_.Put("/d/train.jsonl", {.content = "two\n", .etag = "\"two\""});
  const auto fetched = FetchSources(Caller(), pinned->job.spec, {});
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kFailedPrecondition) << fetched.status();
}

TEST_F(PinUrlTest, AnUploadIsWhereItsOwnerBroughtIt) {
  const config::ParsedJob job = UrlJob("/m", "upload://0123/a.jsonl");
  const absl::Status nowhere = PinSources(Caller(), job, {}).status();
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(nowhere.message().find("spec.datasets[0]: "), std::string::npos) << nowhere;
  HubCaller caller = Caller();
  caller.upload = [](const std::string& text) -> absl::StatusOr<std::string> {
    return "/uploads/" + text.substr(text.rfind('/') + 1);
  };
  const auto pinned = PinSources(caller, job, {});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->job.spec.datasets[0].path, "/uploads/a.jsonl");
  EXPECT_EQ(pinned->job.spec.datasets[0].hub.revision, "0123");
  ASSERT_TRUE(FetchSources(caller, pinned->job.spec, {}).ok());
  EXPECT_EQ(server_.counters().requests, 0);
  EXPECT_EQ(PinUrl(caller, web::UrlKind::kModel, "upload://0123/m", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace coxswain::sources
