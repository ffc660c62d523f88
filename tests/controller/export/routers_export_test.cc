// Adapters of routers leave as parameters, which peft reads, and merge into the base.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "common/model/files/file_rows.h"
#include "tests/controller/export/export_fixture.h"
#include "tests/support/golden_folder.h"

namespace coxswain::exports {
namespace routers_export_test {
namespace {

using Values = std::vector<float>;

std::map<std::string, Values> ReadAll(const std::string& path) {
  const auto file = SafetensorsFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  std::map<std::string, Values> tensors;
  for (const TensorInfo& tensor : (*file)->tensors()) {
    Values& values = tensors[tensor.name];
    values.resize(static_cast<size_t>(tensor.elements()));
    EXPECT_TRUE(CopyAsFloat(tensor, values.data()).ok());
  }
  return tensors;
}

// Adapters that peft made, as checkpoints.
class RoutersExportTest : public ExportTest {
 protected:
  // Of the golden case `name`. Adapts what `lora` says.
  void Adapt(const std::string& name, const model::LoraTable& lora) {
    fixture_ = support::GoldenFolder(name);
    if (!std::filesystem::exists(fixture_)) GTEST_SKIP() << "needs " << fixture_;
    UseModel(fixture_);
    golden_ = ReadAll(fixture_ + "/adapter/adapter_model.safetensors");
    auto table = model::WithLora(request_.plan.parameters, request_.plan.architecture, lora);
    ASSERT_TRUE(table.ok()) << table.status();
    request_.plan.parameters = *table;
    request_.plan.lora.rank = 4;
    request_.plan.lora.scale = 2;
    request_.job.adapter = config::Adapter::kLora;
    request_.job.lora.r = 4;
    request_.job.lora.alpha = 8;
    request_.job.lora.dropout = 0;
    TrainGroup(model::IsAdapter);
    WriteCheckpoint([&](const model::Parameter& parameter, float* out) {
      ASSERT_EQ(golden_.count(parameter.name), 1u) << parameter.name;
      Values values = golden_.at(parameter.name);
      ASSERT_EQ(static_cast<int64_t>(values.size()), parameter.elements());
      if (model::IsRankMajorInFiles(parameter)) {
        model::FromRankMajor(request_.plan.architecture, parameter, &values);
      }
      std::copy(values.begin(), values.end(), out);
    });
  }
  void AdaptMixtral(const std::vector<std::string>& parameters) {
    Adapt("moe/mixtral_router_lora", {4, {"q_proj", "v_proj"}, false, parameters});
  }
  nlohmann::json Written() {
    const auto result = ExportArtifacts(&files_, request_);
    EXPECT_TRUE(result.ok()) << result.status();
    return nlohmann::json::parse(
        support::ReadFile(request_.job.output_dir + "/adapter/adapter_config.json"));
  }
  // In tensors, and in what peft computes with it.
  void ExpectLikePeft() {
    const std::string adapter = request_.job.output_dir + "/adapter";
    EXPECT_EQ(ReadAll(adapter + "/adapter_model.safetensors"), golden_);
    const char* python = std::getenv("COXSWAIN_PYTHON");
    if (python == nullptr) GTEST_SKIP() << "needs COXSWAIN_PYTHON (tests/run.sh sets it)";
    const std::string command = std::string(python) + " tests/e2e/same_in_peft.py " + fixture_ +
                                " " + fixture_ + "/adapter " + adapter;
    const int status = std::system(command.c_str());
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs torch, transformers and peft";
    EXPECT_EQ(status, 0) << command;
  }

  std::string fixture_;
  std::map<std::string, Values> golden_;
};

TEST_F(RoutersExportTest, PeftComputesWhatItsOwnAdapterDoes) {
  AdaptMixtral({"mlp.gate.weight"});
  if (IsSkipped()) return;
  const nlohmann::json config = Written();
  EXPECT_EQ(config["target_modules"], nlohmann::json({"q_proj", "v_proj"}));
  EXPECT_EQ(config["target_parameters"], nlohmann::json({"mlp.gate.weight"}));
  EXPECT_TRUE(config["rank_pattern"].empty());
  ExpectLikePeft();
}

// What peft makes of target_modules: all-linear: gate and up have twice the rank.
TEST_F(RoutersExportTest, PeftComputesWhatItsOwnAdapterOfAllLinearsDoes) {
  Adapt("moe/glm4_moe_lite_linear_lora",
        {4,
         {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"},
         false,
         {"gate_up_proj", "down_proj", "gate.weight"},
         8});
  if (IsSkipped()) return;
  const nlohmann::json config = Written();
  EXPECT_EQ(
      config["target_parameters"],
      nlohmann::json({"mlp.gate.weight", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"}));
  const nlohmann::json theirs =
      nlohmann::json::parse(support::ReadFile(fixture_ + "/adapter/adapter_config.json"));
  for (const char* key : {"rank_pattern", "alpha_pattern", "r", "lora_alpha"}) {
    EXPECT_EQ(config[key], theirs[key]) << key;
  }
  ExpectLikePeft();
}

TEST_F(RoutersExportTest, ARouterOfSomeLayersLeavesByItsWholeName) {
  AdaptMixtral({"layers.1.mlp.gate.weight"});
  if (IsSkipped()) return;
  EXPECT_EQ(Written()["target_parameters"], nlohmann::json({"model.layers.1.mlp.gate.weight"}));
}

TEST_F(RoutersExportTest, ItMergesIntoTheRouterOfTheBase) {
  AdaptMixtral({"mlp.gate.weight"});
  if (IsSkipped()) return;
  request_.job.export_merge = true;
  request_.job.export_dtype = "float32";
  Written();
  const auto merged = ReadAll(request_.job.output_dir + "/model/model.safetensors");
  const auto base = ReadAll(fixture_ + "/model.safetensors");
  EXPECT_EQ(merged.size(), base.size());
  const int64_t hidden = request_.plan.model.hidden_size, rank = 4;
  for (const std::string layer : {"0", "1"}) {
    const std::string of_peft = "base_model.model.model.layers." + layer + ".mlp.gate.lora_";
    const Values& a = golden_.at(of_peft + "A.weight");
    const Values& b = golden_.at(of_peft + "B.weight");
    // The files of Mixtral call it otherwise.
    const std::string name = "model.layers." + layer + ".block_sparse_moe.gate.weight";
    const Values &was = base.at(name), &is = merged.at(name);
    for (size_t i = 0; i < is.size(); ++i) {
      const size_t row = i / hidden, column = i % hidden;
      double product = 0;
      for (int64_t k = 0; k < rank; ++k) {
        product += double{b[row * rank + k]} * double{a[k * hidden + column]};
      }
      // Rounding of four products, of their sum and of the sum with W.
      EXPECT_NEAR(is[i], was[i] + 2 * product, 1e-6) << name << " " << i;
    }
    EXPECT_NE(is, was);
    EXPECT_EQ(merged.at("model.layers." + layer + ".self_attn.k_proj.weight"),
              base.at("model.layers." + layer + ".self_attn.k_proj.weight"));
  }
}

}  // namespace
}  // namespace routers_export_test
}  // namespace coxswain::exports
