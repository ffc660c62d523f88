// The trained text of a model that reads images goes back among what is beside it.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/files/read_file.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/files/weights/weight_files.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "controller/checkpoint/staging.h"
#include "controller/export/export_artifacts.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/image_text_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::exports {
namespace {

class TextPartExportTest : public testing::Test {
 protected:
  TextPartExportTest() {
    request_.job = config::DefaultSpec();
    request_.job.model_path = request_.plan.model_path = folder_.path() + "/model";
    request_.job.output_dir = folder_.path() + "/out";
    request_.checkpoint_dir = folder_.path() + "/checkpoint";
    std::filesystem::create_directories(request_.plan.model_path);
    std::filesystem::create_directories(request_.checkpoint_dir);
    support::WriteImageTextModel(request_.plan.model_path);
    const auto config = model::ReadModelConfig(request_.plan.model_path);
    EXPECT_TRUE(config.ok()) << config.status();
    request_.plan.model = *config;
    request_.plan.architecture = model::ArchitectureOf(*config);
    request_.plan.parameters = model::BaseParameterTable(*config);
  }

  // Every trained value is 0.5.
  void WriteCheckpoint() {
    std::vector<TensorSource> tensors;
    for (const model::Parameter& parameter : request_.plan.parameters) {
      if (!parameter.trainable()) continue;
      std::vector<int64_t> shape = {parameter.rows};
      if (parameter.cols > 1) shape.push_back(parameter.cols);
      tensors.push_back({parameter.name, ElementType::kF32, shape, [&parameter](uint8_t* out) {
                           const std::vector<float> values(
                               static_cast<size_t>(parameter.elements()), 0.5f);
                           std::memcpy(out, values.data(), values.size() * sizeof(float));
                           return absl::OkStatus();
                         }});
    }
    ASSERT_TRUE(WriteSafetensors(request_.checkpoint_dir + "/rank-0.safetensors", tensors).ok());
  }

  support::ScratchFolder folder_;
  DiskFiles files_;
  ExportRequest request_;
};

TEST_F(TextPartExportTest, KeepsNamesOfTheBaseAndWhatIsBesideTheText) {
  for (model::Parameter& parameter : request_.plan.parameters) parameter.group = 0;
  WriteCheckpoint();
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto base = WeightFiles::Open(request_.plan.model_path);
  const auto exported = WeightFiles::Open(result->directory);
  ASSERT_TRUE(base.ok() && exported.ok()) << exported.status();
  EXPECT_EQ((*exported)->tensors().size(), (*base)->tensors().size());
  for (const TensorInfo* tensor : (*base)->tensors()) {
    const TensorInfo* after = (*exported)->Find(tensor->name);
    ASSERT_NE(after, nullptr) << tensor->name;
    ASSERT_EQ(after->bytes, tensor->bytes) << tensor->name;
    const bool same =
        std::memcmp(after->data, tensor->data, static_cast<size_t>(tensor->bytes)) == 0;
    EXPECT_EQ(same, tensor->name == support::kBesideText) << tensor->name;
  }
}

TEST_F(TextPartExportTest, AConfigThatLostItsTextIsNamed) {
  for (model::Parameter& parameter : request_.plan.parameters) parameter.group = 0;
  WriteCheckpoint();
  folder_.Write("model/config.json", R"({"text_config": "gone"})");
  request_.plan.model.added_tokens = {.count = 1, .known = 1, .base_rows = 1};
  const absl::Status status = ExportArtifacts(&files_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("text_config"), std::string::npos) << status;
}

TEST_F(TextPartExportTest, AdapterNamesTheModulesOfTheTextAlone) {
  auto table = model::WithLora(request_.plan.parameters, request_.plan.model,
                               {2, {"q_proj", "v_proj"}, false});
  ASSERT_TRUE(table.ok()) << table.status();
  request_.plan.parameters = *table;
  for (model::Parameter& parameter : request_.plan.parameters) {
    parameter.group = model::IsAdapter(parameter) ? 0 : model::kFrozen;
  }
  request_.plan.lora.rank = 2;
  request_.plan.lora.scale = 1;
  request_.job.adapter = config::Adapter::kLora;
  WriteCheckpoint();
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto config = coxswain::ReadFile(result->directory + "/adapter_config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(nlohmann::json::parse(*config)["target_modules"],
            R"(model\.language_model\.layers\..*\.(q_proj|v_proj))");
  const auto adapter = SafetensorsFile::Open(result->directory + "/adapter_model.safetensors");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_NE((*adapter)->Find(
                "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight"),
            nullptr);
}

}  // namespace
}  // namespace coxswain::exports
