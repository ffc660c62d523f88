// Invariant config-5: what an earlier release accepted.
#include "common/config/parser/stored_job.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/common/config/job_text.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

Json Accepted(const std::string& yaml) {
  const ParsedJob job = ParseJob(yaml, "/jobs/here");
  EXPECT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  return Json::parse(job.effective_json);
}

ParsedJob Stored(const Json& effective, const std::string& yaml = kSmallJob) {
  return ReadStoredJob(effective.dump(2), yaml, "/elsewhere");
}

std::string Errors(const ParsedJob& job) { return FormatErrors(job.errors, "job.yaml"); }

TEST(StoredJobTest, IsTheJobThatWasAccepted) {
  for (const std::string yaml : {kSmallJob, kFullJob}) {
    const ParsedJob accepted = ParseJob(yaml, "/jobs/here");
    const ParsedJob stored = ReadStoredJob(accepted.effective_json, yaml, "/elsewhere");
    EXPECT_EQ(Errors(stored), "");
    EXPECT_EQ(stored.effective_json, accepted.effective_json);
    EXPECT_EQ(stored.spec.output_dir, accepted.spec.output_dir);
    EXPECT_EQ(stored.spec.train.learning_rate, accepted.spec.train.learning_rate);
    EXPECT_EQ(stored.spec.labels, accepted.spec.labels);
  }
}

// Values that this schema would refuse today, as a narrower range, a new exclusion or a new rule of
// a later release would refuse them.
TEST(StoredJobTest, IsNotJudgedByRangesExclusionsAndRules) {
  Json job = Accepted(kSmallJob);
  Json& spec = job["spec"];
  spec["resources"]["workers"] = 100000;               // range
  spec["train"]["warmup_steps"] = 5;                   // excludes warmup_ratio
  spec["eval"]["early_stopping_patience"] = 3;         // needs an evaluation set
  spec["checkpoint"]["output_dir"] = "s3://bucket/x";  // a path that is refused by its form
  job["metadata"]["name"] = "Not_DNS";
  EXPECT_FALSE(ParseJob(job.dump(), "/").errors.empty());
  const ParsedJob stored = Stored(job);
  EXPECT_EQ(Errors(stored), "");
  EXPECT_EQ(stored.spec.workers, 100000);
  EXPECT_EQ(stored.spec.train.warmup_steps, 5);
  EXPECT_EQ(stored.spec.early_stopping_patience, 3);
  EXPECT_EQ(stored.spec.output_dir, "s3://bucket/x");
  EXPECT_EQ(stored.spec.name, "Not_DNS");
}

// Its bins hold what they held, though a job of this length gets twice as many today.
TEST(StoredJobTest, KeepsTheDocumentsOfABin) {
  const std::string yaml = WithSpec("  sequence_len: 4096\n");
  Json job = Accepted(yaml);
  EXPECT_EQ(job["spec"]["packing"]["max_documents_per_bin"], 64);
  job["spec"]["packing"]["max_documents_per_bin"] = 32;
  EXPECT_EQ(Stored(job, yaml).spec.packing.max_documents_per_bin, 32);
}

// The YAML leaves them out: were it read again, the defaults of today would come.
TEST(StoredJobTest, KeepsTheDefaultsOfTheReleaseThatAcceptedIt) {
  Json job = Accepted(kSmallJob);
  job["spec"]["resources"]["max_restarts"] = 1234;
  job["spec"]["train"]["learning_rate"] = 0.125;
  job["spec"]["train"]["warmup_ratio"] = 0.5;
  job["spec"]["lora"]["r"] = 7;
  const ParsedJob stored = Stored(job);
  EXPECT_EQ(Errors(stored), "");
  EXPECT_EQ(stored.spec.max_restarts, 1234);
  EXPECT_EQ(stored.spec.train.learning_rate, 0.125);
  EXPECT_EQ(stored.spec.train.warmup_ratio, 0.5);
  EXPECT_EQ(stored.spec.lora.r, 7);
}

TEST(StoredJobTest, AKeyThatIsNewerThanTheJobHasItsDefault) {
  Json job = Accepted(kSmallJob);
  job["spec"]["train"].erase("label_smoothing");
  job["spec"].erase("packing");
  job["spec"]["datasets"][0].erase("weight");
  const ParsedJob stored = Stored(job);
  EXPECT_EQ(Errors(stored), "");
  EXPECT_EQ(stored.spec.train.label_smoothing, 0);
  EXPECT_EQ(stored.spec.packing.window, 100000);
  EXPECT_EQ(stored.spec.datasets.at(0).weight, 1);
}

// Its gradients were added to nearest: a default that came later does not reach it.
TEST(StoredJobTest, AJobFromBeforeGradientSumsRoundsToNearest) {
  const std::string yaml = WithSpec("  resources: {device: cuda}\n");
  Json job = Accepted(yaml);
  EXPECT_EQ(Stored(job, yaml).spec.gradient_sum, "auto");
  job["spec"]["precision"].erase("gradient_sum");
  EXPECT_EQ(Stored(job, yaml).spec.gradient_sum, "nearest");
}

// The products of its experts were in the compute dtype.
TEST(StoredJobTest, AJobFromBeforeExpertsInFp8HasNone) {
  const std::string yaml = WithSpec("  precision: {compute: fp8, fp8: {experts: fp8}}\n");
  Json job = Accepted(yaml);
  EXPECT_TRUE(Stored(job, yaml).spec.fp8->experts);
  job["spec"]["precision"]["fp8"].erase("experts");
  EXPECT_FALSE(Stored(job, yaml).spec.fp8->experts);
  job = Accepted(kSmallJob);
  job["spec"]["precision"]["fp8"]["experts"] = "bfloat16";
  EXPECT_TRUE(ParseJob(job.dump(), "/").errors.empty());
}

// Its attention was in the compute dtype.
TEST(StoredJobTest, AJobFromBeforeAttentionInFp8HasNone) {
  const std::string yaml = WithSpec("  precision: {compute: fp8, fp8: {attention: fp8}}\n");
  Json job = Accepted(yaml);
  EXPECT_TRUE(Stored(job, yaml).spec.fp8->attention);
  job["spec"]["precision"]["fp8"].erase("attention");
  EXPECT_FALSE(Stored(job, yaml).spec.fp8->attention);
}

// Its ranks gathered values.
TEST(StoredJobTest, AJobWhoseGatherIsAutoGathersNoCodes) {
  const std::string yaml = WithSpec("  resources: {device: cpu}\n  precision: {compute: fp8}\n");
  Json job = Accepted(yaml);
  EXPECT_TRUE(Stored(job, yaml).spec.fp8->gathers_codes);
  job["spec"]["precision"]["fp8"]["gather"] = "auto";
  EXPECT_FALSE(Stored(job, yaml).spec.fp8->gathers_codes);
  job["spec"]["precision"]["fp8"].erase("gather");
  EXPECT_FALSE(Stored(job, yaml).spec.fp8->gathers_codes);
}

TEST(StoredJobTest, WithTodaysDataRulesIsTheSameJobOtherwise) {
  Json job = Accepted(kSmallJob);
  job["spec"]["data_rules"] = 1;
  EXPECT_EQ(Stored(job).spec.data_rules, 1);
  EXPECT_EQ(WithTodaysDataRules(job.dump(2)), Accepted(kSmallJob).dump(2));
  job["spec"].erase("data_rules");
  const ParsedJob stored = Stored(Json::parse(WithTodaysDataRules(job.dump(2))));
  EXPECT_EQ(Errors(stored), "");
  EXPECT_EQ(stored.spec.data_rules, kDataRules);
}

TEST(StoredJobTest, AKeyThatIsGoneIsIgnoredUnlessTheFileSetIt) {
  Json job = Accepted(kSmallJob);
  job["spec"]["train"]["retired"] = 1;
  EXPECT_EQ(Errors(Stored(job)), "");
  const ParsedJob set = Stored(job, WithSpec("  train: {retired: 1}\n"));
  EXPECT_NE(Errors(set).find("spec.train.retired: is not known to this release"), std::string::npos)
      << Errors(set);
}

TEST(StoredJobTest, WhatCannotBeUnderstoodIsRefusedByName) {
  const auto refused = [](const std::string& section, const std::string& key, const Json& value) {
    Json job = Accepted(kSmallJob);
    job["spec"][section][key] = value;
    const ParsedJob stored = Stored(job);
    EXPECT_NE(Errors(stored).find("spec." + section + "." + key), std::string::npos)
        << Errors(stored);
  };
  refused("train", "lr_scheduler", "of the future");
  refused("train", "betas", "many");
  refused("train", "seed", Json::object({{"a", 1}}));
  refused("resources", "spares", 2);
  refused("attention", "deterministic", 7);
  Json job = Accepted(kSmallJob);
  job["spec"].erase("base_model");
  EXPECT_NE(Errors(Stored(job)).find("spec.base_model: missing"), std::string::npos);
  job = Accepted(kSmallJob);
  job["spec"]["datasets"] = Json::array({1});
  EXPECT_NE(Errors(Stored(job)).find("spec.datasets[0]"), std::string::npos);
}

// A job that waits for its workers while the controller is replaced by a newer one.
TEST(StoredJobTest, ResourcesChosenLaterLeaveTheOtherNumbersAlone) {
  Json job = Accepted(WithSpec("  resources: {device: auto, workers: auto}\n"));
  ASSERT_EQ(job["spec"]["resources"]["device"], "auto");
  job["spec"]["train"]["weight_decay"] = 0.5;
  const ParsedJob stored =
      ReadStoredJob(job.dump(), kSmallJob, "/elsewhere", {.device = Device::kCuda, .workers = 3});
  EXPECT_EQ(Errors(stored), "");
  EXPECT_EQ(stored.spec.device, Device::kCuda);
  EXPECT_EQ(stored.spec.workers, 3);
  EXPECT_EQ(stored.spec.compute_dtype, Precision::kBfloat16);
  EXPECT_EQ(stored.spec.train.weight_decay, 0.5);
  job["spec"]["parallelism"]["shard"] = 2;
  const ParsedJob refused =
      ReadStoredJob(job.dump(), kSmallJob, "/elsewhere", {.device = Device::kCuda, .workers = 3});
  EXPECT_NE(Errors(refused).find("spec.parallelism.shard"), std::string::npos) << Errors(refused);
}

TEST(StoredJobTest, ARowWithoutAResolvedJobIsReadFromItsYaml) {
  for (const std::string none : {"", "{", "[]"}) {
    EXPECT_EQ(ReadStoredJob(none, kSmallJob, "/jobs/here").spec.model_path, "/jobs/here/model");
    EXPECT_FALSE(ReadStoredJob(none, "kind: Wrong\n", "/").errors.empty());
  }
}

}  // namespace
}  // namespace coxswain::config
