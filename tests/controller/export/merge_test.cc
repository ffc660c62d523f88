// What an adapter is merged into.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/files/safetensors/safetensors.h"
#include "common/files/weights/weight_files.h"
#include "tests/controller/export/export_fixture.h"

namespace coxswain::exports {
namespace {

using support::ReadFile;

TEST_F(ExportTest, PiecesOfRanksExportAsTheWhole) {
  UseModel("deploy/quickstart/model");
  AddLora(4, 8, false);
  TrainGroup(model::IsAdapter);
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) out[i] = 0.01f * static_cast<float>(i % 11 - 5);
  });
  request_.job.export_merge = true;
  std::string files[2];
  for (const bool cut : {false, true}) {
    if (cut) {
      CutCheckpoint(directory_ + "/pieces");
      request_.checkpoint_dir = directory_ + "/pieces";
    }
    const auto result = ExportArtifacts(&files_, request_);
    ASSERT_TRUE(result.ok()) << result.status();
    files[cut] = ReadFile(request_.job.output_dir + "/adapter/adapter_model.safetensors") +
                 ReadFile(request_.job.output_dir + "/model/model.safetensors");
  }
  EXPECT_GT(files[0].size(), 1000u);
  EXPECT_TRUE(files[0] == files[1]);
  fs::remove(directory_ + "/pieces/rank-1.safetensors");
  const absl::Status status = ExportArtifacts(&files_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(ExportTest, MergeAddsTheScaledProductAndShardsWithAnIndex) {
  const std::string model = "deploy/quickstart/model";
  UseModel(model);
  AddLora(4, 8, false);
  TrainGroup(model::IsAdapter);
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) out[i] = 0.01f * static_cast<float>(i % 5 - 2);
  });
  request_.job.export_merge = true;
  request_.job.export_dtype = "float32";
  request_.job.export_max_shard_bytes = 4 << 20;
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  const std::string merged_dir = request_.job.output_dir + "/model";
  EXPECT_TRUE(fs::exists(merged_dir + "/model.safetensors.index.json"));
  EXPECT_EQ(nlohmann::json::parse(ReadFile(merged_dir + "/config.json"))["dtype"], "float32");
  auto base = WeightFiles::Open(model);
  auto merged = WeightFiles::Open(merged_dir);
  ASSERT_TRUE(base.ok() && merged.ok()) << merged.status();
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const TensorInfo* w = (*base)->Find(name);
  const TensorInfo* m = (*merged)->Find(name);
  ASSERT_TRUE(w != nullptr && m != nullptr);
  const int64_t rows = w->shape[0], cols = w->shape[1];
  std::vector<float> before(rows * cols), after(rows * cols);
  ASSERT_TRUE(CopyAsFloat(*w, before.data()).ok());
  ASSERT_TRUE(CopyAsFloat(*m, after.data()).ok());
  const auto value = [](int64_t i) { return 0.01 * static_cast<double>(i % 5 - 2); };
  for (int64_t i = 0; i < rows; i += 37) {
    for (int64_t j = 0; j < cols; j += 41) {
      double product = 0;
      for (int64_t k = 0; k < 4; ++k) product += value(i * 4 + k) * value(k * cols + j);
      // Four products of magnitude 4e-4, one addition: within 8 eps of the larger operand.
      EXPECT_NEAR(after[i * cols + j], before[i * cols + j] + 2.0 * product, 8 * 6e-8);
    }
  }
}

// Source: Liu et al., DoRA, 2024, equation 5.
TEST_F(ExportTest, MergeGivesEveryRowItsMagnitude) {
  const std::string model = "deploy/quickstart/model";
  UseModel(model);
  AddLora(4, 8, false, /*dora=*/true);
  TrainGroup(model::IsAdapter);
  const auto value = [](int64_t i) { return 0.01 * static_cast<double>(i % 5 - 2); };
  const auto length = [](int64_t i) { return 0.5 + static_cast<double>(i % 7); };
  WriteCheckpoint([&](const model::Parameter& p, float* out) {
    const bool magnitude = p.name.find("magnitude") != std::string::npos;
    for (int64_t i = 0; i < p.elements(); ++i) {
      out[i] = static_cast<float>(magnitude ? length(i) : value(i));
    }
  });
  request_.job.export_merge = true;
  request_.job.export_dtype = "float32";
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  auto base = WeightFiles::Open(model);
  auto merged = WeightFiles::Open(request_.job.output_dir + "/model");
  ASSERT_TRUE(base.ok() && merged.ok()) << merged.status();
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const TensorInfo* w = (*base)->Find(name);
  const TensorInfo* m = (*merged)->Find(name);
  ASSERT_TRUE(w != nullptr && m != nullptr);
  const int64_t rows = w->shape[0], cols = w->shape[1];
  std::vector<float> before(rows * cols), after(rows * cols);
  ASSERT_TRUE(CopyAsFloat(*w, before.data()).ok());
  ASSERT_TRUE(CopyAsFloat(*m, after.data()).ok());
  for (int64_t i = 0; i < rows; i += 37) {
    std::vector<double> sum(cols);
    double squares = 0;
    for (int64_t j = 0; j < cols; ++j) {
      sum[j] = static_cast<double>(before[i * cols + j]);
      for (int64_t k = 0; k < 4; ++k) sum[j] += 2.0 * value(i * 4 + k) * value(k * cols + j);
      squares += sum[j] * sum[j];
    }
    // Rounded as above, then by the factor and the product.
    const double factor = length(i) / std::sqrt(squares);
    for (int64_t j = 0; j < cols; j += 41) {
      EXPECT_NEAR(after[i * cols + j], sum[j] * factor, 12 * 6e-8 * factor) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace coxswain::exports
