// Where an export goes: nothing of another is lost, nothing is half there.
#include <gtest/gtest.h>

#include <fstream>

#include "common/files/safetensors.h"
#include "controller/checkpoint/staging.h"
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
  TrainGroup(IsAdapter);
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
      EXPECT_EQ(first, kills < 5 ? 1.0f : 2.0f) << "killed at operation " << kills;
    }
    EXPECT_TRUE(fs::exists(adapter + "/adapter_config.json"));
    EXPECT_TRUE(fs::is_empty(request_.job.output_dir + "/.staging"));
    if (survived) break;
  }
  EXPECT_EQ(kills, 6);  // empty and make staging; room aside, aside, in place, remove
}

TEST_F(ExportTest, RunsAgainOverAnEarlierExportAndItsLeftovers) {
  UseModel("deploy/quickstart/model");
  AddLora(4, 8, false);
  TrainGroup(IsAdapter);
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
