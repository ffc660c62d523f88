// Mixtures of experts leave as their files had them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/files/file_rows.h"
#include "common/model/files/stacked_files.h"
#include "tests/controller/export/export_fixture.h"
#include "tests/support/golden_folder.h"

namespace coxswain::exports {
namespace experts_export_test {
namespace {

using Values = std::vector<float>;
using Json = nlohmann::json;

constexpr int64_t kExperts = 2, kInner = 32;

Json GptOss() {
  return {{"architectures", {"GptOssForCausalLM"}},
          {"dtype", "float32"},
          {"vocab_size", 40},
          {"hidden_size", 32},
          {"intermediate_size", kInner},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"num_local_experts", kExperts},
          {"num_experts_per_tok", 1}};
}

Json Glm() {
  return {{"architectures", {"Glm4MoeForCausalLM"}},
          {"dtype", "float32"},
          {"vocab_size", 40},
          {"hidden_size", 32},
          {"intermediate_size", 48},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"n_routed_experts", kExperts},
          {"num_experts_per_tok", 1},
          {"moe_intermediate_size", kInner},
          {"num_nextn_predict_layers", 1}};
}

struct Tensor {
  ElementType dtype{};
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};
using FileTensors = std::map<std::string, Tensor>;

// Different in every element and exact in bfloat16.
Tensor Numbered(const std::vector<int64_t>& shape, size_t seed) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  Values values(static_cast<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>((i * 37 + seed * 11) % 251) - 125) / 64.0f;
  }
  Tensor tensor{ElementType::kF32, shape, std::vector<uint8_t>(values.size() * sizeof(float))};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

Values ValuesOf(const Tensor& tensor) {
  Values values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

void Write(const std::string& path, const FileTensors& tensors) {
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : tensors) {
    sources.push_back({name, tensor.dtype, tensor.shape, [&tensor](uint8_t* out) {
                         std::copy(tensor.bytes.begin(), tensor.bytes.end(), out);
                         return absl::OkStatus();
                       }});
  }
  ASSERT_TRUE(WriteSafetensors(path, sources).ok());
}

FileTensors Read(const std::string& path) {
  const auto file = SafetensorsFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  FileTensors tensors;
  for (const TensorInfo& tensor : (*file)->tensors()) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.data);
    tensors[tensor.name] = {tensor.dtype, tensor.shape, {bytes, bytes + tensor.bytes}};
  }
  return tensors;
}

class ExpertsExportTest : public ExportTest {
 protected:
  // A base of the config with every tensor that its family has.
  void UseBase(const Json& config) {
    support::ScratchFolder config_only;
    config_only.Write("config.json", config.dump());
    UseModel(config_only.path());
    size_t seed = 0;
    for (const model::Parameter& parameter : request_.plan.parameters) {
      const auto stack = model::StackedFilesOf(request_.plan.architecture, parameter);
      std::vector<int64_t> shape = {parameter.rows};
      if (parameter.cols > 1) shape.push_back(parameter.cols);
      if (stack.empty()) base_[parameter.name] = Numbered(shape, seed++);
      for (const model::StackedFile& file : stack) {
        for (int64_t matrix = 0; matrix < kExperts / file.matrices(); ++matrix) {
          base_[file.NameOf(matrix)] = Numbered(file.shape(), seed++);
        }
      }
    }
  }

  void WriteBase(const Json& config) {
    const std::string model = directory_ + "/model";
    fs::create_directories(model);
    folder_.Write("model/config.json", config.dump());
    Write(model + "/model.safetensors", base_);
    UseModel(model);
  }

  // A parameter as memory has it.
  Values InMemory(const model::Parameter& parameter) const {
    const auto stack = model::StackedFilesOf(request_.plan.architecture, parameter);
    if (stack.empty()) return ValuesOf(base_.at(parameter.name));
    Values values(static_cast<size_t>(parameter.elements()));
    const int64_t of_matrix = parameter.elements() / parameter.batch;
    for (const model::StackedFile& file : stack) {
      for (int64_t matrix = 0; matrix < parameter.batch; ++matrix) {
        const Values read = ValuesOf(base_.at(file.NameOf(matrix)));
        const int64_t begin = file.one_each() ? 0 : matrix * file.rows * file.cols;
        model::ToMemoryMatrix(file, read.data() + begin, values.data() + matrix * of_matrix);
      }
    }
    return values;
  }

  FileTensors Exported() {
    const auto result = ExportArtifacts(&files_, request_);
    EXPECT_TRUE(result.ok()) << result.status();
    return Read(request_.job.output_dir + "/model/model.safetensors");
  }

  FileTensors base_;
};

void ExpectSame(const FileTensors& got, const FileTensors& want) {
  for (const auto& [name, tensor] : want) {
    ASSERT_EQ(got.count(name), 1u) << name;
    EXPECT_EQ(got.at(name).shape, tensor.shape) << name;
    EXPECT_TRUE(got.at(name).bytes == tensor.bytes) << name;
  }
  EXPECT_EQ(got.size(), want.size());
}

// Stacks transposed and in turns, biases, sinks.
TEST_F(ExpertsExportTest, AFullTuneHasTheFormOfItsBase) {
  UseBase(GptOss());
  WriteBase(GptOss());
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([this](const model::Parameter& parameter, float* out) {
    const Values values = InMemory(parameter);
    std::copy(values.begin(), values.end(), out);
  });
  ExpectSame(Exported(), base_);
}

// What corrects the choice keeps its dtype, and further layers stay as they are.
TEST_F(ExpertsExportTest, BuffersAndFurtherLayersStayAsTheyAre) {
  UseBase(Glm());
  base_["model.layers.2.eh_proj.weight"] = Numbered({32, 64}, 7);
  WriteBase(Glm());
  TrainGroup([](const model::Parameter& parameter) { return !model::IsBuffer(parameter); });
  WriteCheckpoint([this](const model::Parameter& parameter, float* out) {
    const Values values = InMemory(parameter);
    std::copy(values.begin(), values.end(), out);
  });
  ExpectSame(Exported(), base_);
  request_.job.export_dtype = "bfloat16";
  const FileTensors rounded = Exported();
  const std::string name = "model.layers.1.mlp.gate.e_score_correction_bias";
  EXPECT_EQ(rounded.at(name).dtype, ElementType::kF32);
  EXPECT_TRUE(rounded.at(name).bytes == base_.at(name).bytes);
  EXPECT_EQ(rounded.at("model.layers.1.mlp.gate.weight").dtype, ElementType::kBF16);
}

// What balancing has moved is in the checkpoint, and leaves in float32 beside an adapter too.
TEST_F(ExpertsExportTest, ABiasThatMovedIsThatOfTheCheckpoint) {
  UseBase(Glm());
  WriteBase(Glm());
  AddLora(4, 8, false, /*dora=*/false, {"q_proj"});
  const auto moved = [](const model::Parameter& p) {
    return model::IsAdapter(p) || model::IsBuffer(p);
  };
  TrainGroup(moved);  // the tensors of the checkpoint
  WriteCheckpoint([](const model::Parameter& parameter, float* out) {
    std::fill_n(out, parameter.elements(), model::IsBuffer(parameter) ? 0.123f : 0.0f);
  });
  TrainGroup(model::IsAdapter);
  request_.job.export_merge = true;
  const std::string name = "model.layers.1.mlp.gate.e_score_correction_bias";
  EXPECT_TRUE(Exported().at(name).bytes == base_.at(name).bytes) << "nothing moves it";
  request_.plan.router_bias_rate = 0.001;
  for (const char* dtype : {"source", "bfloat16"}) {
    request_.job.export_dtype = dtype;
    const FileTensors exported = Exported();
    EXPECT_EQ(exported.at(name).dtype, ElementType::kF32);
    EXPECT_EQ(ValuesOf(exported.at(name)), Values(kExperts, 0.123f));
  }
}

// Blocks leave as what they stand for, in the form without blocks.
TEST_F(ExpertsExportTest, MergeIntoABaseInMxfp4) {
  Json config = GptOss();
  UseBase(config);
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  FileTensors plain = base_;
  for (const char* layer : {"0", "1"}) {
    for (const auto& [stack, rows, cols] : {std::tuple{"gate_up_proj", 2 * kInner, int64_t{32}},
                                            std::tuple{"down_proj", int64_t{32}, kInner}}) {
      const std::string name =
          std::string("model.layers.") + layer + ".mlp.experts." + std::string(stack);
      Tensor codes{ElementType::kU8, {kExperts, rows, cols / 32, 16}, {}};
      Tensor scales{ElementType::kU8, {kExperts, rows, cols / 32}, {}};
      Values values(static_cast<size_t>(kExperts * rows * cols));
      for (int64_t i = 0; i < kExperts * rows; ++i) {
        scales.bytes.push_back(static_cast<uint8_t>(120 + i % 9));
        for (int64_t j = 0; j < cols; j += 2) {
          // 1.5 and -4: codes 3 and 14, the first in the low nibble.
          codes.bytes.push_back(static_cast<uint8_t>(3 | 14 << 4));
          const float scale = std::ldexp(1.0f, static_cast<int>(i % 9) - 7);
          const int64_t expert = i / rows, row = i % rows;
          values[static_cast<size_t>((expert * cols + j) * rows + row)] = 1.5f * scale;
          values[static_cast<size_t>((expert * cols + j + 1) * rows + row)] = -4.0f * scale;
        }
      }
      base_.erase(name);
      base_[name + "_blocks"] = codes;
      base_[name + "_scales"] = scales;
      Tensor& wanted = plain[name];
      wanted.shape = {kExperts, cols, rows};
      std::memcpy(wanted.bytes.data(), values.data(), wanted.bytes.size());
    }
  }
  WriteBase(config);
  AddLora(4, 8, false, /*dora=*/false, {"q_proj"});
  TrainGroup(model::IsAdapter);
  WriteCheckpoint([](const model::Parameter& parameter, float* out) {
    std::fill_n(out, parameter.elements(), 0.0f);
  });
  request_.job.export_merge = true;
  request_.job.export_dtype = "float32";
  ExpectSame(Exported(), plain);
  const Json written =
      Json::parse(support::ReadFile(request_.job.output_dir + "/model/config.json"));
  EXPECT_FALSE(written.contains("quantization_config"));
  request_.job.export_dtype = "source";
  EXPECT_EQ(Exported().at("model.layers.0.mlp.experts.down_proj").dtype, ElementType::kBF16);
}

// The stacks of the exported adapter, from the tensors of single experts, in memory order.
Values FromExperts(const FileTensors& file, const plan::Plan& plan, const model::Parameter& p) {
  model::Parameter base = p;
  base.part = model::Part::kBase;
  Values values(static_cast<size_t>(p.elements()));
  const bool a = model::IsLoraA(p);
  const int64_t of_expert = p.elements() / p.batch;
  for (model::StackedFile linear : model::StackedFilesOf(plan.architecture, base)) {
    if (!a) linear.cols = p.cols;
    for (int64_t expert = 0; expert < p.batch; ++expert) {
      const Tensor& tensor = file.at(model::SingleExpertKey(linear, expert, p.part));
      EXPECT_EQ(tensor.shape[1], p.cols);
      const Values read = ValuesOf(tensor);
      float* matrix = values.data() + expert * of_expert;
      if (a) {
        std::copy(read.begin(), read.end(), matrix);
      } else {
        model::ToMemoryMatrix(linear, read.data(), matrix);
      }
    }
  }
  return values;
}

TEST_F(ExpertsExportTest, AnAdapterOfExpertsLeavesByExpert) {
  UseBase(Glm());
  WriteBase(Glm());
  auto table =
      model::WithLora(request_.plan.parameters, request_.plan.architecture,
                      {4,
                       {"q_proj"},
                       false,
                       {"mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"}});
  ASSERT_TRUE(table.ok()) << table.status();
  request_.plan.parameters = *table;
  request_.plan.lora.rank = 4;
  request_.job.adapter = config::Adapter::kLora;
  request_.job.export_by_expert = true;
  TrainGroup(model::IsAdapter);
  const auto value = [](const model::Parameter& parameter, float* out) {
    for (int64_t i = 0; i < parameter.elements(); ++i) {
      out[i] = static_cast<float>(i % 97) + static_cast<float>(parameter.name.size());
    }
  };
  WriteCheckpoint(value);
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  const std::string folder = request_.job.output_dir + "/adapter/";
  const FileTensors file = Read(folder + "adapter_model.safetensors");
  for (const model::Parameter& parameter : request_.plan.parameters) {
    if (parameter.kind != model::Kind::kExperts || !model::IsAdapter(parameter)) continue;
    Values wanted(static_cast<size_t>(parameter.elements()));
    value(parameter, wanted.data());
    EXPECT_EQ(file.count(parameter.name), 0u);
    EXPECT_EQ(FromExperts(file, request_.plan, parameter), wanted) << parameter.name;
  }
  EXPECT_EQ(file.at("base_model.model.model.layers.1.mlp.experts.1.up_proj.lora_B.weight").shape,
            (std::vector<int64_t>{kInner, 4}));
  // up_proj is also the shared expert's and the dense block's name, which are not adapted.
  const Json config = Json::parse(support::ReadFile(folder + "adapter_config.json"));
  // peft would take "gate" among the modules for a parameter, where it knows the family.
  EXPECT_EQ(config["target_parameters"], Json({"mlp.gate.weight"}));
  EXPECT_EQ(file.count("base_model.model.model.layers.1.mlp.gate.lora_A.weight"), 1u);
  EXPECT_EQ(config["target_modules"],
            R"(model\.layers\.\d+\.mlp\.experts\.\d+\.down_proj|)"
            R"(model\.layers\.\d+\.mlp\.experts\.\d+\.gate_proj|)"
            R"(model\.layers\.\d+\.mlp\.experts\.\d+\.up_proj|)"
            R"(model\.layers\.0\.self_attn\.q_proj|model\.layers\.1\.self_attn\.q_proj)");
}

// PEFT fuses gate and up of an expert, of rank 4 each, into one of rank 8: another order of sums in
// float32, 64 eps.
TEST_F(ExpertsExportTest, PeftComputesTheSameByExpert) {
  const std::string fixture = support::GoldenFolder("moe/qwen3_moe_expert_lora");
  UseModel(fixture);
  auto table = model::WithLora(request_.plan.parameters, request_.plan.architecture,
                               {4,
                                {"q_proj", "k_proj", "v_proj", "o_proj"},
                                false,
                                {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}});
  ASSERT_TRUE(table.ok()) << table.status();
  request_.plan.parameters = *table;
  request_.plan.lora.rank = 4;
  request_.job.adapter = config::Adapter::kLora;
  request_.job.lora.alpha = 8;
  request_.job.export_by_expert = true;
  TrainGroup(model::IsAdapter);
  const auto golden = SafetensorsFile::Open(fixture + "/adapter/adapter_model.safetensors");
  ASSERT_TRUE(golden.ok()) << golden.status();
  WriteCheckpoint([&](const model::Parameter& parameter, float* out) {
    const TensorInfo* tensor = (*golden)->Find(parameter.name);
    ASSERT_NE(tensor, nullptr) << parameter.name;
    Values values(static_cast<size_t>(parameter.elements()));
    ASSERT_TRUE(CopyAsFloat(*tensor, values.data()).ok());
    if (model::IsRankMajorInFiles(parameter)) {
      model::FromRankMajor(request_.plan.architecture, parameter, &values);
    }
    std::copy(values.begin(), values.end(), out);
  });
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const char* python = std::getenv("COXSWAIN_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "needs COXSWAIN_PYTHON (tests/run.sh sets it)";
  const std::string command = std::string(python) + " tests/e2e/same_in_peft.py " + fixture + " " +
                              fixture + "/adapter " + result->directory + " 7.6e-6";
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs torch, transformers and peft";
  EXPECT_EQ(status, 0) << command;
}

Json Deepseek() {
  return {{"architectures", {"DeepseekV3ForCausalLM"}},
          {"dtype", "float32"},
          {"vocab_size", 40},
          {"hidden_size", 32},
          {"intermediate_size", 48},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 4},
          {"q_lora_rank", nullptr},
          {"kv_lora_rank", 16},
          {"qk_nope_head_dim", 8},
          {"qk_rope_head_dim", 8},
          {"v_head_dim", 8},
          {"n_routed_experts", kExperts},
          {"n_group", 1},
          {"topk_group", 1},
          {"num_experts_per_tok", 1},
          {"moe_intermediate_size", kInner},
          {"first_k_dense_replace", 1},
          {"num_nextn_predict_layers", 1}};
}

// peft 0.21 would take gate_proj for that of the experts.
TEST_F(ExpertsExportTest, AdaptersOfPlainMlpsAreNamedAsParameters) {
  const auto written = [this](const std::vector<std::string>& targets, bool dora) {
    UseBase(Deepseek());
    WriteBase(Deepseek());
    AddLora(4, 8, false, dora, targets);
    request_.job.lora.dropout = dora ? 0.0 : 0.1;
    TrainGroup(model::IsAdapter);
    WriteCheckpoint([](const model::Parameter& parameter, float* out) {
      std::fill_n(out, parameter.elements(), 1.0f);
    });
    const auto result = ExportArtifacts(&files_, request_);
    EXPECT_TRUE(result.ok()) << result.status();
    return Json::parse(support::ReadFile(result->directory + "/adapter_config.json"));
  };
  const Json all = written({"all-linear"}, false);
  const Json attention = {"kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "q_proj"};
  EXPECT_EQ(all["target_modules"], attention);
  EXPECT_EQ(all["target_parameters"],
            Json({"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight",
                  "mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",
                  "mlp.shared_experts.down_proj.weight"}));
  EXPECT_EQ(all["lora_dropout"], 0.0);
  const Json plain = written({"o_proj"}, false);
  EXPECT_TRUE(plain["target_parameters"].is_null());
  EXPECT_EQ(plain["lora_dropout"], 0.1);
  EXPECT_TRUE(written({"all-linear"}, /*dora=*/true)["target_parameters"].is_null());
}

// Layer 0 has such a module too.
TEST_F(ExpertsExportTest, ALinearOfOneLayerIsNamedAsAWhole) {
  Json config = Deepseek();
  config["num_hidden_layers"] = 3;
  config["first_k_dense_replace"] = 2;
  UseBase(config);
  WriteBase(config);
  AddLora(4, 8, false, /*dora=*/false, {"model.layers.1.mlp.down_proj"});
  TrainGroup(model::IsAdapter);
  WriteCheckpoint([](const model::Parameter& parameter, float* out) {
    std::fill_n(out, parameter.elements(), 1.0f);
  });
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const Json written = Json::parse(support::ReadFile(result->directory + "/adapter_config.json"));
  EXPECT_EQ(written["target_parameters"], Json::array({"model.layers.1.mlp.down_proj.weight"}));
}

// The linears leave as what they stand for, those of further layers too, without their scales.
TEST_F(ExpertsExportTest, MergeIntoABaseInFp8) {
  Json config = Deepseek();
  UseBase(config);
  base_["model.layers.2.eh_proj.weight"] = Numbered({32, 64}, 7);
  FileTensors plain = base_, in_fp8 = base_;
  for (const auto& [name, tensor] : base_) {
    if (!name.ends_with("proj.weight") && !name.ends_with("mqa.weight")) continue;
    Tensor codes{ElementType::kF8E4M3, tensor.shape, {}};
    Values values;
    for (size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) {
      codes.bytes.push_back(i % 3 == 0 ? 0x3C : 0xC4);  // 1.5 and -3
      values.push_back((i % 3 == 0 ? 1.5f : -3.0f) * 0.375f);
    }
    std::memcpy(plain[name].bytes.data(), values.data(), plain[name].bytes.size());
    const float scale = 0.375f;
    Tensor scales{ElementType::kF32, {1, 1}, std::vector<uint8_t>(sizeof(scale))};
    std::memcpy(scales.bytes.data(), &scale, sizeof(scale));
    in_fp8[name] = codes;
    in_fp8[name + "_scale_inv"] = scales;
  }
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  base_ = in_fp8;
  WriteBase(config);
  AddLora(4, 8, false, /*dora=*/false, {"o_proj"});
  TrainGroup(model::IsAdapter);
  WriteCheckpoint([](const model::Parameter& parameter, float* out) {
    std::fill_n(out, parameter.elements(), 0.0f);
  });
  request_.job.export_merge = true;
  ExpectSame(Exported(), plain);
  const Json written =
      Json::parse(support::ReadFile(request_.job.output_dir + "/model/config.json"));
  EXPECT_FALSE(written.contains("quantization_config"));
}

}  // namespace
}  // namespace experts_export_test
}  // namespace coxswain::exports
