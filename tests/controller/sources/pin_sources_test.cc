// Names of models and datasets become commits, against a Hub on loopback.
#include "controller/sources/pin_sources.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "common/config/parser/job_parser.h"
#include "controller/data/sources/dataset_files.h"
#include "controller/sources/fetch_sources.h"
#include "controller/sources/kept_revisions.h"
#include "tests/common/hub/hub_fixture.h"

namespace coxswain::sources {
namespace {

constexpr char kRecord[] = "{\"text\": \"a\"}\n";

class PinSourcesTest : public testing::Test {
 protected:
  PinSourcesTest() {
    hub_.PutModel();
    hub_.Put("datasets/org/data", "train.jsonl", kRecord);
    hub_.Put("datasets/org/data", "test.jsonl", kRecord);
    hub_.Put("datasets/org/script", "script.py", "import datasets\n");
    hub_.Put("datasets/org/script", "fr/train/0000.parquet", hub::Noise(100, 5),
             "refs%2Fconvert%2Fparquet");
    hub_.Start();
  }

  HubCaller Operator() const { return {.settings = hub_.settings(), .must_ask = false}; }

  static config::ParsedJob NamedJob(const std::string& model, const std::string& dataset) {
    config::ParsedJob job = config::ParseJob(
        "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: t}\nspec:\n  base_model: " +
            model + "\n  datasets: [" + dataset + "]\n",
        "/nowhere");
    EXPECT_TRUE(job.errors.empty()) << config::FormatErrors(job.errors, "job.yaml");
    return job;
  }

  void ExpectRefused(const HubCaller& caller, const config::ParsedJob& job, absl::StatusCode code,
                     const std::string& text) {
    const auto pinned = PinSources(caller, job, {});
    EXPECT_EQ(pinned.status().code(), code) << pinned.status();
    EXPECT_NE(pinned.status().message().find(text), std::string::npos) << pinned.status();
  }

  hub::SmallHub hub_;
};

// Invariant sources-1.
TEST_F(PinSourcesTest, NamesBecomeCommitsAndFolders) {
  const auto pinned = PinSources(Operator(), NamedJob("org/tiny", "{path: org/data}"), {});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  const config::JobSpec& spec = pinned->job.spec;
  EXPECT_EQ(spec.model_hub.revision, hub_.server().CommitOf("models/org/tiny"));
  EXPECT_TRUE(spec.model_path.ends_with("/snapshots/" + spec.model_hub.revision));
  EXPECT_EQ(spec.datasets[0].hub.revision, hub_.server().CommitOf("datasets/org/data"));
  EXPECT_NE(pinned->job.effective_json.find(spec.model_hub.revision), std::string::npos);
  ASSERT_EQ(pinned->sources.size(), 2u);
  EXPECT_EQ(LineOf(pinned->sources[0]),
            "model org/tiny at main: commit " + spec.model_hub.revision);
  EXPECT_FALSE(std::filesystem::exists(spec.model_path + "/model.safetensors"));
  const auto fetched = FetchSources(Operator(), spec, {});
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_TRUE(std::filesystem::exists(spec.model_path + "/model.safetensors"));
  const auto files = data::ListDatasetFiles(spec.datasets[0]);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->paths, std::vector<std::string>{spec.datasets[0].path + "/train.jsonl"});
  // The other split is not read.
  EXPECT_FALSE(std::filesystem::exists(spec.datasets[0].path + "/test.jsonl"));
  const int asked = hub_.server().counters().api;
  ASSERT_TRUE(FetchSources(Operator(), spec, {}).ok());
  HubCaller offline = Operator();
  offline.settings.offline = true;
  const auto again = PinSources(offline, NamedJob("org/tiny", "{path: org/data}"), {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job.effective_json, pinned->job.effective_json);
  EXPECT_EQ(hub_.server().counters().api, asked) << "what is there is not asked for";
}

TEST_F(PinSourcesTest, ADrawnModelNeedsNoWeights) {
  const auto pinned =
      PinSources(Operator(), NamedJob("{hub: org/tiny, init: random}", "{path: ./d}"), {});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  ASSERT_TRUE(FetchSources(Operator(), pinned->job.spec, {}).ok());
  EXPECT_TRUE(std::filesystem::exists(pinned->job.spec.model_path + "/tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(pinned->job.spec.model_path + "/model.safetensors"));
}

// Invariant sources-3.
TEST_F(PinSourcesTest, ARepositoryThatNeedsAScriptIsReadAsConverted) {
  const auto pinned = PinSources(Operator(), NamedJob("/m", "{path: org/script}"), {});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  const config::DatasetSpec& dataset = pinned->job.spec.datasets[0];
  EXPECT_TRUE(dataset.converted);
  EXPECT_EQ(dataset.hub.revision,
            hub_.server().CommitOf("datasets/org/script", "refs/convert/parquet"));
  EXPECT_NE(pinned->sources[0].note.find("needs its script script.py"), std::string::npos);
  ASSERT_TRUE(FetchSources(Operator(), pinned->job.spec, {}).ok());
  EXPECT_TRUE(std::filesystem::exists(dataset.path + "/fr/train/0000.parquet"));
}

TEST_F(PinSourcesTest, RefusalsNameTheKey) {
  using Code = absl::StatusCode;
  ExpectRefused(Operator(), NamedJob("org/none", "{path: ./d}"), Code::kNotFound,
                "spec.base_model: ");
  ExpectRefused(Operator(), NamedJob("/m", "{path: ./d}, {path: org/data, split: dev}"),
                Code::kInvalidArgument, "spec.datasets[1]: dataset org/data: there is no split");
  hub_.Put("models/org/empty", "README.md", "# empty\n");
  hub_.server().Load();
  ExpectRefused(Operator(), NamedJob("org/empty", "{path: ./d}"), Code::kNotFound,
                "has no config.json");
}

TEST_F(PinSourcesTest, AReadmeThatIsTooLargeIsNotFetched) {
  hub_.Put("datasets/org/data", "README.md", std::string((size_t{16} << 20) + 1, ' '));
  hub_.server().Load();
  ExpectRefused(Operator(), NamedJob("/m", "{path: org/data}"), absl::StatusCode::kInvalidArgument,
                "README.md of dataset org/data");
  EXPECT_EQ(hub_.server().counters().body_bytes, 0);
}

TEST_F(PinSourcesTest, APushWithoutATokenIsWarnedOf) {
  config::ParsedJob job = NamedJob("/m", "{path: ./d}");
  EXPECT_TRUE(PinSources(Operator(), job, {})->warnings.empty());
  job.spec.push_to_hub.repo = "org/tuned";
  const auto pinned = PinSources(Operator(), job, {});
  ASSERT_EQ(pinned->warnings.size(), 1u);
  EXPECT_NE(pinned->warnings[0].find("org/tuned"), std::string::npos);
}

// A job goes on with what its checkpoint's job read, wherever main is by now.
TEST_F(PinSourcesTest, TheCommitsOfACheckpointAreKept) {
  const auto before = PinSources(Operator(), NamedJob("org/tiny", "{path: org/data}"), {});
  ASSERT_TRUE(before.ok()) << before.status();
  const std::string& there = before->job.effective_json;
  config::JobSpec again = NamedJob("org/tiny", "{path: org/data}").spec;
  KeepRevisions(there, &again);
  EXPECT_EQ(again.model_hub.revision, before->job.spec.model_hub.revision);
  EXPECT_EQ(again.datasets[0].hub.revision, before->job.spec.datasets[0].hub.revision);
  config::JobSpec other = NamedJob("{hub: org/tiny, revision: v2}", "{path: org/other}").spec;
  KeepRevisions(there, &other);
  EXPECT_EQ(other.model_hub.revision, "v2");
  EXPECT_EQ(other.datasets[0].hub.revision, "");
  KeepRevisions("", &other);
  KeepRevisions("{\"spec\": 3}", &other);
  EXPECT_EQ(other.model_hub.revision, "v2");
}

TEST_F(PinSourcesTest, AHubThatIsAwayIsNotTheController) {
  HubCaller away = Operator();
  away.settings.endpoint = "http://127.0.0.1:1";
  const auto pinned = PinSources(away, NamedJob("org/none", "{path: ./d}"), {});
  EXPECT_EQ(pinned.status().code(), absl::StatusCode::kUnavailable);
  const absl::Status told = ToldApart(pinned.status());
  EXPECT_EQ(told.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(told.message().find("submit the job again"), std::string::npos);
}

// What one user may read, another finds in the cache only with a right of its own.
TEST_F(PinSourcesTest, TheCacheGivesNothingToAUserWhomTheHubRefuses) {
  ASSERT_TRUE(PinSources(Operator(), NamedJob("org/tiny", "{path: ./d}"), {}).ok());
  hub_.server().Change([](support::HubBehaviour* hub) { hub->gated = true; });
  EXPECT_TRUE(PinSources(Operator(), NamedJob("org/tiny", "{path: ./d}"), {}).ok());
  HubCaller user = Operator();
  user.must_ask = true;
  // By a commit, which the cache knows, and of a repository without the file that is usual.
  ASSERT_TRUE(PinSources(Operator(), NamedJob("/m", "{path: org/data}"), {}).ok());
  const std::string commit = hub_.server().CommitOf("datasets/org/data");
  ExpectRefused(user, NamedJob("/m", "{path: org/data, revision: '" + commit + "'}"),
                absl::StatusCode::kPermissionDenied, "conditions");
  HubCaller offline = user;
  offline.settings.offline = true;
  ExpectRefused(offline, NamedJob("org/tiny", "{path: ./d}"), absl::StatusCode::kPermissionDenied,
                "--hub-token-users");
  ExpectRefused(user, NamedJob("org/tiny", "{path: ./d}"), absl::StatusCode::kPermissionDenied,
                "conditions");
}

}  // namespace
}  // namespace coxswain::sources
