#include "controller/folders/output_place.h"
#include "tests/common/config/default_spec.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "controller/folders/seal_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

class OutputPlaceTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    Model("/models/base");
    job_.model_path = root_ + "/models/base";
    job_.output_dir = root_ + "/out";
  }

  void Model(const std::string& path) {
    fs::create_directories(root_ + path);
    std::ofstream(root_ + path + "/config.json") << "{}";
  }
  void Expect(absl::StatusCode submitted, absl::StatusCode running) {
    const absl::Status place = CheckOutputPlace(&files_, job_);
    EXPECT_EQ(place.code(), submitted) << place;
    EXPECT_EQ(CheckReplaceable(&files_, job_).code(), running);
    if (place.ok()) return;
    EXPECT_NE(place.message().find(job_.output_dir), absl::string_view::npos) << place;
    EXPECT_NE(place.message().find("another checkpoint.output_dir"), absl::string_view::npos);
  }
  void ExpectRefused() {
    Expect(absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition);
  }
  void ExpectAllowed() { Expect(absl::StatusCode::kOk, absl::StatusCode::kOk); }

  const support::ScratchFolder folder_;
  const std::string root_ = folder_.path();
  DiskFiles files_;
  config::JobSpec job_ = config::DefaultSpec();
};

TEST_F(OutputPlaceTest, ADirectoryOfItsOwnIsFineWhetherItExistsOrNot) {
  ExpectAllowed();
  fs::create_directories(root_ + "/out/checkpoint-10");
  fs::create_directories(root_ + "/out/model");
  ExpectAllowed();
}

TEST_F(OutputPlaceTest, TrackersDoNotWriteIntoTheBaseModel) {
  job_.logging_dir = job_.model_path + "/runs";
  ExpectAllowed();  // it reports to none
  job_.report_to = {config::Tracker::kTensorBoard};
  const absl::Status place = CheckOutputPlace(&files_, job_);
  EXPECT_TRUE(absl::IsInvalidArgument(place));
  EXPECT_NE(place.message().find("logging.dir " + job_.logging_dir + " is or lies in base_model"),
            absl::string_view::npos)
      << place;
  EXPECT_NE(place.message().find("Give another logging.dir"), absl::string_view::npos);
}

TEST_F(OutputPlaceTest, TheBaseModelIsNotWhereTheExportGoes) {
  job_.output_dir = root_ + "/models";
  job_.model_path = root_ + "/models/model";
  Model("/models/model");
  ExpectRefused();  // full
  job_.adapter = config::Adapter::kLora;
  ExpectAllowed();  // the adapter goes elsewhere
  job_.export_merge = true;
  ExpectRefused();
}

TEST_F(OutputPlaceTest, APathIsJudgedByWhatItLeadsTo) {
  Model("/out/model");
  fs::create_directory_symlink(root_ + "/out", root_ + "/alias");
  fs::create_directory_symlink(root_ + "/alias/model", root_ + "/base");
  job_.output_dir = root_ + "/out";
  for (const char* path :
       {"/out/model", "/out/model/", "/alias/model", "/base", "/models/../out//model"}) {
    job_.model_path = root_ + path;
    ExpectRefused();
  }
  job_.output_dir = root_ + "/alias/";
  ExpectRefused();
}

TEST_F(OutputPlaceTest, TheExportGoesNotThroughALinkToTheBaseModel) {
  fs::create_directories(root_ + "/out");
  fs::create_directory_symlink(root_ + "/models/base", root_ + "/out/model");
  ExpectRefused();
  job_.model_path = root_ + "/out/model";  // after the export this path would name the new model
  ExpectRefused();
}

TEST_F(OutputPlaceTest, TheOutputIsNotInTheBaseModel) {
  fs::create_directory_symlink(job_.model_path, root_ + "/link");
  for (const char* out : {"/models/base", "/models/base/", "/models/base/out/1", "/link/out"}) {
    job_.output_dir = root_ + out;
    Expect(absl::StatusCode::kInvalidArgument, absl::StatusCode::kOk);
  }
  job_.output_dir = root_ + "/models/base-out";
  ExpectAllowed();
}

TEST_F(OutputPlaceTest, NothingThatTheJobReadsIsInWhatItReplaces) {
  Model("/out/checkpoint-500");
  job_.model_path = root_ + "/out/checkpoint-500";
  ExpectRefused();
  job_.model_path = root_ + "/models/base";
  Model("/out/model");
  ASSERT_TRUE(SealFolder(&files_, root_ + "/out/model", {.job = "earlier", .step = 1}).ok());
  fs::remove_all(root_ + "/out/checkpoint-500");
  job_.datasets = {{.path = root_ + "/out/train.jsonl"}};
  ExpectAllowed();
  job_.datasets = {{.path = root_ + "/out/model/config.json"}};
  ExpectRefused();
  job_.datasets = {{.path = root_ + "/out/model/*.json"}};
  ExpectRefused();
  job_.datasets = {{.path = root_ + "/out/*.jsonl"}};
  ExpectAllowed();
  job_.datasets.clear();
  fs::create_symlink(root_ + "/out/model/config.json", root_ + "/held_out.jsonl");
  job_.test_datasets = {{.path = root_ + "/held_out.jsonl"}};
  ExpectRefused();
}

TEST_F(OutputPlaceTest, ABaseModelBesideWhatIsReplacedIsFine) {
  Model("/out/base");
  job_.model_path = root_ + "/out/base";
  ExpectAllowed();
}

// Removing a directory does not remove what links in it lead to; but no job makes links.
TEST_F(OutputPlaceTest, ALinkInWhatIsReplacedEndangersNothing) {
  fs::create_directories(root_ + "/out/model");
  fs::create_directory_symlink(root_ + "/models/base", root_ + "/out/model/base");
  Expect(absl::StatusCode::kInvalidArgument, absl::StatusCode::kOk);
}

// Invariant driver-12.
TEST_F(OutputPlaceTest, WhatNoJobWroteIsRefusedWithEveryPath) {
  Model("/out/model");
  Model("/out/checkpoint-20");
  std::ofstream(root_ + "/out/.staging") << "";
  const absl::Status refused = CheckOutputPlace(&files_, job_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  for (const char* path : {"/out/model", "/out/checkpoint-20/config.json", "/out/.staging"}) {
    EXPECT_NE(refused.message().find(root_ + path), absl::string_view::npos) << path << refused;
  }
  job_.method = "generate";  // replaces nothing
  fs::remove(root_ + "/out/.staging");
  EXPECT_TRUE(CheckOutputPlace(&files_, job_).ok());
}

TEST_F(OutputPlaceTest, FilesBesideTheNamesOfJobsAreNobodysBusiness) {
  Model("/out/runs");
  Model("/out/checkpoint-old");
  Model("/out/adapter");  // of another kind of job
  std::ofstream(root_ + "/out/.DS_Store") << "";
  ExpectAllowed();
}

TEST_F(OutputPlaceTest, TheErrorOfAFileHasItsKeyAndLine) {
  config::ParsedJob parsed;
  parsed.spec = job_;
  AddOutputPlaceErrors(&files_, &parsed);
  EXPECT_TRUE(parsed.errors.empty());
  parsed.spec.output_dir = job_.model_path;
  parsed.lines["spec.checkpoint.output_dir"] = 7;
  AddOutputPlaceErrors(&files_, &parsed);
  ASSERT_EQ(parsed.errors.size(), 1u);
  EXPECT_EQ(parsed.errors[0].path, "spec.checkpoint.output_dir");
  EXPECT_EQ(parsed.errors[0].line, 7);
}

}  // namespace
}  // namespace coxswain
