// How far a written model is from what was trained, and what its manifest says of the verification.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/controller/export/export_fixture.h"

namespace coxswain::exports {
namespace export_rounding_test {
namespace {

class ExportRoundingTest : public ExportTest {
 protected:
  void TrainAll(ElementType masters) {
    UseModel("deploy/quickstart/model");  // of bfloat16
    TrainGroup([](const model::Parameter&) { return true; });
    WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 1; }, masters);
  }
  // Every element of A and B is `value`.
  void TrainAdapter(float value) {
    UseModel("deploy/quickstart/model");
    AddLora(2, 8, false);
    TrainGroup(model::IsAdapter);
    WriteCheckpoint([value](const model::Parameter& parameter, float* out) {
      std::fill_n(out, parameter.elements(), value);
    });
    request_.job.export_merge = true;
  }
  StagedExport Staged() {
    absl::StatusOr<StagedExport> staged = StageArtifacts(&files_, request_);
    EXPECT_TRUE(staged.ok()) << staged.status();
    return staged.ok() ? *std::move(staged) : StagedExport();
  }
  // 2^-24 for each of the K products of the longest sum, at random.
  double OfSums() const {
    int64_t longest = 0;
    for (const model::Parameter& parameter : request_.plan.parameters) {
      longest = std::max(longest, parameter.cols);
    }
    return std::sqrt(static_cast<double>(longest)) * std::ldexp(1.0, -24);
  }
};

TEST_F(ExportRoundingTest, AFileOfTheTrainedTypeIsUnrounded) {
  TrainAll(ElementType::kF32);
  request_.job.export_dtype = "float32";
  EXPECT_FALSE(Staged().folders.at(0).rounded);
  TrainAll(ElementType::kBF16);
  request_.job.export_dtype = "bfloat16";
  EXPECT_FALSE(Staged().folders.at(0).rounded);
}

// The engine computes with the float32 master rounded as the file is.
TEST_F(ExportRoundingTest, AFileOfTheTypeOfComputeIsUnrounded) {
  TrainAll(ElementType::kF32);
  request_.plan.compute_dtype = Precision::kBfloat16;
  EXPECT_FALSE(Staged().folders.at(0).rounded);
}

TEST_F(ExportRoundingTest, ANarrowerFileIsRounded) {
  TrainAll(ElementType::kF32);
  for (const char* dtype : {"bfloat16", "float16"}) {
    request_.job.export_dtype = dtype;
    EXPECT_TRUE(Staged().folders.at(0).rounded) << dtype;
    EXPECT_EQ(Staged().folders.at(0).rounding, 0) << dtype;
  }
}

TEST_F(ExportRoundingTest, AMergedModelIsRoundedByItsUnitAndItsAdapterIsNot) {
  TrainAdapter(0);
  request_.plan.compute_dtype = Precision::kBfloat16;
  const StagedExport staged = Staged();
  ASSERT_EQ(staged.folders.size(), 2u);
  EXPECT_TRUE(staged.folders[0].adapter);
  EXPECT_EQ(staged.folders[0].rounding, 0);
  EXPECT_FALSE(staged.folders[1].adapter);
  EXPECT_DOUBLE_EQ(staged.folders[1].rounding, 2 * std::ldexp(1.0, -8) + OfSums());
  request_.job.export_dtype = "float16";
  EXPECT_DOUBLE_EQ(Staged().folders.at(1).rounding,
                   std::ldexp(1.0, -11) + std::ldexp(1.0, -8) + OfSums());
}

// Weights of about 0.02 in bfloat16 lie 2^-13 and more apart.
TEST_F(ExportRoundingTest, AnAdapterBelowHalfAUnitOfTheWeightsIsLost) {
  TrainAdapter(1e-4f);  // its product has elements of 4 x 2 x 1e-8
  EXPECT_NEAR(Staged().folders.at(1).lost, 1, 0.01);
  TrainAdapter(0.3f);  // of 0.72
  EXPECT_LT(Staged().folders.at(1).lost, 0.05);
  request_.job.export_dtype = "float32";
  TrainAdapter(1e-4f);
  EXPECT_EQ(Staged().folders.at(1).lost, 0);
}

TEST_F(ExportRoundingTest, AMergeOfAQuantisedBaseIsNotCompared) {
  TrainAdapter(0);
  request_.plan.quantization = Quantization::kNf4;
  const StagedExport staged = Staged();
  ASSERT_EQ(staged.folders.size(), 2u);
  EXPECT_EQ(staged.folders[0].verification.reason, "");
  EXPECT_EQ(staged.folders[1].verification.reason,
            "the job keeps its base as nf4, and the merged model is not to be quantised");
}

TEST_F(ExportRoundingTest, TheManifestHasTheFigure) {
  TrainAll(ElementType::kF32);
  StagedExport staged = Staged();
  EXPECT_FALSE(fs::exists(request_.job.output_dir + "/model")) << "it is not published yet";
  Verification& verification = staged.folders.at(0).verification;
  verification = {.artifact = "model",
                  .verified = true,
                  .records = 8,
                  .targets = 412,
                  .difference = 0.25,
                  .bound = 0.5,
                  .bound_from = "the roundings",
                  .seconds = 2};
  ASSERT_TRUE(PublishArtifacts(&files_, request_, staged).ok());
  const auto manifest = nlohmann::json::parse(
      support::ReadFile(request_.job.output_dir + "/model/coxswain_manifest.json"));
  EXPECT_EQ(manifest["verification"], (nlohmann::json{{"outcome", "verified"},
                                                      {"records", 8},
                                                      {"targets", 412},
                                                      {"difference", 0.25},
                                                      {"bound", 0.5},
                                                      {"bound_from", "the roundings"},
                                                      {"seconds", 2.0}}));
}

TEST_F(ExportRoundingTest, WithoutAGangTheManifestSaysSo) {
  TrainAll(ElementType::kF32);
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  const auto manifest = nlohmann::json::parse(
      support::ReadFile(request_.job.output_dir + "/model/coxswain_manifest.json"));
  EXPECT_EQ(manifest["verification"],
            (nlohmann::json{{"outcome", "skipped"}, {"reason", "it was written without a gang"}}));
}

}  // namespace
}  // namespace export_rounding_test
}  // namespace coxswain::exports
