#include "controller/planner/model/base_weights.h"

#include <algorithm>
#include <filesystem>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "controller/planner/model/tied_head.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::planner {
namespace {

class BaseWeightsTest : public testing::Test {
 protected:
  BaseWeightsTest() {
    job_.init = BaseInit::kPretrained;
    job_.model_path = folder_.path();
    for (const model::Parameter& parameter : model::BaseParameterTable(model_)) {
      std::vector<int64_t> shape = {parameter.rows};
      if (parameter.cols != 1) shape.push_back(parameter.cols);
      const auto bytes = static_cast<size_t>(parameter.elements() * 4);
      tensors_.push_back({parameter.name, ElementType::kF32, shape, [bytes](uint8_t* out) {
                            std::fill_n(out, bytes, uint8_t{0});
                            return absl::OkStatus();
                          }});
    }
  }
  std::string File() const { return job_.model_path + "/model.safetensors"; }
  std::string Refusal() {
    EXPECT_TRUE(WriteSafetensors(File(), tensors_).ok());
    return std::string(CheckBaseWeights(job_, model_).message());
  }

  const support::ScratchFolder folder_;
  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
  std::vector<TensorSource> tensors_;
};

TEST_F(BaseWeightsTest, AcceptsTheModelAndNamesATensorOfAnotherShape) {
  EXPECT_EQ(Refusal(), "");
  model_.intermediate_size = 48;
  EXPECT_EQ(Refusal(), File() +
                           ": tensor \"model.layers.0.mlp.gate_proj.weight\" has shape [40, 16], "
                           "config.json asks for [48, 16]");
  job_.init = BaseInit::kRandom;
  EXPECT_EQ(Refusal(), "");
}

TEST_F(BaseWeightsTest, NamesAMissingTensor) {
  std::erase_if(tensors_, [](const TensorSource& tensor) {
    return tensor.name == "model.layers.2.self_attn.k_proj.bias";
  });
  EXPECT_EQ(Refusal(), job_.model_path +
                           ": tensor \"model.layers.2.self_attn.k_proj.bias\" is missing; "
                           "config.json asks for [8]");
}

TEST_F(BaseWeightsTest, QuantisedFilesAreAsConfigJsonSays) {
  job_.model_path = support::GoldenFolder("llama_qlora");
  model_ = *model::ReadModelConfig(job_.model_path);
  EXPECT_TRUE(CheckBaseWeights(job_, model_).ok());
  model_.quantization = Quantization::kInt8;
  const std::string message(CheckBaseWeights(job_, model_).message());
  EXPECT_NE(message.find("model.safetensors: tensor \"model.layers.0.self_attn.q_proj.weight\" is "
                         "nf4_double, by quantization_config of config.json it should be int8"),
            std::string::npos)
      << message;
  model_.intermediate_size = 96;
  EXPECT_FALSE(CheckBaseWeights(job_, model_).ok());
}

// bitsandbytes can leave modules out; they would be quantised here, and give other numbers.
TEST_F(BaseWeightsTest, LinearsThatFilesLeaveUnquantisedAreNamed) {
  model_.quantization = Quantization::kNf4;
  EXPECT_EQ(Refusal().find(File() + ": tensor \"model.layers.0.self_attn.q_proj.weight\" is not "
                                    "quantised, by quantization_config of config.json it should "
                                    "be nf4"),
            0u);
}

TEST_F(BaseWeightsTest, Mxfp4OfConfigJsonIsInTheFiles) {
  job_.model_path = support::GoldenFolder("moe/gpt_oss_mxfp4_attn_lora");
  if (!std::filesystem::exists(job_.model_path)) GTEST_SKIP() << "needs " << job_.model_path;
  model_ = *model::ReadModelConfig(job_.model_path);
  EXPECT_EQ(model_.quantization, Quantization::kMxfp4);
  EXPECT_TRUE(CheckBaseWeights(job_, model_).ok());
  job_.model_path += "/dequantised";
  const std::string message(CheckBaseWeights(job_, model_).message());
  EXPECT_NE(message.find("tensor \"model.layers.0.mlp.experts.gate_up_proj\" is not quantised, by "
                         "quantization_config of config.json it should be mxfp4; write "
                         "quantization: {format: none}"),
            std::string::npos)
      << message;
  job_.quantization = "none";
  EXPECT_TRUE(CheckBaseWeights(job_, model_).ok());
}

TEST_F(BaseWeightsTest, RefusesAFileCutShort) {
  EXPECT_EQ(Refusal(), "");
  std::filesystem::resize_file(File(), std::filesystem::file_size(File()) - 1);
  const absl::Status status = CheckBaseWeights(job_, model_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("model.safetensors"), absl::string_view::npos) << status;
  std::filesystem::remove(File());
  EXPECT_EQ(CheckBaseWeights(job_, model_).code(), absl::StatusCode::kNotFound);
}

// A head of the file's, all of whose bytes are `value`, beside an embedding of zeros.
class TiedHeadTest : public BaseWeightsTest {
 protected:
  absl::Status Untie(uint8_t value, ElementType dtype = ElementType::kF32) {
    const auto bytes = static_cast<size_t>(128 * 16 * ElementBits(dtype) / 8);
    tensors_.push_back({"lm_head.weight", dtype, {128, 16}, [bytes, value](uint8_t* out) {
                          std::fill_n(out, bytes, value);
                          return absl::OkStatus();
                        }});
    EXPECT_TRUE(WriteSafetensors(File(), tensors_).ok());
    return UntieDifferingHead(job_, &model_, &warnings_);
  }
  std::vector<std::string> warnings_;
};

TEST_F(TiedHeadTest, ADifferingHeadIsKeptWithAWarning) {
  ASSERT_TRUE(Untie(1).ok());
  EXPECT_FALSE(model_.tie_embeddings);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("lm_head.weight beside model.embed_tokens.weight"), std::string::npos)
      << warnings_[0];
  EXPECT_TRUE(CheckBaseWeights(job_, model_).ok());
}

TEST_F(TiedHeadTest, AnEqualHeadStaysTied) {
  ASSERT_TRUE(Untie(0).ok());
  EXPECT_TRUE(model_.tie_embeddings);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TiedHeadTest, OfAnotherDtypeTheValuesCount) {
  ASSERT_TRUE(Untie(0, ElementType::kBF16).ok());
  EXPECT_TRUE(model_.tie_embeddings);
}

TEST_F(TiedHeadTest, AFileWithoutAHeadStaysTied) {
  EXPECT_EQ(Refusal(), "");
  ASSERT_TRUE(UntieDifferingHead(job_, &model_, &warnings_).ok());
  EXPECT_TRUE(model_.tie_embeddings);
}

}  // namespace
}  // namespace coxswain::planner
