// Where an export goes: nothing of another is lost, nothing is half there.
#include <gtest/gtest.h>

#include <fstream>

#include "common/files/safetensors/safetensors.h"
#include "controller/checkpoint/staging.h"
#include "controller/folders/seal_folder.h"
#include "tests/controller/export/export_fixture.h"
#include "tests/controller/killing_files.h"

namespace coxswain::exports {
namespace {

using support::ReadFile;

// Looked at again right before: an hour may lie between submit and export.
TEST_F(ExportTest, ABaseModelThatCameToLieInThePlaceOfTheExportStays) {
  const std::string model = directory_ + "/base";
  fs::copy("deploy/quickstart/model", model, fs::copy_options::recursive);
  UseModel(model);
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  const std::string target = request_.job.output_dir + "/model";
  request_.guard = [&](const auto& work) {
    fs::rename(model, target);
    fs::create_directory_symlink(target, model);
    return work();
  };
  const absl::Status status = ExportArtifacts(&files_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("would be deleted"), absl::string_view::npos) << status;
  EXPECT_EQ(ReadFile(target + "/config.json"), ReadFile("deploy/quickstart/model/config.json"));
  EXPECT_TRUE(fs::exists(target + "/model.safetensors"));
}

// Invariant driver-12. An hour may lie between submit and export.
TEST_F(ExportTest, AStrangersFileInThePlaceOfTheExportStands) {
  UseModel("deploy/quickstart/model");
  AddLora(2, 8, false);
  TrainGroup(model::IsAdapter);
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  const std::string mine = request_.job.output_dir + "/adapter/notes.txt";
  fs::create_directories(request_.job.output_dir + "/adapter");
  std::ofstream(mine) << "mine";
  const absl::Status refused = ExportArtifacts(&files_, request_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(refused.message().find(mine), absl::string_view::npos) << refused;
  EXPECT_EQ(ReadFile(mine), "mine");
  fs::rename(mine, directory_ + "/notes.txt");
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  std::ofstream(mine) << "mine";
  EXPECT_FALSE(ExportArtifacts(&files_, request_).ok());
  EXPECT_EQ(ReadFile(mine), "mine");
}

TEST_F(ExportTest, TheManifestSaysWhoWroteWhatAndWhoseExportWasReplaced) {
  UseModel("deploy/quickstart/model");
  AddLora(2, 8, false);
  request_.job.export_merge = true;
  TrainGroup(model::IsAdapter);
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  request_.author = {.job = "first", .step = 20, .origin = {.job = "before", .step = 5}};
  const auto first = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->replaced.empty());
  const auto seal = ReadSeal(&files_, first->directory);
  ASSERT_TRUE(seal.ok()) << seal.status();
  EXPECT_EQ(seal->author.job, "first");
  EXPECT_EQ(seal->author.step, 20);
  EXPECT_EQ(seal->author.origin, request_.author.origin);
  EXPECT_EQ(seal->digest, first->digest);
  EXPECT_EQ(ReadSeal(&files_, first->merged_directory)->digest, first->merged_digest);
  const auto entries = files_.List(first->directory);
  EXPECT_EQ(seal->files.size() + 1, entries->size());  // and the manifest
  for (const ManifestFile& file : seal->files) {
    EXPECT_TRUE(files_.CheckBlocks(first->directory + "/" + file.name, file.blocks()).ok());
  }
  request_.author = {.job = "second", .step = 20};
  const auto second = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(second.ok()) << second.status();
  const std::string& out = request_.job.output_dir;
  EXPECT_EQ(second->replaced,
            (std::vector<std::string>{out + "/adapter of job first", out + "/model of job first"}));
}

TEST_F(ExportTest, WithoutTheDirectoryNothingIsReplaced) {
  UseModel("deploy/quickstart/model");
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  request_.guard = [](const auto&) { return absl::AbortedError("another owner"); };
  EXPECT_TRUE(absl::IsAborted(ExportArtifacts(&files_, request_).status()));
  EXPECT_FALSE(fs::exists(request_.job.output_dir + "/model"));
}

TEST_F(ExportTest, AKillAtAnyOperationLeavesTheOldOrTheNewArtifactWhole) {
  UseModel("deploy/quickstart/model");
  AddLora(2, 8, false);
  TrainGroup(model::IsAdapter);
  float fill = 1.0f;
  const auto export_with = [&](Files* files) {
    WriteCheckpoint(
        [&](const model::Parameter& p, float* out) { std::fill(out, out + p.elements(), fill); });
    return ExportArtifacts(files, request_).status();
  };
  const std::string adapter = request_.job.output_dir + "/adapter";
  int kills = 0;
  for (; kills < 20; ++kills) {
    fill = 1.0f;
    ASSERT_TRUE(export_with(&files_).ok());
    fill = 2.0f;
    const bool survived = SurvivesKillAt(kills, export_with);
    ASSERT_TRUE(checkpoint::SweepStaging(&files_, request_.job.output_dir).ok());
    auto file = SafetensorsFile::Open(adapter + "/adapter_model.safetensors");
    ASSERT_TRUE(file.ok()) << "killed at operation " << kills << ": " << file.status();
    for (const TensorInfo& tensor : (*file)->tensors()) {
      float first = 0;
      ASSERT_TRUE(CopyRangeAsFloat(tensor, 0, 1, &first).ok());
      EXPECT_EQ(first, kills < 6 ? 1.0f : 2.0f) << "killed at operation " << kills;
    }
    EXPECT_TRUE(fs::exists(adapter + "/adapter_config.json"));
    EXPECT_TRUE(fs::is_empty(request_.job.output_dir + "/.staging"));
    if (survived) break;
  }
  EXPECT_EQ(kills, 7);  // empty and make staging, seal; room aside, aside, in place, remove
}

TEST_F(ExportTest, RunsAgainOverAnEarlierExportAndItsLeftovers) {
  UseModel("deploy/quickstart/model");
  AddLora(4, 8, false);
  TrainGroup(model::IsAdapter);
  float fill = 1.0f;
  const auto constant = [&](const model::Parameter& p, float* out) {
    std::fill(out, out + p.elements(), fill);
  };
  WriteCheckpoint(constant);
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  fs::create_directories(request_.job.output_dir + "/.staging/export-adapter");
  std::ofstream(request_.job.output_dir + "/.staging/export-adapter/garbage") << "from a crash";
  fill = 2.0f;
  WriteCheckpoint(constant);
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(fs::exists(result->directory + "/garbage"));
  auto file = SafetensorsFile::Open(result->directory + "/adapter_model.safetensors");
  ASSERT_TRUE(file.ok());
  float first = 0;
  ASSERT_TRUE(CopyRangeAsFloat((*file)->tensors()[0], 0, 1, &first).ok());
  EXPECT_EQ(first, 2.0f);
}

TEST_F(ExportTest, OutputThatCannotBeWrittenIsNamed) {
  UseModel("deploy/quickstart/model");
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  std::ofstream(directory_ + "/file") << "not a directory";
  request_.job.output_dir = directory_ + "/file/out";
  const auto result = ExportArtifacts(&files_, request_);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(result.status().message()).find(request_.job.output_dir),
            std::string::npos);
}

}  // namespace
}  // namespace coxswain::exports
